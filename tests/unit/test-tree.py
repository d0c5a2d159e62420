#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What holds for the whole tree, whatever its files do: format, names of tests, what scripts of the Makefile print."""
import ast
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
REPORT = """<testsuites>
<testsuite name="p:unit / long" time="9.0"><testcase name="1 - a"/><testcase name="2 - b"/>
<system-out>ok 1 - a
# took 6.5 s: a
ok 2 - b
1..2</system-out></testsuite>
<testsuite name="p:unit / whole" time="7.25"><testcase name="1 - c"/></testsuite>
%s
</testsuites>"""


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


@test("every test function has a name, which is what a traceback shows")
def test_every_test_function_has_a_name():
    scripts = glob.glob("tests/**/*.py", root_dir=ROOT, recursive=True)
    check(len(scripts) > 50, "there are scripts")
    equal([s for s in scripts if re.search(r"^\s*def _+\(", read(s), re.M)], [], "scripts with functions without names")


@test("one version, in the build, the packages, the description of the API and the news")
def test_one_version():
    version = re.search(r"^  version: '([\d.]+)'", read("meson.build"), re.M)[1]
    equal(re.match(r"mas-sandbox \(([\d.]+)\) ", read("debian/changelog"))[1], version, "debian/changelog")
    equal(re.findall(r'"version": "(\d+\.\d+\.\d+)"', read("docs/openapi.json")), [version, version], "docs/openapi.json")
    headings = re.findall(r"^## (.*)$", read("NEWS.md"), re.M)
    released = [h for h in headings if h != "Next"]
    check(headings.index(released[0]) <= 1 and re.fullmatch(re.escape(version) + r" \(\d{4}-\d\d-\d\d\)", released[0]), headings)


def lists_processes(text):
    """Whether a script itself, and not a program that it runs elsewhere, walks over /proc."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("listdir", "scandir", "glob", "iglob"):
            place = getattr(node.args[0], "value", None) if node.args else None
            if isinstance(place, str) and re.match(r"/proc/?(\[|\*|$)", place):
                return True
    return False


@test("only tests/lib/processes.py lists processes, because they end while they are looked at")
def test_only_one_file_lists_processes():
    check(lists_processes(read("tests/lib/processes.py")), "control: it is found where it is")
    scripts = glob.glob("tests/**/*.py", root_dir=ROOT, recursive=True)
    equal([s for s in scripts if lists_processes(read(s))], ["tests/lib/processes.py"])


@test("C sources are formatted by .clang-format, where version 14 is installed")
def test_sources_are_formatted():
    p = subprocess.run([os.path.join(ROOT, "scripts/format.sh"), "check"], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, timeout=300)
    if p.returncode == 77:
        raise Skip(p.stdout.strip())
    equal((p.returncode, p.stdout), (0, ""), "format.sh check")


def count_tests(suites, status=0):
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
        report.write(REPORT % suites)
        report.flush()
        p = subprocess.run([os.path.join(ROOT, "scripts/count-tests.py"), report.name, str(status)], timeout=60,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return p.returncode, p.stdout.splitlines()


@test("make check prints its slowest ten: tests that said how long they took, programs that did not")
def test_the_slowest_ten_are_printed():
    quick = "".join(f'<testsuite name="p:unit / quick{n}" time="0.5"><testcase name="1 - x"/></testsuite>' for n in range(20))
    code, lines = count_tests(quick)
    equal(code, 0, "status")
    equal(lines[:3], ["slowest ten:", "     7.2 s  whole", "     6.5 s  long: a"], "the slowest first")
    equal((len(lines), lines[-1]), (12, "23 passed, 0 failed"), "ten of them, and the sum is the last line")


@test("a report with a failure, and one of a run that failed, are failures")
def test_a_report_with_a_failure_is_a_failure():
    failing = '<testsuite name="p:unit / bad"><testcase name="1 - x"><failure/></testcase></testsuite>'
    code, lines = count_tests(failing)
    equal((code, lines[-1]), (1, "3 passed, 1 failed"), "a failing test")
    code, lines = count_tests("", status=1)
    equal((code, lines[-1]), (1, "3 passed, 1 failed"), "a run that failed by itself")


main()
