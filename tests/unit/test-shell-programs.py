#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The option tables of src/shell against what the programs of this host say themselves: an option that takes a value in one
and none in the other makes the words behind it mean something else than they do. The programs' own --help is asked, and what
it does not say of an option is not compared. Options that a row does not have are not known, which is safe."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

DUMP = os.path.join(BUILD, "tests/unit/dump-shell-options")
SINGLE, PREFIX, OPAQUE = 1 << 7, 1 << 8, 1 << 9
NONE, OPTIONAL, REQUIRED = "no value", "a value that is glued to it, if any", "a value"
KINDS = {"-": NONE, "?": OPTIONAL, "*": OPTIONAL, ":": REQUIRED, "2": REQUIRED}
# What asks for help where --help does not, or asks another program.
ASKED = {"ssh": ["ssh", "-?"], "scp": ["scp", "-?"], "sftp": ["sftp", "-?"], "perl": ["perl", "-h"], "nc": ["nc", "-h"], "unzip": ["unzip", "-hh"],
         "zip": ["zip", "-h2"], "mawk": ["mawk", "-W", "help"], "curl": ["curl", "--help", "all"], "ssh-agent": ["ssh-agent", "-?"],
         "pytest": ["pytest", "--help"], "go": ["go", "help"]}
# Not programs with such a help, or with more than that to do when they are asked.
NOT_ASKED = {"busybox", "true", "false", "pwd", "cpan", "mvn", "corepack", "npx", "npm", "meson", "dotenv", "openssl", "psql", "wish", "tclsh",
             "newgrp", "sg", "java", "javac", "capsh", "node", "nodejs", "kubectl", "heaptrack", "convert", "systemctl", "pyenv", "ipython",
             "unlink", "time", "git", "go", "gofmt"}
# What their help says otherwise than they do, each tried.
KNOWN = {
    ("ctest", "--build-makeprogram"): "it has a value",
    ("ctest", "--overwrite"): "it has a value",
    ("file", "-P"): "it has a value, name=value",
    ("file", "--parameter"): "it has a value, name=value",
    ("pytest", "--cache-show"): "an optional value",
    ("pytest", "--debug"): "an optional value",
    ("wget", "--max-redirect"): "it has a value",
    ("xargs", "--max-lines"): "an optional value, as xargs(1) says",
    ("zgrep", "-e"): "it has a pattern, as grep's",
}
KNOWN |= {("size", "-" + letter): "no value: each is one value of the long option beside it" for letter in "ABGodx"}
KNOWN |= {("prlimit", "-" + letter): "an optional value, as prlimit(1) says" for letter in "cdefilmnqrstuvxy"}
KNOWN |= {(f"git.diff-{what}", name): "an optional value, as git-diff(1) says" for what in ("files", "index", "tree")
          for name in ("-B", "-C", "-M", "--abbrev")}
# Values are never words of their own.
GLUED = {"valgrind"}


def table():
    rows, flags = {}, {}
    out = subprocess.run([DUMP], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in out.splitlines():
        program, row_flags, name, values, _ = line.split("\t")
        flags[program] = int(row_flags)
        own = rows.setdefault(program, {})
        if not name:
            continue
        bundled = not name.startswith("--") and not int(row_flags) & (SINGLE | PREFIX)
        for option in (["-" + letter for letter in name[1:]] if bundled else [name]):
            own.setdefault(option, KINDS[values])
    return rows, flags


def ask(words):
    with tempfile.TemporaryDirectory() as place:
        try:
            p = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, cwd=place,
                               env={"PATH": os.environ["PATH"], "HOME": place, "LC_ALL": "C.UTF-8", "COLUMNS": "200", "PAGER": "cat"})
        except (OSError, subprocess.TimeoutExpired):
            return ""
    return p.stdout.decode(errors="replace")


# -x, --long[=VALUE], --long=VALUE, --long VALUE, --long <value>; a description is two blanks away.
NAME = r"(?:--(?:\[no-\])?[A-Za-z0-9][A-Za-z0-9_.-]*|-[A-Za-z0-9@#])"
VALUE = r"(?:\[=[^\]]*\]|\[[^ ]*\]|=\S+| ?<[^>]*>(?:\.\.\.)?|[ ][A-Z][A-Z0-9_:|\[\],.-]*(?= |$|,))"
ENTRY = re.compile(rf"^\s{{1,12}}({NAME}{VALUE}?(?:(?:, ?| or |\s*/\s*|\|| {{1,2}}(?=-)){NAME}{VALUE}?)*)(?=\s{{2,}}|\s*$|\t|\s*:|\s+-\s)", re.M)
ONE = re.compile(rf"({NAME})({VALUE})?")
# Of programs that only have a line of usage: [-abc] [-o FILE] [-w[BYTES]]
SYNOPSIS = re.compile(r"\[-([A-Za-z0-9]+)(?:(\[[^\]]*\])|( +[A-Za-z<][^\]|]*))?\]")


def kind_of(name, value):
    """None: it is one of the values of an option, or a mode whose values are operands."""
    if not value:
        return NONE
    if re.match(r"=[a-z]", value) or value.endswith("..."):
        return None
    if value.startswith("["):  # -v[v[v]] is a letter that can be repeated
        return NONE if set(value) <= set("[]" + name[1:]) else OPTIONAL
    return REQUIRED


