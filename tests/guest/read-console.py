#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the TAP of the guest's suites out of its serial console, prints it as one, and exits 1 when
a test failed, a suite ended badly or the guest did not get to its end."""
import re
import sys

number = failed = 0
suite, failed_before, ended = None, 0, False


def result(good, text):
    global number, failed
    number += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {number} - {text}")


with open(sys.argv[1], errors="replace") as console:
    lines = console.read().splitlines()
for line in lines:
    if m := re.match(r"guest: begin (\S+)", line):
        suite, failed_before = m[1], failed
    elif m := re.match(r"guest: end (\S+) (\d+) (.*)", line):
        if m[2] != "0" and failed == failed_before:
            result(False, f"{suite}: ended with status {m[2]}")
        print(f"# {suite} {m[3]}")
        suite = None
    elif m := re.match(r"guest: kernel (.*)", line):
        print(f"# kernel {m[1]}")
    elif line == "guest: done":
        ended = True
    elif suite and (m := re.match(r"(not ok|ok) \d+ - (.*)", line)):
        result(m[1] == "ok", f"{suite}: {m[2]}")
    elif suite and line.startswith("#"):
        print(line)
result(ended and number > 0, "the guest ran all its suites")
if not ended:
    for line in lines[-40:]:
        print("# " + line)
print(f"1..{number}")
sys.exit(1 if failed else 0)
