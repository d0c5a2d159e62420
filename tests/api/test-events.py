#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The journal of changes: what is in it, who is told of what, and that its numbers outlive kill -9."""
import io
import os
import sys
import tarfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *
from guarded import *

TOKEN = "the-operators-token"
POLICY = """version: 1
default: allow
rules:
  - {id: asks, verdict: ask, risk: medium, command: "*touch*"}
"""
ROLES = ("agent", "operator", "approver", "auditor", "admin")


def auth(secret):
    return {"Authorization": "Bearer " + secret}


def daemon():
    return shared_daemon("--debug-endpoints")


def read(d, query="", **kw):
    """What is kept, as NDJSON."""
    a = d.get("/v1/events" + query, **kw)
    equal((a.status, a.headers["Content-Type"]), (200, "application/x-ndjson"), a)
    return [json.loads(x) for x in a.body.splitlines()]


def newest(d, **kw):
    """The start of the daemon is the first, and is told soon."""
    wait_for(lambda: read(d, **kw), "the start of the daemon")
    return read(d, **kw)[-1]["seq"]


def wait_events(d, since, *types, **kw):
    """Until these came, in this order, among others."""
    found = []

    def come():
        found[:] = read(d, f"?since={since}", **kw)
        rest = iter(e["type"] for e in found)
        return all(t in rest for t in types)
    wait_for(come, lambda: (types, found))
    return found


class Reader(threading.Thread):
    """Follows over SSE as a browser does: it comes back with the number of the last event."""

    def __init__(self, d, query="", headers=None, since=0):
        super().__init__(daemon=True)
        self.d, self.query, self.headers, self.last = d, query, headers or {}, since
        self.events, self.connections, self.stopped, self.ended = [], 0, False, threading.Event()
        self.start()

    def run(self):
        while not self.stopped:
            try:
                self.follow()
            except (OSError, http.client.HTTPException, AttributeError):
                pass
            self.ended.set()
            time.sleep(0.01)

    def follow(self):
        conn = http.client.HTTPConnection("127.0.0.1", self.d.port, timeout=PATIENCE_S)
        conn.request("GET", "/v1/events" + self.query, headers=dict(
            {"Accept": "text/event-stream", "Last-Event-ID": str(self.last)}, **self.headers))
        r = conn.getresponse()
        self.status = r.status
        if r.status != 200:
            return
        self.connections += 1
        fields = {}
        for line in r:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif fields:
                self.take(fields)
                fields = {}

    def take(self, fields):
        if "data" not in fields:
            return
        event = json.loads(fields["data"])
        equal((int(fields["id"]), fields["event"]), (event["seq"], event["type"]), "id and event")
        self.last = event["seq"]
        self.events.append(event)


@test("a sandbox's life and its commands, the same over NDJSON, SSE and WebSocket; one-shots are not told of")
def test_a_sandbox_life_and_its_commands_the_same():
    d = daemon()
    since = newest(d)
    reader = Reader(d, since=since)
    ws = d.ws(f"/v1/events?since={since}&follow=true")
    d.run("true")
    with d.sandbox() as sb:
        first = sb.sh("exit 3")["exec_id"]
        equal(d.post(sb.path + "/pause").status, 200)
        equal(d.post(sb.path + "/resume").status, 200)
        missing = sb.exec("/no/such/program")
        equal(d.get(sb.path + "/files?path=/").status, 200, "a hidden command")
    want = [("sandbox.created", sb.id), ("exec.started", first), ("exec.ended", first), ("sandbox.paused", sb.id),
            ("sandbox.resumed", sb.id), ("exec.ended", missing["exec_id"]), ("sandbox.deleted", sb.id)]
    found = wait_events(d, since, "sandbox.deleted")
    equal([(e["type"], e["id"]) for e in found], want)
    equal([e["seq"] for e in found], list(range(since + 1, since + 1 + len(want))))
    equal(found[2]["data"], {"sandbox_id": sb.id, "status": "completed", "exit_code": 3})
    equal(found[5]["data"], {"sandbox_id": sb.id, "status": "failed", "exit_code": 127})
    check(all("owner" not in e for e in found), "nobody's")
    wait_for(lambda: len(reader.events) >= len(want), reader.events)
    equal(reader.events, found, "SSE")
    messages = ws.messages()
    equal([json.loads(next(messages)) for _ in want], found, "WebSocket")
    ws.close()
    reader.stopped = True
    equal(d.get(f"/v1/events?since={since}&follow=false", headers={"Accept": "text/event-stream"}).body.count(b"\nevent: "),
          len(want), "SSE that ends")


