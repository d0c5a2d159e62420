#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the folders of src/ include, held against the table in ARCHITECTURE.md; which files write a
state, against what their headers say; and where the warden names a kind of cell.

The build does not hold the layers: a library's dependencies bring their own along, so that an
include in the wrong direction may well link."""
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))

# By the headers that others include it by.
LIBRARIES = {"jansson": "jansson.h", "libuv": "uv.h", "OpenSSL": "openssl/", "sqlite3": "sqlite3.h", "libyaml": "yaml.h",
             "PCRE2": "pcre2.h", "llhttp": "llhttp.h", "wslay": "wslay/", "libcurl": "curl/", "libxml2": "libxml/",
             "libarchive": "archive", "libseccomp": "seccomp.h", "libnftables": "nftables/"}

# What comments say that only some files do: the comment's file, the folder that it is about, what those files have in
# them, and which they are.
CLAIMS = [
    ("src/api/action-internal.h", "api", r"\ba->status = ", "api/action.c api/action-table.c"),
    ("src/engine/engine.h", "engine", r"\bdialect_(?:podman|docker)\b|\bbackend [!=]= ",
     "engine/engine.h engine/dialect.c engine/podman.c engine/docker.c"),
    ("src/guard/approval.h", "guard", r"->state = ", "guard/approval.c guard/approval-row.c"),
    ("src/guard/gate.h", "*", r"\bgate_decide\(", "guard/gate.h guard/gate.c guard/gate-port.c tool/run-gate.c tool/network-change.c"),
    ("src/identity/keys-internal.h", "*", r'#include "identity/keys-internal.h"',
     "identity/keys.c identity/keys-row.c identity/keys-secret.c identity/keys-rate.c"),
    ("src/net/admit.c", "net", r"--\w+->n_conns|n_conns(?:--|\+\+)", "net/admit.c"),
    ("src/net/tls.h", "net", r"\bSSL_\w+\(|\bSSL \*", "net/tls.c net/pin.c net/pin.h"),
    ("src/sandbox/sandbox.h", "sandbox", r"->state = SANDBOX_", "sandbox/sandbox.c sandbox/sandbox-create.c"),
    ("src/sandbox/exec.c", "sandbox", r"(?:\br|result\.|e)(?:->)?status = ", "sandbox/exec.c sandbox/persist.c"),
    ("src/tool/run.h", "*", r"(?<!pid_t pid = )(?<!static pid_t )\bexec_start\(",
     "sandbox/exec.h sandbox/exec-start.c tool/run.c"),
    ("src/tool/run.h", "tool", r"->phase = ", "tool/run.c"),
    ("src/toolrunner/exec.h", "toolrunner", r"->state = EXEC_", "toolrunner/exec.c"),
    ("src/warden/state.h", "warden", r"\bn_(?:plain|armed)\b", "warden/state.h warden/blank.c"),
    ("src/warden/state.h", "warden", r"->state = CELL_", "warden/cell-spawn.c warden/cell-start.c warden/cell-end.c"),
]
# The words of such a comment.
CLAIM = re.compile(r"\b[Oo]nly (?:[\w/-]+\.c\b|\w+\(\) \([\w-]+\.c\))|\bonly (?:file|place) that\b|\bonly way to start\b"
                   r"|\b[Nn]o other file\b|\.c only\b")


def text(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def sources(folder="*"):
    return glob.glob(os.path.join(ROOT, "src", folder, "**", "*.[ch]"), recursive=True)


def folder_of(path):
    return os.path.relpath(path, os.path.join(ROOT, "src")).split(os.sep)[0]


FOLDERS = {folder_of(p) for p in sources()}


def library_of(header):
    return next((name for name, start in LIBRARIES.items() if header.startswith(start)), None)


def included():
    """{folder: {a header of another folder, or a library: a file that includes it}}"""
    graph = {f: {} for f in FOLDERS}
    for path in sources():
        own = folder_of(path)
        for quote, header in re.findall(r'^#\s*include (["<])([^">]+)[">]', text(path), re.M):
            used = header if quote == '"' else library_of(header)
            if used and used.split("/")[0] != own:
                graph[own][used] = os.path.relpath(path, ROOT)
    return graph


def names(word, used):
    """Whether a word of a row names what is used: that header, all of its folder, or the library."""
    return word in (used, used.split("/")[0])


def table():
    """{folder: what it may use, in the order of the document}"""
    section = text(os.path.join(ROOT, "ARCHITECTURE.md")).split("\n## Folders\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)`[^|]*\|[^|]*\|([^|]*)\|$", section, re.M)
    return {folder: [w.strip() for w in uses.split(",")] for folder, uses in rows}


@test("every folder has a row, and every word of a row is a folder, a header or a library")
def test_every_folder_has_a_row_and_every_word_of_a_row():
    rows = table()
    equal(sorted(rows), sorted(FOLDERS))
    known = lambda w: w in FOLDERS or w in LIBRARIES or os.path.exists(os.path.join(ROOT, "src", w))
    for folder, uses in rows.items():
        equal([w for w in uses if not known(w)], [], folder)


@test("a folder includes what its row names, and nothing else")
def test_a_folder_includes_what_its_row_names_and_nothing():
    rows = table()
    wrong = [f"{path} includes {used}, and the row of '{folder}' does not name it"
             for folder, uses in included().items() for used, path in sorted(uses.items())
             if not any(names(w, used) for w in rows[folder])]
    equal(wrong, [])


@test("a row names what its folder includes, and nothing else")
def test_a_row_names_what_its_folder_includes_and_nothing():
    graph = included()
    idle = [f"'{folder}' names {w}" for folder, uses in table().items() for w in uses
            if not any(names(w, used) for used in graph[folder])]
    equal(idle, [])


@test("a folder uses those above it only")
def test_a_folder_uses_those_above():
    above = set()
    for folder, uses in table().items():
        equal([w for w in uses if w not in LIBRARIES and w.split("/")[0] not in above], [], folder)
        above.add(folder)


# A comparison with one engine or OCI runtime. What differs between them is a member of a row: of
# struct engine_dialect and engine_runtime (engine), oci_flavour and warden_kind.
BACKEND = "|".join(re.findall(r"\b(OCI_(?!NONE)\w+),", text(os.path.join(ROOT, "src/proto/plan.h")).split("enum oci_backend {")[1].split("}")[0]))
COMPARISON = rf"\b(?:backend|inner) *[!=]= *\w|[!=]= *(?:{BACKEND})\b|\bcase (?:{BACKEND})\b"
# The rows themselves, and where the two sorts of backend are told apart.
ROWS = {"engine/podman.c", "engine/docker.c", "proto/plan.h"}


@test("no file but a row's own asks which engine or OCI runtime it is")
def test_no_file_but_a_row_own_asks_which_engine_or_oci():
    found = [f"{os.path.relpath(p, ROOT)}: {line.strip()}" for p in sources()
             if os.path.relpath(p, os.path.join(ROOT, "src")) not in ROWS
             for line in text(p).splitlines() if re.search(COMPARISON, line)]
    equal(found, [])


def comments(path):
    whole = text(path)
    found = [whole] if path.endswith(".md") else re.findall(r"/\*.*?\*/", whole, re.S)
    return re.sub(r"\n(?: \*)?\s*", " ", "\n".join(found))


@test("a file that a comment names exists: beside it or anywhere in src without a folder, else at that path")
def test_a_file_that_a_comment_names_exists_beside():
    names = {os.path.basename(p) for p in sources()}
    wrong = []
    for path in sources():
        places = (os.path.dirname(path), os.path.join(ROOT, "src"), ROOT)
        for name in re.findall(r"(?<![\w./<-])([\w/-]{2,}\.(?:[ch]|py))\b", comments(path)):
            found = name in names or any(os.path.exists(os.path.join(d, name)) for d in places)
            wrong += [] if found else [f"{os.path.relpath(path, ROOT)}: {name}"]
    equal(wrong, [])


@test("what a comment says that only some files do, no other file does")
def test_what_a_comment_says_that_only_some_files():
    for _, folder, pattern, files in CLAIMS:
        found = {os.path.relpath(p, os.path.join(ROOT, "src")) for p in sources(folder) if re.search(pattern, text(p))}
        equal(found, set(files.split()), f"{folder}: {pattern}")


@test("a comment that says so is held to it")
def test_a_comment_that_says_so_is_held():
    documents = glob.glob(os.path.join(ROOT, "*.md")) + glob.glob(os.path.join(ROOT, "docs/**/*.md"), recursive=True)
    said = {os.path.relpath(p, ROOT) for p in sources() + documents if CLAIM.search(comments(p))}
    equal(said - {where for where, *_ in CLAIMS}, {"docs/architecture/policy-and-gate.md"})  # of run_start(), as run.h


@test("each phase of a run is in the table of phases that tool/run.h has, in order")
def test_each_phase_of_a_run_is_in_the_table_of_phases():
    header = text(os.path.join(ROOT, "src/tool/run.h"))
    enum = re.search(r"enum run_phase \{(.*?)\};", header, re.S)[1]
    phases = re.findall(r"^    RUN_(\w+),", enum, re.M)
    equal(re.findall(r"^ \*  ([A-Z]+) +\w", header, re.M), [p for p in phases if p != "DONE"])


def kind_rows():
    """{member of enum cell_kind: the folder in src/warden where its row is defined}"""
    rows = dict(re.findall(r"\[(CELL_\w+)\] = &(\w+)", text(os.path.join(ROOT, "src/warden/kind.c"))))
    defined = {row: os.path.basename(os.path.dirname(p)) for p in sources("warden")
               for row in re.findall(r"^const struct cell_ops (\w+) = ", text(p), re.M)}
    return {kind: defined[row] for kind, row in rows.items()}


@test("every kind of cell has a row, in a folder of its own")
def test_every_kind_of_cell_has_a_row_in_a_folder():
    enum = re.search(r"enum cell_kind \{(.*?)\};", text(os.path.join(ROOT, "src/warden/kind.h")), re.S)[1]
    rows = kind_rows()
    equal(sorted(re.findall(r"^    (CELL_\w+),", enum, re.M)), sorted(rows))
    equal(len(set(rows.values())), len(rows))
    check("warden" not in rows.values(), rows)


# The flags of a plan by which the rows' functions `takes` choose a kind.
KIND_FLAGS = {flag for p in sources("warden") for takes in re.findall(r"^static bool \w+_takes\(.*?^}", text(p), re.M | re.S)
              for flag in re.findall(r"\bPLAN_\w+", takes)}
# A comparison with what a plan says of its kind; the flags that choose one; a row.
KIND_QUESTIONS = (r"(?:->|\.|\b)(?:kind|backend|ops)\s*[!=]=\s*(?!WATCH_|NULL)\w", rf"\b(?:{'|'.join(KIND_FLAGS)})\b",
                  r"\boci_backend_is_engine\b", r"\bOCI_[A-Z]+\b", r"&cell_\w+\b", r"switch \([^)]*\b(?:kind|backend)\)")


@test("no file of the warden includes a header of a kind from outside of that kind's folder")
def test_no_file_of_the_warden_includes_a_header():
    # Files in local/ are also mechanisms that several kinds use: mounts, disks, ids, images.
    kinds = set(kind_rows().values()) - {"local"}
    wrong = [f"{os.path.relpath(path, ROOT)} includes warden/{header}" for path in sources("warden")
             for header in re.findall(r'^#include "warden/([^"]+)"', text(path), re.M)
             if os.path.dirname(header) in kinds and os.path.basename(os.path.dirname(path)) != os.path.dirname(header)]
    equal(wrong, [])


@test("no file of the warden names a kind, or asks for one, outside of that kind's folder")
def test_no_file_of_the_warden_names_a_kind_or_asks():
    folder = kind_rows()
    check(len(KIND_FLAGS) > 1, f"control: kinds are chosen by flags: {KIND_FLAGS}")
    wrong = []
    for path in sources("warden"):
        name = os.path.relpath(path, os.path.join(ROOT, "src/warden"))
        if name in ("kind.h", "kind.c"):
            continue
        own = os.path.dirname(name)
        code = re.sub(r"/\*.*?\*/", lambda m: "\n" * m[0].count("\n"), text(path), flags=re.S)
        for i, line in enumerate(code.split("\n"), 1):
            named = [k for k in re.findall(r"\bCELL_\w+\b", line) if folder.get(k, own) != own]
            asked = [] if own in folder.values() else [q for q in KIND_QUESTIONS if re.search(q, line)]
            wrong += [f"{name}:{i}: {line.strip()}"] if named or asked else []
    equal(wrong, [])


@test("every source file says its license")
def test_every_source_file_says_its_license():
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "*.c", "*.h", "*.py", "*.sh", "*.zsh", "*.build", "*.[1-8]", "*.map", "*.conf",
                            "*.in", "*.yml", "*.yaml", "debian/*.postinst", "debian/*.postrm",
                            ":!fuzz/corpus"], stdout=subprocess.PIPE,
                           text=True).stdout.split() or [os.path.relpath(p, ROOT) for p in sources()]
    check(len(files) > 500, files)
    equal([f for f in files if "SPDX-License-Identifier: Apache-2.0" not in text(os.path.join(ROOT, f))[:400]
           and os.path.exists(os.path.join(ROOT, f))], [])


main()
