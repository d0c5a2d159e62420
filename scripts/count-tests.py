#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up a JUnit report of Meson's: count-tests.py REPORT STATUS

A test program that could not run at all counts as one failure, and a report without a passing test
is a failure whatever the status says. The slowest ten are listed: tests that said how long they took
("# took 2.5 s: NAME"), and whole programs that did not.
"""
import re
import sys
import xml.etree.ElementTree as tree

report, status = sys.argv[1], int(sys.argv[2])
passed = failed = skipped = 0
times = []
unsteady = []
try:
    suites = tree.parse(report).getroot().iter("testsuite")
except (OSError, tree.ParseError) as problem:
    print(f"no report: {problem}", file=sys.stderr)
    suites = []
    failed = 1
for suite in suites:
    said = re.findall(r"^# took ([\d.]+) s: (.*)", suite.findtext("system-out") or "", re.M)
    program = suite.get("name").split(" / ")[-1]
    times += [(float(seconds), f"{program}: {name}") for seconds, name in said] or [(float(suite.get("time") or 0), program)]
    unsteady += re.findall(r"^# unsteady: .*", suite.findtext("system-out") or "", re.M)
    for case in suite.iter("testcase"):
        if case.find("skipped") is not None:
            skipped += 1
            print(f"skipped: {suite.get('name')}: {case.get('name')}", file=sys.stderr)
        elif case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            print(f"failed: {suite.get('name')}: {case.get('name')}", file=sys.stderr)
        else:
            passed += 1
if status != 0 and failed == 0:
    failed = 1
for line in unsteady:
    print(line)
print("slowest ten:")
for seconds, name in sorted(times, reverse=True)[:10]:
    print(f"{seconds:8.1f} s  {name}")
print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or not passed else 0)