@test("numbers and types: where it goes on, what is chosen, what is refused by name")
def test_numbers_and_types_where_it_goes():
    d = daemon()
    since = newest(d)
    with d.sandbox() as sb:
        sb.exec("true")
    all_ = wait_events(d, since, "sandbox.deleted")
    last = all_[-1]["seq"]
    equal(read(d, f"?since={last}"), [])
    equal(read(d, f"?since={last - 1}"), all_[-1:])
    equal([e["type"] for e in read(d, f"?since={since}&types=exec")], ["exec.started", "exec.ended"])
    equal([e["type"] for e in read(d, f"?since={since}&types=exec.ended,sandbox.created")], ["sandbox.created", "exec.ended"])
    equal(read(d)[0]["type"], "daemon.started", "without a number: all that is kept")
    gap, *rest = read(d, f"?since={last + 100}")
    equal((gap, rest), ({"seq": 0, "type": "gap", "since": last + 100, "first": 1}, read(d)), "of another journal")
    for query, words in (("?types=exec.endd", "'exec.endd'; did you mean 'exec.ended'?"), ("?types=", "no value"), ("?types=exec,", "''"),
                         ("?since=x", "'since'"), ("?since=-1", "'since'"), ("?typs=exec", "'typs' here; did you mean 'types'"),
                         ("?follow=maybe", "'follow'")):
        a = d.get("/v1/events" + query)
        equal(a.status, 400, a)
        check(words in a.json["error"]["message"], a)
    a = d.get("/v1/events", headers={"Accept": "text/event-stream", "Last-Event-ID": "seven"})
    check(a.status == 400 and "Last-Event-ID" in a.json["error"]["message"], a)
    for method in ("POST", "DELETE"):
        equal(d.request(method, "/v1/events").status, 405)


@test("what is not kept any more is a gap with the first number that is, and memory stays within the limit")
def test_what_is_not_kept_any_more_is_a_gap():
    with Daemon(config="events_max: 100\n") as d, d.sandbox() as sb:
        slow = d.ws("/v1/events")
        for _ in range(120):
            sb.exec("true")
        wait_events(d, 0, "exec.ended")
        wait_for(lambda: newest(d) >= 241, lambda: newest(d))
        gap, *rest = read(d, "?since=1")
        last = newest(d)
        equal(gap, {"seq": last - 100, "type": "gap", "since": 1, "first": last - 99})
        equal([e["seq"] for e in rest], list(range(last - 99, last + 1)))
        equal(read(d), rest, "whoever has no number has missed nothing that it knows of")
        d.kill_control()
        gap, first, *rest = read(d, "?since=1")
        equal((gap["type"], first["seq"]), ("gap", gap["first"]), "after a restart too")
        with contextlib.closing(sqlite3.connect(f"file:{d.state}/control/state.db?mode=ro", uri=True)) as db:
            check(db.execute("SELECT sum(length(body)) FROM event").fetchone()[0] < 65536, "the rows")
        slow.close()


def small_tar():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo("etc")
        info.type = tarfile.DIRTYPE
        info.mode = 0o755
        t.addfile(info)
    return out.getvalue()


def is_for(event, role, key):
    """Once more, as SECURITY.md says it."""
    if role in ("operator", "admin", "auditor") or event.get("owner") == key:
        return True
    kind = event["type"].split(".")[0]
    return kind == "image" or event["type"] == "policy.loaded" or (kind == "approval" and role == "approver")


