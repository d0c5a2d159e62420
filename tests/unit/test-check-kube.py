#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/check-kube.sh makes of scripts that pass, fail, skip and do not start; and that images of one name can be made at the
same time, which all of those scripts do. The scripts here are small ones of the test's own, and start no servers."""
import hashlib
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
# Ends before its first case unless the file beside it is there, which it makes.
STARTS_LATE = """import os, sys
if not os.path.exists(__file__ + ".tried"):
    open(__file__ + ".tried", "w").close()
    sys.exit("the API server ended: no such luck")
print("ok 1 - it runs")
"""
# Counts how many of its kind are there; each stays until it was counted by all that can be there with it.
COUNTS = """import os, time
here = os.path.dirname(__file__)
mine = f"{here}/there-{os.getpid()}"
open(mine, "w").close()
end = time.monotonic() + 0.5
most = 0
while time.monotonic() < end:
    most = max(most, sum(name.startswith("there-") for name in os.listdir(here)))
    time.sleep(0.01)
os.unlink(mine)
print(f"{'ok' if most <= 2 else 'not ok'} 1 - {most} at once")
"""


def tools_in(cache):
    """The programs that it looks for, with their sums. Nothing here runs them."""
    env = dict(os.environ, XDG_CACHE_HOME=cache)
    where = subprocess.run([f"{ROOT}/scripts/kube-tools.sh", "--where"], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    os.makedirs(where)
    for name in ("etcd", "kube-apiserver"):
        with open(f"{where}/{name}", "w", encoding="utf-8") as f:
            f.write(name)
        with open(f"{where}/{name}.sha256", "w", encoding="utf-8") as f:
            f.write(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")


def checked(scripts, tools=True, **env):
    """What check-kube.sh prints, and its status. scripts: name to text."""
    with tempfile.TemporaryDirectory() as d:
        if tools:
            tools_in(d)
        for name, text in scripts.items():
            with open(f"{d}/{name}", "w", encoding="utf-8") as f:
                f.write(text)
        env = dict({k: v for k, v in os.environ.items() if k != "MAS_TRY_AGAIN"}, XDG_CACHE_HOME=d, KUBE_DIR=d, **env)
        p = subprocess.run([f"{ROOT}/scripts/check-kube.sh", d], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return p.returncode, p.stdout.splitlines()


def without_times(lines):
    return [line for line in lines if not re.match(r"# \d+ s: ", line)]


@test("passed, failed and skipped are counted, and a failed case is shown with its reason")
def counted():
    status, lines = checked({"test-a.py": "print('ok 1 - a\\n# Traceback\\n# why\\nnot ok 2 - b\\nok 3 - c # SKIP no d')\nraise SystemExit(1)",
                             "test-b.py": "print('1..0 # SKIP no node')\nraise SystemExit(77)"})
    equal((status, without_times(lines)), (1, ["# Traceback", "# why", "not ok 2 - b", "skipped: c # SKIP no d",
                                               "skipped: test-b.py # SKIP no node",
                                               "1 passed, 1 failed, 2 skipped"]))


@test("a script that ends before its first case has failed, and what it said comes after that line")
def not_started():
    status, lines = checked({"test-a.py": STARTS_LATE})
    equal((status, without_times(lines)), (1, ["not ok - test-a.py ended with 1", "# the API server ended: no such luck", "0 passed, 1 failed"]))
    status, lines = checked({"test-a.py": "print('ok 1 - a')\nraise SystemExit('afterwards')"})
    equal((status, without_times(lines)), (1, ["not ok - test-a.py ended with 1", "# afterwards", "1 passed, 1 failed"]))
    status, lines = checked({"test-a.py": ""})
    equal((status, without_times(lines)), (1, ["not ok - test-a.py has no cases", "0 passed, 1 failed"]))


@test("where cases have a second try, so has a script that did not start, and it is named as unsteady")
def started_again():
    status, lines = checked({"test-a.py": STARTS_LATE}, MAS_TRY_AGAIN="1")
    equal((status, lines[-1]), (0, "1 passed, 0 failed"), lines)
    equal([bool(re.match("# unsteady: .*/test-a.py: the whole program", line)) for line in without_times(lines)][:2], [True, False], lines)
    check("# the API server ended: no such luck" in lines, lines)
    status, lines = checked({"test-a.py": "raise SystemExit('never')"}, MAS_TRY_AGAIN="1")
    equal((status, lines[-1]), (1, "0 passed, 1 failed"), lines)
    equal((lines.count("not ok - test-a.py ended with 1"), lines.count("# never")), (1, 2), lines)


@test("no more of them run at once than is asked for")
def at_once():
    status, lines = checked({f"test-{name}.py": COUNTS for name in "abcde"}, KUBE_AT_ONCE="2")
    equal((status, lines[-1]), (0, "5 passed, 0 failed"), lines)


@test("without the programs it is one skip")
def no_tools():
    status, lines = checked({"test-a.py": "print('ok 1 - a')"}, tools=False)
    equal((status, lines), (0, ["0 passed, 0 failed, 1 skipped"]))


@test("an archive that several make at the same time is whole for each of them")
def archives():
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(f"{d}/tree")
        with open(f"{d}/tree/file", "wb") as f:
            f.write(os.urandom(1 << 20))
        script = f'set -euo pipefail; source={ROOT}; . "$source/scripts/oci-archive.sh"; oci_archive {d}/tree x:1 "" {d}/out.tar'
        makers = [subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(8)]
        said = [(p.communicate()[0], p.returncode) for p in makers]
        check(all(status == 0 for _, status in said), said)
        equal(len({text for text, _ in said}), 1, "names, sizes and sums")
        equal(sorted(os.listdir(d)), ["out.tar", "tree"], "what is left")


main()
