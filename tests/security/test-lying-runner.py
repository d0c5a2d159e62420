#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a runner answers about files that a command finds by their names has bounds, and where its look fails, the program is looked at alone."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from guarded import *

POLICY = """version: 1
default: allow
rules:
  - {id: builds, verdict: ask, risk: high, command: ["make", "make *"]}
"""
LYING = os.path.join(BUILD, "tests/security/lying-runner")


def pins(d, box, lie, *argv):
    box.sh(f"echo {lie} > lie" if lie else "rm -f lie")
    a = d.post(box.path + "/exec", {"command": list(argv), "env": {"PATH": "/workspace:/usr/bin:/bin"}})
    equal(a.status, 202, a)
    return d.get("/v1/approvals/" + a.json["approval_id"]).json["subject"]["pins"]


def has(list, **members):
    return any(all(str(p.get(k, "")).find(v) >= 0 for k, v in members.items()) for p in list)


@test("P25 a runner that lies about what a command finds")
def lies():
    if not os.path.exists(LYING):
        raise Skip("the runner of this build is not linked with musl")
    with tempfile.TemporaryDirectory(prefix="mas-libexec-") as dir:
        os.chmod(dir, 0o755)
        for name in os.listdir(BUILD):
            if name.startswith("mas-") and name != "mas-toolrunner" and os.path.isfile(os.path.join(BUILD, name)):
                os.symlink(os.path.join(BUILD, name), os.path.join(dir, name))
        shutil.copy(LYING, os.path.join(dir, "mas-toolrunner"))
        with Guarded(POLICY, "-libexec-dir", dir) as d, d.sandbox() as box:
            box.sh("printf '#!/bin/sh\\n' > make; chmod +x make; echo all: > Makefile")
            program = {"path": "/workspace/make", "arg": "0"}
            honest = pins(d, box, None, "make", "all")
            check(has(honest, **program) and has(honest, path="/workspace/Makefile", by="make"), honest)

            many = pins(d, box, "named", "make", "all")
            equal(sum(p.get("path", "").startswith("/lie/") for p in many), 512)
            check(has(many, loads="...", not_pinned="more is loaded than is listed"), many[-3:])

            for lie in ("pins", "garbage", "fail"):
                second = pins(d, box, lie, "make", "all")
                check(not has(second, path="/lie/"), (lie, len(second)))
                check(has(second, **program) and has(second, loads="files that it finds by their names", not_pinned="could not be looked up"), (lie, second[:5]))
                check(any(p.get("path") == "/workspace/make" and len(p.get("sha256", "")) == 64 for p in second), (lie, second[:5]))


main()