@test("every role is told of what it may know, whoever the owner is, on every way in, and of nothing else")
def test_every_role_is_told_of_what_it_may_know_whoever():
    with Guarded(POLICY, "-auth-token", TOKEN, "--warm-pool-size", "1") as d:
        own = {"headers": auth(TOKEN)}
        keys = {}
        for name in ROLES + ("other",):
            a = d.post("/v1/keys", {"name": name, "roles": ["agent" if name == "other" else name]}, **own)
            keys[name] = a.json["id"], auth(a.json["secret"])
        followers = {name: Reader(d, headers=h) for name, (_, h) in keys.items()}
        for name in ("agent", "other"):
            h = keys[name][1]
            path = "/v1/sandboxes/" + d.post("/v1/sandboxes", {}, headers=h).json["id"]
            equal(d.post(path + "/exec", {"command": ["true"]}, headers=h).status, 200)
            for verb in ("pause", "resume"):
                equal(d.post(f"{path}/{verb}", headers=h).status, 200)
            id = d.post(path + "/exec", {"command": ["touch", "/workspace/x"]}, headers=h).json["approval_id"]
            equal(d.post(f"/v1/approvals/{id}/{'approve' if name == 'agent' else 'reject'}", headers=keys["approver"][1]).status, 200)
            if name == "agent":
                a = d.post(path + "/exec", {"command": ["touch", "/workspace/x"]}, headers=dict(h, **{"X-Mas-Approval-Id": id}))
                equal(a.status, 200, a)
            equal(d.delete(path, headers=h).status, 200)
        equal(d.put("/v1/images/tar?name=tiny&format=rootfs-tar", small_tar(), **own).status, 200)
        equal(d.delete("/v1/images?image=tiny", **own).status, 200)
        write(d.policy, POLICY + "# another\n")
        equal(d.post("/v1/policy/reload", **own).status, 200)
        write(d.policy, "version: none\n")
        equal(d.post("/v1/policy/reload", **own).status, 400)
        all_ = wait_events(d, 0, "policy.loaded", "sandbox.deleted", "sandbox.deleted", "policy.loaded", "policy.refused", **own)
        kinds = {e["type"] for e in all_}
        check(kinds >= {"daemon.started", "sandbox.created", "sandbox.deleted", "sandbox.paused", "sandbox.resumed", "exec.started",
                        "exec.ended", "approval.pending", "approval.approved", "approval.rejected", "approval.used",
                        "image.imported", "image.removed", "policy.loaded", "policy.refused", "pool.full"}, kinds)
        last = all_[-1]["seq"]
        for name, (key, h) in keys.items():
            want = [e for e in all_ if is_for(e, "agent" if name == "other" else name, key)]
            got = [e for e in read(d, headers=h) if e["seq"] <= last]
            equal(got, want, f"{name} over NDJSON")
            for kind in {e["type"].split(".")[0] for e in all_}:
                equal([e for e in read(d, f"?types={kind}", headers=h) if e["seq"] <= last],
                      [e for e in want if e["type"].startswith(kind + ".")], f"{name} asks for {kind}")
            wait_for(lambda: [e for e in followers[name].events if e["seq"] <= last] == want,
                     lambda: (name, followers[name].events, want))
            followers[name].stopped = True
        equal(d.get("/v1/events").status, 401)
        check(b"touch" not in json.dumps(all_).encode() and b"workspace" not in json.dumps(all_).encode(), "no command lines")


@test("a reader whose key ends is ended, and does not come back")
def test_a_reader_whose_key_ends_is_ended():
    with Daemon("-auth-token", TOKEN) as d:
        k = d.post("/v1/keys", {"name": "short", "roles": ["operator"]}, headers=auth(TOKEN)).json
        reader = Reader(d, headers=auth(k["secret"]))
        ws = d.ws("/v1/events", auth(k["secret"]))
        wait_for(lambda: reader.events, "it reads")
        equal(d.delete("/v1/keys/" + k["id"], headers=auth(TOKEN)).status, 200)
        wait_for(lambda: reader.status == 401, "ended, and refused")
        list(ws.messages())  # until it is closed
        seen = len(reader.events)
        d.post("/v1/sandboxes", {}, headers=auth(TOKEN))
        wait_events(d, 0, "sandbox.created", headers=auth(TOKEN))
        equal(len(reader.events), seen)
        reader.stopped = True


