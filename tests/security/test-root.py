#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""P22: what runs as root, in lines of code and libraries, held against the table in SECURITY.md. The lines
are those of the sources that the linker took, by the programs' own debug information."""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT_DIR = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def table():
    """{program: (lines, libraries)}"""
    with open(os.path.join(ROOT_DIR, "SECURITY.md"), encoding="utf-8") as f:
        part = f.read().split("| program as root |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `([\w-]+)` \| (\d+) \|([^|]*)\|$", part, re.M)
    return {name: (int(lines), {l.strip() for l in libraries.split(",") if l.strip()})
            for name, lines, libraries in rows}


def sources(program):
    """The C files below src that the program was linked of. One that the build wrote holds a text and no code."""
    info = subprocess.run(["readelf", "--debug-dump=info", "--dwarf-depth=1", os.path.join(BUILD, program)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    files = re.findall(r"DW_AT_name +:.*?(src/[\w/.-]+\.c)$", info, re.M)
    return {f for f in files if not os.path.exists(os.path.join(BUILD, f))}


def code_lines(path):
    with open(os.path.join(ROOT_DIR, path), encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", f.read(), flags=re.S)
    return sum(1 for line in text.splitlines() if line.strip())


def library(path):
    """libc.so.6 and its loader are one."""
    name = os.path.basename(path).split(".so")[0]
    return "libc" if name.startswith("ld-") else name


def needed(program):
    out = subprocess.run(["readelf", "-d", os.path.join(BUILD, program)], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {library(n) for n in re.findall(r"\(NEEDED\).*\[(.*)\]", out)} - SANITIZERS


SANITIZERS = {"libasan", "libubsan", "libm", "libgcc_s", "libstdc++"} if SANITIZED else set()


def is_root(pid):
    return "0" in status_of(pid).get("Uid", "").split()


def mapped(pid):
    """Libraries in its memory, without those that another one of them asks for: what libcrypto is made of differs."""
    files = {line.split(maxsplit=5)[5].strip() for line in proc_text(pid, "maps").splitlines() if "/" in line}
    files = {f for f in files if ".so" in f}
    brought = set().union(*(needed(f) for f in files))
    return {library(f) for f in files} - (brought - needed(f"/proc/{pid}/exe")) - SANITIZERS


@test("P22 programs that run as root have no more lines than SECURITY.md says")
def test_p22_programs_that_run_as_root_have_no_more_lines():
    rows = table()
    check(rows, "there is a table")
    over = []
    for program, (most, _) in rows.items():
        files = sources(program)
        check(len(files) > 10, f"{program} has no debug information: {files}")
        lines = sum(code_lines(f) for f in files)
        print(f"# {program}: {len(files)} files, {lines} lines of code, at most {most}")
        if lines > most:
            over.append(f"{program} has {lines} lines: raise the figure in SECURITY.md with a sentence that says why")
    equal(over, [])


@test("P22 programs that run as root are linked with the libraries that SECURITY.md names")
def test_p22_programs_that_run_as_root_are_linked():
    for program, (_, libraries) in table().items():
        print(f"# {program}: {', '.join(sorted(needed(program))) or 'static'}")
        equal(sorted(needed(program) - libraries), [], program)


@test("P22 of a running daemon, only these programs are root, and they have mapped nothing else")
def test_p22_of_a_running_daemon_only_these_programs():
    if os.geteuid():
        raise Skip("the daemon is not root here")
    rows = table()
    with Daemon() as d:
        d.run("true")
        seen = {}
        for pid in filter(is_root, [d.process.pid, *below(d.process.pid)]):
            try:
                program, libraries = program_of(pid), mapped(pid)
            except subprocess.CalledProcessError:  # readelf found nothing to read
                check(not lives(pid), f"{pid} cannot be read")
            if lives(pid):  # what was seen of one that has ended may be half of it
                seen.setdefault(program, set()).update(libraries)
        check("mas-warden" in seen, "the warden is root")
        for program, libraries in sorted(seen.items()):
            print(f"# {program}: {', '.join(sorted(libraries)) or 'static'}")
            check(program in rows, f"{program} runs as root")
            equal(sorted(libraries - rows[program][1]), [], program)


main()
