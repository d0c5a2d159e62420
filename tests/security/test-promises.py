#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md and these tests say the same: every promise is tried where it says, every attempt
belongs to a promise."""
import re

from attempt import *

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../..")


def promises():
    with open(os.path.join(ROOT, "SECURITY.md")) as f:
        text = f.read()
    parts = re.split(r"^\*\*(P\d+) ", text, flags=re.M)
    return {number: body.split("\n\n")[0] for number, body in zip(parts[1::2], parts[2::2])}


def attempts():
    """Of each file, how many attempts name each promise."""
    found = {}
    for name in sorted(os.listdir(HERE)):
        if name.startswith("test-") and name != "test-promises.py":
            with open(os.path.join(HERE, name)) as f:
                numbers = re.findall(r"P\d+", " ".join(re.findall(r"\"((?:P\d+ )+)", f.read())))
            found[name] = {n: numbers.count(n) for n in set(numbers)}
    return found


@test("every promise is tried in each file that it names")
def test_every_promise_is_tried_in_each_file():
    tried = attempts()
    for number, body in promises().items():
        files = re.findall(r"`(test-[a-z-]+\.(?:py|c))`", body.split("*Tried by*")[1])
        check(files, f"{number} names no test")
        for file in files:
            check(tried.get(file, {}).get(number), f"{file} has no attempt of {number}")


@test("every attempt belongs to a promise")
def test_every_attempt_belongs_to_a_promise():
    known = set(promises())
    for file, numbers in attempts().items():
        equal(set(numbers) - known, set(), file)


@test("every file that SECURITY.md names exists")
def test_every_file_that_security_md_names_exists():
    with open(os.path.join(ROOT, "SECURITY.md")) as f:
        text = f.read()
    for path in re.findall(r"`((?:src|tests|fuzz)/[\w./*-]+)`", text):
        import glob
        check(glob.glob(os.path.join(ROOT, path)), path)


main()