# --- kill -9

def missing(d, events):
    """Of what is there and was not told yet."""
    told = {(e["id"], e["type"]) for e in events}
    want = []
    for sb in again(d, "GET", "/v1/sandboxes?limit=1000").json["sandboxes"]:
        want.append((sb["id"], "sandbox.created"))
        for e in again(d, "GET", f"/v1/sandboxes/{sb['id']}/execs").json["execs"]:
            want.append((e["exec_id"], "exec.ended"))
    return [w for w in want if w not in told]


def check_whole(events):
    """Every number once and in order; of each object each change once, and a start before its end."""
    numbers = [e["seq"] for e in events]
    equal(numbers, list(range(1, len(numbers) + 1)), "each number once, none left out")
    types = {}
    for e in events:
        types.setdefault(e["id"], []).append(e["type"])
    for id, told in types.items():
        order = [t for t in ("sandbox.created", "exec.started", "exec.ended", "sandbox.crashed", "sandbox.deleted") if t in told]
        check(id in ("daemon", "warm") or told == order, f"{id}: {told}")
    return types


FAULTS = ["event.appended:2", "event.written:1", "event.shown:3", "event.appended:7", "exit.kept:2", "exit.before-row:1",
          "create.answered:1", "delete.before-row:1", "delete.gone:1", "commit.done:3", "event.appended:12", "commit.before:5"]


@test("killed between any two events, a client that comes back sees each once, in order, and misses nothing that is there")
def test_killed_between_any_two_events_a_client():
    for some in (FAULTS[::2], FAULTS[1::2]):
        faults = ",".join(f"{f}:{i + 1}" for i, f in enumerate(some))
        with Daemon("--debug-endpoints", env={"MAS_FAULT": faults}, config="control_restarts: 50\n") as d:
            reader = Reader(d)
            deleted = []
            end = time.monotonic() + PATIENCE_S
            while generations(d) <= len(some):
                check(time.monotonic() < end, d.log_text())
                a = once(d, "POST", "/v1/sandboxes", {})
                if not a or a.status != 201:
                    continue
                path = "/v1/sandboxes/" + a.json["id"]
                once(d, "POST", path + "/exec", {"command": ["true"]})
                again(d, "POST", path + "/exec", {"command": ["sleep", "0.05"], "async": True})
                if len(deleted) < generations(d) and again(d, "DELETE", path).status == 200:
                    deleted.append(a.json["id"])
            again(d, "POST", "/v1/sandboxes", {})
            wait_for(lambda: not missing(d, reader.events), lambda: missing(d, reader.events))
            types = check_whole(settled(lambda: list(reader.events)))
            for id in deleted:
                equal(types[id][-1], "sandbox.deleted", id)
            check(reader.connections > 2, "it came back")
            reader.stopped = True


@test("an approval's changes are told once each over kill -9, and its own route tells the same")
def test_an_approval_changes_are_told_once_each_over_kill():
    for fault in ("approval.recorded:1", "event.appended:3", "approval.decided:1", "approval.recorded:2", "event.written:2"):
        with Guarded(POLICY, "--debug-endpoints", env={"MAS_FAULT": fault}) as d:
            reader = Reader(d, "?types=approval")
            a = once(d, "POST", "/v1/run", {"command": ["touch", "x"]})
            waiting = lambda: again(d, "GET", "/v1/approvals").json["approvals"]
            if not waiting():
                again(d, "POST", "/v1/run", {"command": ["touch", "x"]})
            id = waiting()[0]["id"]
            once(d, "POST", f"/v1/approvals/{id}/approve")
            if again(d, "GET", f"/v1/approvals/{id}").json["status"] == "pending":
                again(d, "POST", f"/v1/approvals/{id}/approve")
            wait_for(lambda: any(e["type"] == "approval.approved" for e in reader.events), lambda: (fault, reader.events))
            told = [e["type"] for e in settled(lambda: list(reader.events)) if e["id"] == id]
            equal(told, ["approval.pending", "approval.approved"], fault)
            equal(generations(d), 2, fault)
            reader.stopped = True