def read_entry(entry, found):
    """"-n, --lines=NUM": what the long one has, the short one has, too, unless it is optional: then a short one may have none."""
    options = ONE.findall(entry)
    own = {name.replace("[no-]", ""): kind_of(name, value) for name, value in options}
    if None in own.values():
        return
    long, short = (({k for n, k in own.items() if n.startswith("--") == is_long}) for is_long in (True, False))
    for name, kind in own.items():
        kinds = {kind}
        if kind == NONE and not name.startswith("--") and short == {NONE} and long:
            kinds = {REQUIRED} if REQUIRED in long else {NONE, OPTIONAL} if OPTIONAL in long else {NONE}
        elif kind == NONE and name.startswith("--"):
            kinds = {REQUIRED} if long == {NONE} and short == {REQUIRED} else kinds
        found.setdefault(name, set()).update(kinds)


def said(text):
    """What the help says of each option; where it says several things, all of them."""
    found = {}
    for entry in ENTRY.finditer(text):
        read_entry(entry[1], found)
    if not found:
        for letters, optional, value in SYNOPSIS.findall(text):
            for letter in letters[:-1]:
                found.setdefault("-" + letter, set()).add(NONE)
            found.setdefault("-" + letters[-1], set()).add(OPTIONAL if optional else REQUIRED if value else NONE)
    for kinds in found.values():
        if kinds == {NONE, REQUIRED}:
            kinds.add(OPTIONAL)
    return found


def agree(name, row, kinds, glued):
    """A long option without `=` has no value, whether it could have one or not; so has any where values are always glued."""
    if (glued or name.startswith("--")) and row != REQUIRED and kinds & {NONE, OPTIONAL}:
        return True
    return row in kinds or (glued and row == OPTIONAL)


def compare(program, row, text, flags=0):
    """Options of which row and help say different things."""
    found = []
    for name, kinds in said(text).items():
        if name in row and not agree(name, row[name], kinds, flags & PREFIX or program in GLUED) and (program, name) not in KNOWN:
            found.append(f"{program} {name}: the row says {row[name]}, the program {' or '.join(sorted(kinds))}")
    return found


def is_asked(program, flags):
    return "." not in program and program not in NOT_ASKED and not flags & OPAQUE and shutil.which(program)


@test("the parser of help texts reads what is there, and no more")
def test_the_parser_of_help_texts():
    text = ("Usage: x [-q]\n  -a, --all                  all\n  -n, --lines=[-]NUM         lines\n  -i[SUFFIX], --in-place[=SUFFIX]\n        edit\n"
            "      --color[=WHEN]         when\n  -C <dir>, --chdir <dir>    there\n  -s NAME                    name\n  -l or -m   both\n"
            "  -x exclude the following names\n -j [ --jobs ] arg  jobs\n  -t, --track[=MODE]  mode\n  -c, -U NUM, --context[=NUM]  lines\n"
            "  -p, --style=slash  one of its values\n  -L, --listed <package>...  a mode\n  -v[v[v]]  more\n")
    wanted = {"-a": {NONE}, "--all": {NONE}, "-n": {REQUIRED}, "--lines": {REQUIRED}, "-i": {OPTIONAL}, "--in-place": {OPTIONAL}, "--color": {OPTIONAL},
              "-C": {REQUIRED}, "--chdir": {REQUIRED}, "-s": {REQUIRED}, "-l": {NONE}, "-m": {NONE}, "-t": {NONE, OPTIONAL},
              "--track": {OPTIONAL}, "-c": {NONE}, "-U": {REQUIRED}, "--context": {OPTIONAL}, "-v": {NONE}}
    equal(said(text), wanted)
    equal(compare("p", {"-a": REQUIRED, "-n": REQUIRED, "--color": NONE}, text),
          [f"p -a: the row says {REQUIRED}, the program {NONE}"], "a fault is found")
    equal(said("usage: x [-46v] [-B name] [-w[bytes]]"), {"-4": {NONE}, "-6": {NONE}, "-v": {NONE}, "-B": {REQUIRED}, "-w": {OPTIONAL}})


@test("options take a value in the tables where the programs of this host say that they do, and nowhere else")
def test_options_take_values_where_programs_say_so():
    rows, flags = table()
    check(len(rows) > 500, "there are rows")
    faults, compared, silent, absent = [], 0, 0, 0
    for program, row in sorted(rows.items()):
        if not is_asked(program, flags[program]):
            absent += "." not in program
            continue
        text = ask(ASKED.get(program, [program, "--help"]))
        n = len(set(said(text)) & set(row))
        compared, silent = compared + n, silent + (n == 0)
        faults += compare(program, row, text, flags[program])
    print(f"# {compared} options compared; {silent} programs say nothing of theirs, {absent} are not here or not asked")
    check(compared > 200, "programs of this host were asked")
    equal(faults, [], "\n" + "\n".join(faults))


@test("the same for the subcommands of git")
def test_the_same_for_git():
    if not shutil.which("git"):
        raise Skip("there is no git")
    rows, _ = table()
    faults, compared = [], 0
    for program, row in sorted(rows.items()):
        if program.startswith("git.") and program.count(".") == 1:
            text = ask(["git", program[4:], "-h"])
            compared += len(set(said(text)) & set(row))
            faults += compare(program, row, text)
    print(f"# {compared} options compared")
    check(compared > 100, "git was asked")
    equal(faults, [], "\n" + "\n".join(faults))


main()
