#!/usr/bin/env python3
"""Contract C's skills: listing, enabling, and the filesystem skill as the daemon runs it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *


def enabled(d, skill="filesystem", **kw):
    return {s["id"]: s["enabled"] for s in d.get("/api/skills", **kw).json}[skill]


@test("skills are listed, disabled and enabled, and stay so over a restart")
def _():
    with Daemon() as d:
        listed = d.get("/api/skills").json
        check({"filesystem", "system", "calculator"} <= {s["id"] for s in listed}, listed)
        equal(sorted(listed[0]), ["enabled", "id", "name"])
        equal(d.post("/api/skills/filesystem/disable").json, {"skill_id": "filesystem", "enabled": False})
        check(not enabled(d), "disabled")
        d.stop()
        d.start()
        check(not enabled(d), "still disabled")
        equal(d.request("POST", "/api/skills/filesystem/enable").json, {"skill_id": "filesystem", "enabled": True})
        check(enabled(d), "enabled")
        a = d.post("/api/skills/nope/enable")
        equal((a.status, list(a.json)), (404, ["detail"]))


@test("only operators and admins enable and disable")
def _():
    with Daemon("-auth-token", "t0ken") as d:
        d.token = "t0ken"
        keys = {r: {"Authorization": "Bearer " + d.post("/v1/keys", {"name": r, "roles": [r]}).json["secret"]}
                for r in ("agent", "operator", "auditor", "approver", "admin")}
        for role, headers in keys.items():
            equal(d.post("/api/skills/filesystem/disable", headers=headers).status, 200 if role in ("operator", "admin") else 403, role)
            equal(d.get("/api/skills", headers=headers).status, 200, role)


@test("skill_root must be an allowed directory")
def _():
    path = tempfile.mkdtemp(prefix="mas-skill-")
    try:
        for flags, word in ((["--skill-root", path], "mounts.allow"),
                            (["--skill-root", path + "/nope", "--mounts-allow", path], "No such file"),
                            (["--skill-root", path + "/../etc", "--mounts-allow", path], "mounts.allow")):
            p = subprocess.run([SANDBOXD, "--print-config", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            check(p.returncode != 0 and "skill_root" in p.stderr and word in p.stderr, p)
    finally:
        shutil.rmtree(path)


main()