@test("what has ended is not told again when the key of its approver ends")
def test_what_has_ended_is_not_told_again_when_the_key():
    with Guarded(POLICY, "-auth-token", TOKEN) as d:
        d.token = TOKEN
        agent, approver = ({"headers": auth(d.post("/v1/keys", {"name": r, "roles": [r]}).json["secret"])} for r in ("agent", "approver"))
        id = d.post("/v1/run", {"command": ["touch", "x"]}, **agent).json["approval_id"]
        equal(d.post(f"/v1/approvals/{id}/approve", **approver).status, 200)
        agent["headers"]["X-Mas-Approval-Id"] = id
        equal(d.post("/v1/run", {"command": ["touch", "x"]}, **agent).status, 200)
        told = wait_events(d, 0, "approval.used")
        for key in d.get("/v1/keys").json["keys"]:
            equal(d.delete("/v1/keys/" + key["id"]).status, 200)
        d.kill_control()
        after = wait_events(d, told[-1]["seq"], "daemon.started")
        equal([e["type"] for e in after if e["id"] == id], [])


@test("a paused sandbox that is lost with the daemon has crashed, and was not resumed before")
def test_a_paused_sandbox_that_is_lost_with_the_daemon():
    with Daemon() as d:
        sb = d.sandbox()
        equal(d.post(sb.path + "/pause").status, 200)
        last = wait_events(d, 0, "sandbox.paused")[-1]["seq"]
        d.process.kill()
        d.process.wait()
        check(d.launch(), d.log_text())
        equal([e["type"] for e in wait_events(d, last, "sandbox.crashed") if e["id"] == sb.id], ["sandbox.crashed"])


@test("a command is two events, however much it prints")
def test_a_command_is_two_events_however_much_it_prints():
    d = daemon()
    with d.sandbox() as sb:
        wait_for(lambda: any(e["id"] == sb.id for e in read(d)), "its creation")
        since = newest(d)
        sb.sh("i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done")
        equal([e["type"] for e in wait_events(d, since, "exec.ended")], ["exec.started", "exec.ended"])


@test("sbx events")
def test_sbx_events():
    d = daemon()
    since = newest(d)
    sbx = lambda *a: subprocess.run([SBX, "events", *a, "-addr", f"http://127.0.0.1:{d.port}"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, timeout=60)
    with d.sandbox() as sb:
        pass
    wait_events(d, since, "sandbox.deleted")
    p = sbx("-since", str(since), "-json")
    equal([json.loads(x) for x in p.stdout.splitlines()], read(d, f"?since={since}"), p.stderr)
    lines = sbx("-since", str(since), "-type", "sandbox.created").stdout.splitlines()
    equal([x.split()[0:1] + x.split()[2:4] for x in lines], [[str(since + 1), "sandbox.created", sb.id]])
    p = sbx("-type", "nonsense")
    check(p.returncode and "there is no type of event 'nonsense'" in p.stderr, p)
    follow = subprocess.Popen([SBX, "events", "-f", "-json", "-since", str(newest(d)), "-addr", f"http://127.0.0.1:{d.port}"],
                              stdout=subprocess.PIPE, text=True)
    last = newest(d)
    with d.sandbox() as sb:
        equal(json.loads(follow.stdout.readline())["id"], sb.id)
        d.kill_control()
        equal(json.loads(follow.stdout.readline())["type"], "daemon.started", "it goes on over a restart")
    equal(json.loads(follow.stdout.readline()), {**read(d, f"?since={last + 2}")[0]}, "and misses nothing")
    follow.terminate()
    follow.wait()


main()
