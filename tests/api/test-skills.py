#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""the actions API's skills: listing, enabling, and the filesystem skill as the daemon runs it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *


def enabled(d, skill="filesystem", **kw):
    return {s["id"]: s["enabled"] for s in d.get("/api/skills", **kw).json}[skill]


@test("skills are listed, disabled and enabled, and stay so over a restart")
def test_skills_are_listed_disabled_and_enabled_and_stay():
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
def test_only_operators_and_admins_enable_and_disable():
    with Daemon("-auth-token", "t0ken") as d:
        d.token = "t0ken"
        keys = {r: {"Authorization": "Bearer " + d.post("/v1/keys", {"name": r, "roles": [r]}).json["secret"]}
                for r in ("agent", "operator", "auditor", "approver", "admin")}
        for role, headers in keys.items():
            equal(d.post("/api/skills/filesystem/disable", headers=headers).status, 200 if role in ("operator", "admin") else 403, role)
            equal(d.get("/api/skills", headers=headers).status, 200, role)


@test("skill_root must be an allowed directory")
def test_skill_root_must_be_an_allowed_directory():
    path = tempfile.mkdtemp(prefix="mas-skill-")
    try:
        for flags, word in ((["--skill-root", path], "mounts.allow"),
                            (["--skill-root", path + "/nope", "--mounts-allow", path], "No such file"),
                            (["--skill-root", path + "/../etc", "--mounts-allow", path], "mounts.allow")):
            p = subprocess.run([SANDBOXD, "--print-config", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            check(p.returncode != 0 and "skill_root" in p.stderr and word in p.stderr, p)
    finally:
        shutil.rmtree(path)


# --- the filesystem skill, through actions

def act(d, operation, path=None, skill=False, **more):
    """Submits, approves where that is needed, and waits for the end."""
    parameters = dict(operation=operation, **({} if path is None else {"path": path}), **more)
    body = {"action_type": "skill_execution", "skill_id": "filesystem"} if skill else {"action_type": "file_operation"}
    a = d.post("/api/actions", dict(body, parameters=parameters))
    if a.status != 200:
        return {"status": a.status, "error": a.json["detail"]}
    id = a.json["action_id"]
    if a.json["requires_approval"]:
        equal(d.post(f"/api/actions/{id}/approve", {"approved": True}).status, 200)
    wait_for(lambda: d.get("/api/actions/" + id).json["status"] in ("completed", "failed", "rejected"), "its end")
    return d.get("/api/actions/" + id).json


def done(a):
    equal(a["status"], "completed", a)
    return a["result"]


@test("every operation really happens, in a sandbox of the key's own")
def test_every_operation_really_happens_in_a_sandbox():
    d = shared_daemon("--max-body-bytes", "16Mi")
    equal(done(act(d, "create_dir", "some/dir"))["created"], True)
    equal(done(act(d, "write", "some/dir/a.md", content="caf\u00e9\n", skill=True))["bytes_written"], 6)
    equal(done(act(d, "read", "some/dir/a.md"))["content"], "caf\u00e9\n")
    equal(done(act(d, "write", "empty", content=""))["bytes_written"], 0)
    equal([(e["name"], e["type"]) for e in done(act(d, "list"))["entries"]], [("empty", "file"), ("some", "directory")])
    equal(done(act(d, "list", "some/dir"))["entries"][0]["size"], 6)
    equal(done(act(d, "delete", "some/dir/a.md"))["deleted"], True)
    equal(act(d, "read", "some/dir/a.md")["status"], "failed")
    sandboxes = [s for s in d.get("/v1/sandboxes").json["sandboxes"] if s.get("alias") == "skill-filesystem"]
    equal(len(sandboxes), 1, sandboxes)
    # what is no text comes as base64
    d.put(f"/v1/sandboxes/{sandboxes[0]['id']}/files/content?path=/workspace/raw.txt", b"\xff\x00")
    equal(done(act(d, "read", "raw.txt"))["content_base64"], "/wA=")


@test("1 MiB is read, 10 MiB are written, and no byte more")
def test_1_mib_is_read_10_mib_are_written_and_no_byte():
    d = shared_daemon("--max-body-bytes", "16Mi")
    done(act(d, "write", "big.txt", content="x" * (1 << 20)))
    equal(len(done(act(d, "read", "big.txt"))["content"]), 1 << 20)
    done(act(d, "write", "big.txt", content="x" * ((1 << 20) + 1)))
    a = act(d, "read", "big.txt")
    check(a["status"] == "failed" and "over 1048576" in a["error"], a["error"])
    a = act(d, "write", "big.txt", content="x" * ((10 << 20) + 1))
    equal(a["status"], 400, a["error"])
    done(act(d, "write", "big.txt", content="x" * (10 << 20)))


@test("a host directory as root: what is in it, and nothing through it")
def test_a_host_directory_as_root():
    allowed = tempfile.mkdtemp(prefix="mas-skill-")
    root, secret = os.path.join(allowed, "root"), os.path.join(allowed, "secret.txt")
    os.mkdir(root)
    with open(secret, "w") as f:
        f.write("secret")
    with open(os.path.join(root, "note.txt"), "w") as f:
        f.write("from the host")
    with open(os.path.join(root, "run.sh"), "w") as f:
        f.write("#!/bin/sh")
    os.symlink(secret, os.path.join(root, "link.txt"))
    os.symlink("run.sh", os.path.join(root, "alias.txt"))
    os.symlink(allowed, os.path.join(root, "up"))
    os.link(secret, os.path.join(root, "hard.sh"))
    for path in (allowed, root):
        os.chmod(path, 0o777)
    if os.geteuid() == 0: # root's own directories are not mapped to the tool's user
        subprocess.run(["chown", "-R", "12345:12345", allowed], check=True)
    try:
        with Daemon("--mounts-allow", allowed, "--skill-root", root) as d:
            equal(done(act(d, "read", "note.txt"))["content"], "from the host")
            equal(done(act(d, "read", root + "/note.txt"))["content"], "from the host")
            done(act(d, "write", "new/made.txt", content="by the skill"))
            with open(os.path.join(root, "new/made.txt")) as f:
                equal(f.read(), "by the skill")
            for path in ("link.txt", "alias.txt", "up/secret.txt", "up", "new/../../secret.txt", secret, "hard.sh"):
                a = act(d, "read", path)
                check(a["status"] in ("failed", 400), f"{path}: {a}")
                check("secret" not in json.dumps(a.get("result") or ""), f"{path}: {a}")
            for path in ("link.txt", "up/evil.txt", "alias.txt"):
                equal(act(d, "write", path, content="evil")["status"], "failed", path)
            with open(secret) as f:
                equal(f.read(), "secret")
            check(not os.path.exists(os.path.join(allowed, "evil.txt")), "nothing was written beside the root")
            equal(done(act(d, "delete", "link.txt"))["deleted"], True, "a link itself can go")
            check(os.path.exists(secret), "what it led to stays")
            equal([s for s in d.get("/v1/sandboxes").json["sandboxes"]], [], "one sandbox an operation")
    finally:
        shutil.rmtree(allowed)


@test("a disabled skill does nothing, also when it was disabled after it was asked for")
def test_a_disabled_skill_does_nothing_also():
    with Daemon() as d:
        a = d.post("/api/actions", {"action_type": "file_operation", "parameters": {"operation": "write", "path": "a.txt", "content": "x"}}).json
        d.post("/api/skills/filesystem/disable")
        b = d.post("/api/actions", {"action_type": "file_operation", "parameters": {"operation": "list"}})
        equal((b.status, b.json), (403, {"detail": "the skill 'filesystem' is disabled"}))
        d.post(f"/api/actions/{a['action_id']}/approve", {"approved": True})
        wait_for(lambda: d.get("/api/actions/" + a["action_id"]).json["status"] == "failed", "it fails")
        d.post("/api/skills/filesystem/enable")
        equal(done(act(d, "list"))["entries"], [])
        d.post("/api/skills/calculator/disable")
        c = d.post("/api/actions", {"action_type": "skill_execution", "skill_id": "calculator", "parameters": {"expression": "1"}})
        equal(c.status, 403)


@test("a skill is disabled by whichever name, and on every way that leads to it")
def test_a_skill_is_disabled_by_whichever_name():
    url, shell = {"url": "http://127.0.0.1:1/", "method": "GET"}, {"command": "true"}
    ways = {"shell": [("skill_execution", "shell", shell), ("skill_execution", "system", shell)],
            "http_client": [("skill_execution", "http_client", url), ("api_call", None, url)],
            "filesystem": [("skill_execution", "filesystem", {"operation": "list"}), ("file_operation", None, {"operation": "list"})]}
    ways["system"] = ways["shell"]
    with Daemon() as d:
        state = lambda: {s["id"]: s["enabled"] for s in d.get("/api/skills").json}
        for name, actions in ways.items():
            same = {skill for _, skill, _ in actions if skill}
            d.post(f"/api/skills/{name}/disable")
            equal({k for k, on in state().items() if not on}, same, f"{name} is disabled")
            if name == "system":
                d.kill_control()
            for kind, skill, parameters in actions:
                a = d.post("/api/actions", dict({"action_type": kind, "parameters": parameters}, **({"skill_id": skill} if skill else {})))
                check(a.status == 403 and "is disabled" in a.json["detail"], f"{name} disabled, {kind} {skill}: {a}")
            d.post(f"/api/skills/{max(same)}/enable")
            check(all(state().values()), f"{name}, enabled as {max(same)}: {state()}")
        d.kill_control()
        check(all(state().values()), "and after a restart")


@test("each operation is in the audit")
def test_each_operation_is_in_the_audit():
    with Daemon() as d:
        done(act(d, "write", "a.txt", content="audited"))
        done(act(d, "read", "a.txt"))
        def tools():
            return [(r["kind"], r.get("tool")) for r in map(json.loads, d.get("/v1/audit?limit=1000").body.splitlines())]
        wait_for(lambda: {("intent", "file.write"), ("intent", "file.read")} <= set(tools()), "both intents")
        check("audited" not in d.get("/v1/audit?limit=1000").body.decode(), "contents are not")


main()
