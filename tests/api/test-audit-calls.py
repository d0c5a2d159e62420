#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is on record of a call is what ran: each route that reads or changes something in a sandbox leaves the kind of
record that the table of routes names, by the key that asked; with all that changes what happens, and without
secrets."""
import hashlib
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from routes import *

TOKEN = "the-operators-token"
ADMIN = {"Authorization": "Bearer " + TOKEN}
SECRET = "hunter2"


class Keyed(Daemon):
    """A daemon with a key for an agent, which is who asks below."""

    def __init__(self):
        super().__init__("-auth-token", TOKEN, "--cgroup-prefix", f"mas-audit-calls-{os.getpid()}")

    def start(self):
        super().start()
        self.key = super().request("POST", "/v1/keys", {"name": "agent", "roles": ["agent"]}, headers=ADMIN).json
        self.agent = {"Authorization": "Bearer " + self.key["secret"]}
        return self

    def request(self, method, path, body=None, headers=None, **kw):
        own = self.agent if hasattr(self, "key") else ADMIN
        return super().request(method, path, body, headers={**own, **(headers or {})}, **kw)

    def records(self, since=0):
        a = super().request("GET", f"/v1/audit?limit=100000&since={since}", headers=ADMIN)
        equal(a.status, 200, a)
        return [json.loads(x) for x in a.body.splitlines()]

    def head(self):
        return self.records()[-1]["seq"]

    def ask(self, *argv, **kw):
        a = self.request(*argv, **kw)
        check(a.status < 300, a)
        return a


_d = None


def daemon():
    global _d
    if not _d:
        _d = Keyed().start()
        atexit.register(_d.stop)
    return _d


def sleeper(d, sb, **spec):
    a = d.ask("POST", sb.path + "/exec", dict(command=["sh", "-c", "cat >/dev/null"], open_stdin=True, **{"async": True}, **spec))
    return f"{sb.path}/execs/{a.json['exec_id']}"


def serve(d, sb, path):
    port = re.search(r"/ports/(\d+)", path)[1]
    d.ask("POST", sb.path + "/exec", {"command": ["python3", "-m", "http.server", port, "--bind", "127.0.0.1"], "async": True})
    wait_for(lambda: d.get(path).status != 502, "a server inside")


def attach(d, path):
    ws = d.ws(path + "/attach", headers=d.agent)
    ws.send_frame(2, b"typed\n")
    ws.send(json.dumps({"type": "signal", "signal": "TERM"}))
    wait_for(lambda: d.get(path).json["status"] != "running", "its end")
    ws.close()


# Of these a person's answer makes the call run: tests/api/test-actions.py has their records.
# tests/api/test-ports.py has that of a WebSocket to a port, tests/security/test-port-attacks.py those of tokens.
# tests/microvm/test-snapshots.py has those of snapshots, which only virtual machines have.
ELSEWHERE = {("post", SB + "/snapshot"), ("post", SB + "/fork"), ("post", SB + "/restore"), ("delete", "/v1/snapshots/{name}"),
             ("post", "/api/actions/{id}/approve"), ("get", SB + "/forward/{port}"), ("delete", SB + "/traffic-tokens/{token_id}"),
             ("post", SB + "/traffic-tokens/{token_id}/link")}
# What only reads what the daemon keeps, is refused, or takes what a sidecar says.
NONE = {("get", "/sandboxes/{id}"), ("get", "/sandboxes/{id}/execs/{exec_id}"), ("get", "/sandboxes/{id}/stream"),
        ("get", "/sandboxes/{id}/ingest"), ("get", SB), ("get", SB + "/stats"), ("get", SB + "/network"), ("get", SB + "/network/log"),
        ("get", SB + "/files/watch"), ("get", SB + "/traffic-tokens"), ("get", SB + "/execs"), ("get", EX), ("get", EX + "/logs")}


def routes():
    return {(r["method"], r["path"]): r for r in route_table()}


def recorded():
    return {k for k, r in routes().items() if r.get("record")} - ELSEWHERE


@test("each route about a sandbox names its kind of record, or is known to leave none")
def test_each_route_about_a_sandbox_names_its_kind():
    for key, r in routes().items():
        about = key[1].startswith((SB, "/sandboxes/{id}")) or r["executes"]
        if about and key not in NONE:
            check(r.get("record"), f"{key} names no kind of record")
        if key in NONE:
            equal(r.get("record"), None, key)
        if r["executes"] and key != ("post", "/sandboxes"):
            equal(r["record"], "intent", key)


@test("each of them leaves it, by the key that asked")
def test_each_of_them_leaves_it_by_the_key_that_asked():
    d = daemon()
    for key in sorted(recorded()):
        want = routes()[key]["record"]
        sb = Sandbox(d, d.ask("POST", "/v1/sandboxes", {}).json)
        d.ask("PUT", sb.path + "/files/content?path=/workspace/f", b"x")
        command = sleeper(d, sb, **({"pty": True} if key[1].endswith("resize") else {}))
        before = d.head()
        path, body = request_to(*key, sb.id, command.rsplit("/", 1)[1])
        if "/ports/" in key[1]:
            serve(d, sb, path)
        if routes()[key]["websocket"]:
            attach(d, command)
        else:
            d.ask(key[0].upper(), path, body)

        def found():
            return [r for r in d.records(before) if r["kind"] == want and r.get("key") == d.key["id"]]
        wait_for(found, lambda: f"{key}: no {want} in {d.records(before)}")
        if "{id}" in key[1]:
            equal(found()[0].get("sandbox"), sb.id, key)
        if "{exec_id}" in key[1]:
            equal(found()[0].get("exec"), command.rsplit("/", 1)[1], key)
        d.request("DELETE", sb.path)


def intent_of(d, before, tool):
    return [r for r in d.records(before) if r["kind"] == "intent" and r.get("tool") == tool][0]["details"]


PLAIN = {"command": ["true"], "stdin": "in"}
CHANGES = {"env": {"A": "b"}, "cwd": "/tmp", "timeout_ms": 4321, "stdin": "other",
           "files": [{"path": "/workspace/a", "content": "x"}], "limits": {"memory_mb": 77},
           "pty": True}


@test("whatever changes what runs changes the subject's digest; the same call has the same")
def test_whatever_changes_what_runs_changes_the_subject():
    d = daemon()

    def digest(**spec):
        before = d.head()
        a = d.request("POST", "/v1/run", {**PLAIN, **spec})
        check(a.status < 300, a)
        return intent_of(d, before, "exec")["subject_digest"]
    same = digest()
    equal(digest(), same)
    got = {name: digest(**{name: value}) for name, value in CHANGES.items()}
    equal([n for n, v in got.items() if v == same], [], "not on record")
    equal(len(set(got.values())), len(got), got)


@test("an intent names the parts: directory, variables, input, files, time, limits, mounts")
def test_an_intent_names_the_parts_directory_variables():
    d = daemon()
    before = d.head()
    d.ask("POST", "/v1/run", {**PLAIN, "env": {"PASSWORD": SECRET}, "stdin": SECRET, "cwd": "/tmp", "timeout_ms": 5000,
                              "limits": {"memory_mb": 77}, "files": [{"path": "/workspace/a", "content": "text"}]})
    s = intent_of(d, before, "exec")["subject"]
    equal((s["cwd"], s["timeout_ms"], s["env"]["names"], s["stdin_bytes"]), ("/tmp", 5000, ["PASSWORD"], len(SECRET)), s)
    equal((s["files"][0]["path"], s["files"][0]["digest"]),
          ("/workspace/a", "sha256:" + hashlib.sha256(b"text").hexdigest()), s)
    equal((s["spec"]["memory_bytes"], s["spec"]["mounts"]), (77 << 20, []), s)


@test("an intent of whatever length is whole")
def test_an_intent_of_whatever_length_is_whole():
    d = daemon()
    sb = Sandbox(d, d.ask("POST", "/v1/sandboxes", {}).json)
    before = d.head()
    for n in range(0, 280):
        d.ask("POST", sb.path + "/exec", {"command": ["true", "x" * n]})
    shown = [r["details"]["argv"][1] for r in d.records(before) if r["kind"] == "intent"]
    equal([len(x) for x in shown], list(range(0, 280)))
    d.request("DELETE", sb.path)


@test("a sandbox is on record with who made and deleted it, its mounts and limits")
def test_a_sandbox_is_on_record_with_who_made_and_deleted():
    d = daemon()
    before = d.head()
    sb = d.ask("POST", "/v1/sandboxes", {"env": {"PASSWORD": SECRET}, "limits": {"memory_mb": 77}}).json
    d.ask("DELETE", "/v1/sandboxes/" + sb["id"])
    made, gone = [r for r in d.records(before) if r["kind"] == "sandbox"]
    equal((made["outcome"], gone["outcome"]), ("created", "deleted"))
    equal((made["key"], gone["key"]), (d.key["id"], d.key["id"]))
    equal((made["details"]["spec"]["memory_bytes"], made["details"]["spec"]["mounts"]), (77 << 20, []))
    equal(made["details"]["spec_env"]["names"], ["PASSWORD"])
    other = d.ask("POST", "/v1/sandboxes", {}).json["id"]
    before = d.head()
    equal(Daemon.request(d, "DELETE", "/v1/sandboxes/" + other, headers=ADMIN).status, 200)
    equal([r["key"] for r in d.records(before) if r["kind"] == "sandbox"], ["token"], "who deleted it is not who made it")


@test("input has a hash per request and in all, contents of files a plain one")
def test_input_has_a_hash_per_request_and_in_all_contents():
    d = daemon()
    sb = Sandbox(d, d.ask("POST", "/v1/sandboxes", {}).json)
    command, before = sleeper(d, sb), d.head()
    for text in (b"one\n", b"two\n", b"one\n"):
        d.ask("POST", command + "/stdin", text)
    d.ask("POST", command + "/stdin?close=1", b"")
    wait_for(lambda: d.get(command).json["status"] == "completed", "its end")
    inputs = [r["details"] for r in d.records(before) if r["kind"] == "steer" and r["outcome"] == "input"]
    equal([i["bytes"] for i in inputs], [4, 4, 4])
    check(inputs[0]["digest"] == inputs[2]["digest"] != inputs[1]["digest"], inputs)
    wait_for(lambda: [r for r in d.records(before) if r["kind"] == "exited"], "the record")
    end = [r for r in d.records(before) if r["kind"] == "exited"][0]["details"]
    equal(end["input_bytes"], 12, end)
    check(end["input_digest"].startswith("keyed:"), end)
    data = os.urandom(3000000)
    for path, body in (("content?path=/workspace/f", data), ("tar?path=/workspace", tar_of(a="b"))):
        before = d.head()
        d.ask("PUT", f"{sb.path}/files/{path}", body)
        text = "".join(json.dumps(r) for r in d.records(before))
        check(hashlib.sha256(body).hexdigest() in text, f"the content of {path} is not on record: {text}")
    d.request("DELETE", sb.path)


@test("secrets are in no record, and no plain hash of them is")
def test_secrets_are_in_no_record_and_no_plain_hash():
    d = daemon()
    text = json.dumps(d.records())
    for form in (SECRET, hashlib.sha256(SECRET.encode()).hexdigest(), f"PASSWORD={SECRET}",
                 hashlib.sha256(f"PASSWORD={SECRET}\0".encode()).hexdigest(),
                 hashlib.sha256(b"typed\n").hexdigest()):
        check(form not in text, form)


main()
