#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a person approved is what runs, once: every way to make it something else must fail."""
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from guarded import *

POLICY = """version: 1
default: allow
rules:
  - {id: all, verdict: allow, command: "*"}
  - {id: touchy, verdict: ask, risk: high, command: ["touch *", "deploy *", "*/deploy *", "python3 *", "node *", "sh *"], reason: "it changes things"}
  - {id: wipe, verdict: ask, risk: critical, command: "shred *"}
  - {id: writes, verdict: ask, risk: medium, write: "/workspace/guarded/**"}
"""


def ask(d, box, *argv, status=202, headers=None, **spec):
    a = d.post(box.path + "/exec", dict(command=list(argv), **spec), headers=headers)
    equal(a.status, status, a)
    return a.json


def granted(approval):
    return {"X-Mas-Approval-Id": approval}


def approve(d, approval, **body):
    a = d.post(f"/v1/approvals/{approval}/approve", body)
    equal(a.status, 200, a)
    return a.json


def state(d, approval):
    return d.get("/v1/approvals/" + approval).json["status"]


def files(box):
    return box.exec("ls", "-1", "/workspace")["stdout"].split()


_d = None


def daemon():
    global _d
    if not _d:
        _d = Guarded(POLICY).start()
        atexit.register(_d.__exit__)
    return _d


@test("asked, shown, approved, run once, and never again")
def test_asked_shown_approved_run_once_and_never_again():
    d = daemon()
    with d.sandbox() as box:
        a = ask(d, box, "touch", "/workspace/x", env={"COLOUR": "red"}, stdin="in")
        equal((a["status"], a["message"]), ("pending_approval", "waiting for approval " + a["approval_id"]))
        id = a["approval_id"]
        full = d.get("/v1/approvals/" + id).json
        equal((full["status"], full["risk"], full["rule"]), ("pending", "high", "touchy"))
        check("it changes things" in full["why"], full)
        s = full["subject"]
        equal((s["argv"], s["env"], s["stdin"]["bytes"], s["sandbox"]["id"], s["policy_revision"]),
              (["touch", "/workspace/x"], ["COLOUR=red"], 2, box.id, d.revision()))
        equal((full["shown"]["runtime"], full["shown"]["stdin"]), ("local", "in"))
        canonical = json.dumps(s, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        equal(full["digest"], "sha256:" + hashlib.sha256(canonical).hexdigest(), "anybody can compute it")
        same = dict(env={"COLOUR": "red"}, stdin="in")
        ask(d, box, "touch", "/workspace/x", status=403, headers=granted(id), **same)
        equal(state(d, id), "pending", "using it too early changes nothing")
        equal(files(box), [], "nothing has run")
        approve(d, id, reason="fine")
        r = ask(d, box, "touch", "/workspace/x", status=200, headers=granted(id), **same)
        equal((r["exit_code"], files(box), state(d, id)), (0, ["x"], "used"))
        r = ask(d, box, "touch", "/workspace/x", status=403, headers=granted(id), **same)
        check("used" in r["error"]["message"], r)
        kinds = [(r["kind"], r["outcome"]) for r in d.records(action=id)]
        equal(kinds, [("approval", "pending"), ("approval", "approved"), ("grant", "used")])


@test("anything altered makes the grant void: each byte of it counts")
def test_anything_altered_makes_the_grant_void_each_byte():
    d = daemon()
    base = dict(command=["touch", "/workspace/x"], env={"A": "1"}, stdin="in", cwd="/tmp", timeout_ms=5000)
    changed = [dict(base, command=["touch", "/workspace/y"]), dict(base, command=["touch", "/workspace/x", ""]), dict(base, env={"A": "2"}),
               dict(base, env={}), dict(base, stdin="iN"), dict(base, cwd="/"), dict(base, timeout_ms=5001),
               dict(base, files=[{"path": "/workspace/z", "content": "z"}])]
    with d.sandbox() as box:
        for other in changed:
            id = d.post(box.path + "/exec", base).json["approval_id"]
            approve(d, id)
            a = d.post(box.path + "/exec", other, headers=granted(id))
            equal(a.status, 403, f"{other}: {a}")
            check("void" in a.json["error"]["message"], a)
            equal(state(d, id), "void")
            equal(d.post(box.path + "/exec", base, headers=granted(id)).status, 403, "not even for what it was for")
        equal(files(box), [])


@test("what runs is what was approved: programs and scripts are pinned, and run from a sealed copy")
def test_what_runs_is_what_was_approved_programs():
    d = daemon()
    script = "#!/bin/sh\necho approved $0 $1\n"
    with d.sandbox() as box:
        put = lambda text, name="bin/deploy": equal(d.put(f"{box.path}/files/content?path=/workspace/{name}&mode=755", text.encode()).status, 200)
        put(script)
        a = ask(d, box, "./bin/deploy", "now")
        pins = d.get("/v1/approvals/" + a["approval_id"]).json["subject"]["pins"]
        equal([(p["arg"], p["path"], p["sha256"], p.get("not_pinned")) for p in pins],
              [(0, "/workspace/bin/deploy", hashlib.sha256(script.encode()).hexdigest(), None)])
        approve(d, a["approval_id"])
        r = ask(d, box, "./bin/deploy", "now", status=200, headers=granted(a["approval_id"]))
        check(r["stdout"].startswith("approved /proc/self/fd/") and r["stdout"].endswith(" now\n"), r)
        # changed between the answer and the run: another subject
        id = ask(d, box, "./bin/deploy", "now")["approval_id"]
        approve(d, id)
        put("#!/bin/sh\necho evil\n")
        ask(d, box, "./bin/deploy", "now", status=403, headers=granted(id))
        equal(state(d, id), "void")
        # scripts of interpreters, by name and with a search for the program
        for program, name, text in (("python3", "s.py", "import sys; print('ok', len(sys.argv))\n"), ("node", "s.js", "console.log('ok', process.argv.length - 1)\n"),
                                    ("sh", "s.sh", "echo ok $(($# + 1))\n")):
            if program == "node" and not shutil.which("node"):
                continue
            put(text, name)
            id = ask(d, box, program, name, "arg")["approval_id"]
            pins = d.get("/v1/approvals/" + id).json["subject"]["pins"]
            equal([(p["arg"], p.get("not_pinned")) for p in pins if "libraries" not in p.get("not_pinned", "")], [(1, None)], program)
            approve(d, id)
            r = ask(d, box, program, name, "arg", status=200, headers=granted(id))
            equal(r["stdout"], "ok 2\n", r)
        # data that a command reads is compared, and said not to be pinned
        put("data", "in")
        pins = d.get("/v1/approvals/" + ask(d, box, "touch", "/workspace/in")["approval_id"]).json["subject"]["pins"]
        check(len(pins) == 1 and pins[0]["arg"] == 1 and "command itself" in pins[0]["not_pinned"], pins)


@test("while it waits, a file that is swapped right before the start is not run")
def test_while_it_waits_a_file_that_is_swapped_right():
    d = daemon()
    with d.sandbox() as box:
        put = lambda text: equal(d.put(f"{box.path}/files/content?path=/workspace/deploy&mode=755", text.encode()).status, 200)
        put("#!/bin/sh\necho approved\n")
        answer = []
        t = threading.Thread(target=lambda: answer.append(d.post(box.path + "/exec", {"command": ["./deploy", "swap"]}, headers={"X-Mas-Approval": "wait"})))
        t.start()
        mine = lambda: [a["id"] for a in d.get("/v1/approvals?status=pending").json["approvals"] if a["argv"] == ["./deploy", "swap"]]
        wait_for(mine, "it is asked")
        put("#!/bin/sh\necho swapped\n")
        approve(d, mine()[0])
        t.join(60)
        equal(answer[0].status, 403, answer)
        check("another call" in answer[0].json["error"]["message"], answer)
        equal(state(d, d.get("/v1/approvals?status=void").json["approvals"][-1]["id"]), "void")
        # swapped all the time, the runner compares what it runs
        put("#!/bin/sh\necho approved\n")
        flip = "while :; do printf '#!/bin/sh\\necho swapped\\n' > n; chmod 755 n; mv n deploy; printf '#!/bin/sh\\necho approved\\n' > n; chmod 755 n; mv n deploy; done"
        a = d.post(box.path + "/exec", {"command": ["bash", "-c", flip], "async": True})
        equal(a.json["status"], "running", a)
        for _ in range(10):
            a = d.post(box.path + "/exec", {"command": ["./deploy", "swap"]})
            pins = d.get("/v1/approvals/" + a.json["approval_id"]).json["subject"]["pins"]
            if not pins or pins[0]["sha256"] != hashlib.sha256(b"#!/bin/sh\necho approved\n").hexdigest():
                continue
            approve(d, a.json["approval_id"])
            r = d.post(box.path + "/exec", {"command": ["./deploy", "swap"]}, headers=granted(a.json["approval_id"]))
            check("swapped" not in r.json.get("stdout", ""), r)


@test("in another sandbox, or in one of the same name, it does not run")
def test_in_another_sandbox_or_in_one_of_the_same_name():
    d = daemon()
    with d.sandbox() as one, d.sandbox() as two:
        id = ask(d, one, "touch", "/workspace/x")["approval_id"]
        approve(d, id)
        ask(d, two, "touch", "/workspace/x", status=403, headers=granted(id))
        equal((files(one), files(two)), ([], []))
    box = d.sandbox(id="again")
    id = ask(d, box, "touch", "/workspace/x")["approval_id"]
    approve(d, id)
    box.delete()
    with d.sandbox(id="again") as box:
        ask(d, box, "touch", "/workspace/x", status=403, headers=granted(id))
        equal(files(box), [])


@test("after a change of the policy it does not run, and what waits is void")
def test_after_a_change_of_the_policy_it_does_not_run():
    with Guarded(POLICY) as d, d.sandbox() as box:
        id = ask(d, box, "touch", "/workspace/x")["approval_id"]
        waiting = ask(d, box, "touch", "/workspace/y")["approval_id"]
        approve(d, id)
        d.replace(POLICY + "# changed\n")
        wait_for(lambda: state(d, id) == "void", "the grant is void")
        equal(state(d, waiting), "void")
        a = ask(d, box, "touch", "/workspace/x", status=403, headers=granted(id))
        check("policy" in a["error"]["message"], a)
        equal(d.post(f"/v1/approvals/{waiting}/approve").status, 409)
        equal(files(box), [])


@test("one-shot runs, the MAS API, the sbx API and file writes ask and take grants too")
def test_one_shot_runs_the_mas_api_the_sbx_api_and_file():
    d = daemon()
    a = d.post("/v1/run", {"command": ["touch", "/workspace/x"]})
    equal(a.status, 202)
    approve(d, a.json["approval_id"])
    equal(d.post("/v1/run", {"command": ["touch", "/workspace/x"], "limits": {"memory_mb": 99}}, headers=granted(a.json["approval_id"])).status, 403)
    a = d.post("/v1/run", {"command": ["touch", "/workspace/x"]})
    approve(d, a.json["approval_id"])
    equal(d.post("/v1/run", {"command": ["touch", "/workspace/x"]}, headers=granted(a.json["approval_id"])).json["exit_code"], 0)
    call = {"tool": {"name": "shell", "args": {"command": "touch /workspace/x"}}}
    a = d.post("/v1/sandbox/execute", call).json
    equal((a["status"], a["error"]["code"], a["error"]["message"]), ("error", "policy_denied", "waiting for approval " + a["approval_id"]))
    approve(d, a["approval_id"])
    equal(d.post("/v1/sandbox/execute", call, headers=granted(a["approval_id"])).json["status"], "ok")
    with d.sandbox() as box:
        b = d.post(f"/sandboxes/{box.id}/exec", {"command": ["touch", "/workspace/b"], "async": False})
        equal(b.status, 409)
        approve(d, b.json["approval_id"])
        equal(d.post(f"/sandboxes/{box.id}/exec", {"command": ["touch", "/workspace/b"], "async": False}, headers=granted(b.json["approval_id"])).status, 200)
        path = box.path + "/files/content?path=/workspace/guarded/f"
        w = d.put(path, b"one\ntwo\nthree\n")
        approve(d, w.json["approval_id"])
        equal(d.put(path, b"one\ntwo\nthree\n", headers=granted(w.json["approval_id"])).status, 200)
        w = d.put(path, b"one\n2\nthree\n")
        equal(w.status, 202, w)
        shown = d.get("/v1/approvals/" + w.json["approval_id"]).json["shown"]
        check("-two\n+2\n" in shown["diff"], shown)
        approve(d, w.json["approval_id"])
        equal(d.put(path, b"one\n3\nthree\n", headers=granted(w.json["approval_id"])).status, 403, "other bytes")
        w = d.put(path, b"one\n2\nthree\n")
        approve(d, w.json["approval_id"])
        equal(d.put(path, b"one\n2\nthree\n", headers=granted(w.json["approval_id"])).status, 200)
        equal(d.get(path).body, b"one\n2\nthree\n")


@test("a session is for a yes: a no that has one is refused, and decides nothing")
def test_a_session_is_for_a_yes():
    d = daemon()
    with d.sandbox() as box:
        id = d.post(box.path + "/exec", {"command": ["touch", "/workspace/x"]}).json["approval_id"]
        a = d.post(f"/v1/approvals/{id}/reject", {"session": {"count": 3}})
        equal((a.status, a.json["error"]["field"]), (400, "session"), a)
        equal(d.get(f"/v1/approvals/{id}").json["status"], "pending")
        equal(d.post(f"/v1/approvals/{id}/reject", {"session": None}).status, 200)


@test("wait: the call blocks until a person decides")
def test_wait_the_call_blocks_until_a_person_decides():
    d = daemon()
    for verb, status in (("approve", 200), ("reject", 403)):
        with d.sandbox() as box:
            answer = []
            t = threading.Thread(target=lambda: answer.append(d.post(box.path + "/exec", {"command": ["touch", "/workspace/" + verb]}, headers={"X-Mas-Approval": "wait"})))
            t.start()
            mine = lambda: [a["id"] for a in d.get("/v1/approvals?status=pending").json["approvals"] if a["argv"] == ["touch", "/workspace/" + verb]]
            wait_for(mine, "it is asked")
            equal((answer, files(box)), ([], []))
            equal(d.post(f"/v1/approvals/{mine()[0]}/{verb}", {"reason": "because"}).status, 200)
            t.join(60)
            equal(answer[0].status, status, answer)
            equal(files(box), ["approve"] if status == 200 else [])
            if status == 403:
                check("because" in answer[0].json["error"]["message"], answer)
    equal(d.post("/v1/run", {"command": ["true"]}, headers={"X-Mas-Approval": "perhaps"}).status, 400)


@test("a question is shown once it can be decided: not before it is on record")
def test_a_question_is_shown_once_it_can_be_decided():
    d = daemon()
    with d.sandbox() as box:
        other = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        answer = []
        t = threading.Thread(target=lambda: answer.append(ask(d, box, "touch", "/workspace/late")))
        t.start()
        asked = lambda: [a["id"] for a in d.get("/v1/approvals?status=pending").json["approvals"] if a["argv"] == ["touch", "/workspace/late"]]
        end = time.monotonic() + 1
        while time.monotonic() < end:
            equal(asked(), [])
        other.execute("ROLLBACK")
        other.close()
        wait_for(asked, "it is asked")
        approve(d, asked()[0])
        t.join(60)
        equal(answer[0]["approval_id"], d.get("/v1/approvals?status=approved").json["approvals"][-1]["id"])


@test("a client that leaves while it waits: nothing runs, the question stays")
def test_a_client_that_leaves_while_it_waits_nothing_runs():
    d = daemon()
    with d.sandbox() as box:
        s = d.connect()
        body = json.dumps({"command": ["touch", "/workspace/gone"]})
        s.sendall(f"POST {box.path}/exec HTTP/1.1\r\nHost: localhost\r\nX-Mas-Approval: wait\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        mine = lambda: [a["id"] for a in d.get("/v1/approvals?status=pending").json["approvals"] if a["argv"] == ["touch", "/workspace/gone"]]
        wait_for(mine, "it is asked")
        id = mine()[0]
        s.close()
        time.sleep(0.2)
        approve(d, id)
        time.sleep(0.2)
        check(state(d, id) in ("approved", "used"), state(d, id))


@test("a session: the same call, so often, for so long, and nothing else")
def test_a_session_the_same_call_so_often_for_so_long():
    d = daemon()
    with d.sandbox() as box, d.sandbox() as other:
        id = ask(d, box, "touch", "/workspace/a")["approval_id"]
        equal(d.post(f"/v1/approvals/{id}/approve", {"session": {"argv_prefix": ["rm"], "count": 2}}).status, 400)
        equal(d.post(f"/v1/approvals/{id}/approve", {"session": {"count": 0}}).status, 400)
        v = approve(d, id, session={"argv_prefix": ["touch"], "count": 2, "ttl_seconds": 60})
        equal(v["session_calls_left"], 2)
        ask(d, box, "touch", "/workspace/a", status=200)
        ask(d, other, "touch", "/workspace/a", status=202)
        ask(d, box, "touch", "/workspace/b", cwd="/tmp")
        ask(d, box, "touch", "/workspace/b", status=200)
        equal(files(box), ["a", "b"])
        ask(d, box, "touch", "/workspace/c", status=202)
        equal(state(d, id), "used")
        id = ask(d, box, "shred", "/workspace/a")["approval_id"]
        equal(d.post(f"/v1/approvals/{id}/approve", {"session": {"count": 2}}).status, 403, "never for critical")
        id = ask(d, box, "python3", "-c", "print(1)")["approval_id"]
        equal(d.post(f"/v1/approvals/{id}/approve", {"session": {"argv_prefix": ["python3"], "count": 2}}).status, 400, "a prefix that says nothing")


@test("a session's prefix is no leave for another command behind it, at any use")
def test_a_session_prefix_is_no_leave_for_another_command():
    d = daemon()
    with d.sandbox() as box:
        for argv, prefix in ((["stdbuf", "-o0", "touch", "/workspace/a"], 1), (["timeout", "5", "touch", "/workspace/a"], 3), (["env", "touch", "/workspace/a"], 1)):
            id = ask(d, box, *argv)["approval_id"]
            equal(d.post(f"/v1/approvals/{id}/approve", {"session": {"argv_prefix": argv[:prefix], "count": 2}}).status, 400, argv)
        id = ask(d, box, "deploy", "x")["approval_id"]
        approve(d, id, session={"argv_prefix": ["deploy"], "count": 9, "ttl_seconds": 60})
        ask(d, box, "deploy", "y", status=200)
        ask(d, box, "deploy", "sh", "-c", "id", status=202)
        ask(d, box, "deploy", "--run=bash", status=202)


@test("expiry: of the question, and of a grant that nobody uses")
def test_expiry_of_the_question_and_of_a_grant():
    with Guarded(POLICY, "--approval-ttl", "2s") as d, d.sandbox() as box:
        one = ask(d, box, "touch", "/workspace/x")["approval_id"]
        two = ask(d, box, "touch", "/workspace/y")["approval_id"]
        approve(d, one)
        wait_for(lambda: state(d, one) == state(d, two) == "expired", "both expire")
        ask(d, box, "touch", "/workspace/x", status=403, headers=granted(one))
        equal(d.post(f"/v1/approvals/{two}/approve").status, 409)
        equal(files(box), [])


@test("limits: so many may wait")
def test_limits_so_many_may_wait():
    with Guarded(POLICY, "--max-pending-approvals-per-key", "2") as d:
        for i in range(2):
            equal(d.post("/v1/run", {"command": ["touch", str(i)]}).status, 202)
        equal(d.post("/v1/run", {"command": ["touch", "3"]}).status, 429)


@test("kill -9 at every step between the question and the end")
def test_kill_9_at_every_step_between_the_question():
    for point in ("approval.recorded", "approval.decided", "approval.using", "run.intent", "run.before-start", "run.start-sent", "exit.told"):
        with Guarded(POLICY, "--debug-endpoints", env={"MAS_FAULT": f"{point}:1"}) as d:
            box = d.sandbox()
            approval = None
            ran = False
            for _ in range(6):
                try:
                    if not approval:
                        a = d.post(box.path + "/exec", {"command": ["touch", "/workspace/once"]})
                        approval = a.json["approval_id"]
                    if state(d, approval) == "pending":
                        d.post(f"/v1/approvals/{approval}/approve")
                    if state(d, approval) == "approved":
                        d.post(box.path + "/exec", {"command": ["touch", "/workspace/once"]}, headers=granted(approval))
                    break
                except (OSError, http.client.HTTPException):
                    time.sleep(0.3)
            wait_for(lambda: d.get("/v1/status").status == 200, "it serves again")
            if not approval:
                waiting = d.get("/v1/approvals?status=pending").json["approvals"]
                check(len(waiting) <= 2, waiting)
                continue
            box_files = lambda: d.post(box.path + "/exec", {"command": ["ls", "/workspace"]}).json["stdout"].split()
            wait_for(lambda: not [r for r in open_calls(d)], f"{point}: every intent has an end")
            ran = "once" in box_files()
            used = state(d, approval) == "used"
            check(used or not ran, f"{point}: it ran and the grant is not used")
            stories = [s for s in calls(d) if any(r["kind"] == "intent" and r.get("details", {}).get("grant") == approval for r in s)]
            check(len(stories) <= 1, f"{point}: it was started twice: {stories}")
            if ran:
                equal(len(stories), 1, f"{point}: it ran, so there is an intent")
            if used:
                equal(d.post(box.path + "/exec", {"command": ["touch", "/workspace/once"]}, headers=granted(approval)).status, 403, point)


def calls(d):
    out = {}
    for r in d.records():
        if "call" in r:
            out.setdefault(r["call"], []).append(r)
    return list(out.values())


def open_calls(d):
    return [s for s in calls(d) if s[0]["kind"] == "intent" and s[-1]["kind"] not in ("exited", "done", "interrupted")]


@test("a webhook is told, signed, and told again when it was not there")
def test_a_webhook_is_told_signed_and_told_again():
    import hmac
    import http.server
    got = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((dict(self.headers), body))
            self.send_response(500 if len(got) == 1 else 200)
            self.end_headers()

        def log_message(self, *a):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/hook"
    with Guarded(POLICY, "--webhook-url", url, "--webhook-secret", "s3cret", "--gateway-allow-private", "127.0.0.0/8") as d:
        id = d.post("/v1/run", {"command": ["touch", "x"]}).json["approval_id"]
        wait_for(lambda: len(got) >= 2, "the first try fails, the second comes")
        approve(d, id)
        wait_for(lambda: len(got) >= 3, "and the answer")
        for headers, body in got:
            want = hmac.new(b"s3cret", headers["X-Mas-Timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
            equal(headers["X-Mas-Signature"], "sha256=" + want)
            equal(json.loads(body)["approval"]["id"], id)
        equal([h["X-Mas-Event"] for h, _ in got], ["approval.pending", "approval.pending", "approval.approved"])
        equal(got[0][0]["X-Mas-Delivery"], got[1][0]["X-Mas-Delivery"], "the same delivery")
    server.shutdown()


@test("a webhook that takes nothing is tried as often as said, and what does not fit its queue is dropped and logged")
def test_a_webhook_that_takes_nothing_is_tried_as_often():
    import http.server
    got, hold = [], threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["approval"]["id"])
            hold.wait(PATIENCE_S)  # until the queue is full
            self.send_response(500)
            self.end_headers()

        def log_message(self, *a):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Guarded(POLICY, "--webhook-url", f"http://127.0.0.1:{server.server_port}/", "--gateway-allow-private", "127.0.0.0/8",
                 "--webhook-queue", "2", "--webhook-tries", "2", "--webhook-timeout", "100s") as d:
        ids = [d.post("/v1/run", {"command": ["touch", "x"]}).json["approval_id"] for _ in range(3)]
        wait_for(lambda: f"(webhook_queue) approval={ids[2]}" in d.log_text(), d.log_text)
        hold.set()
        wait_for(lambda: d.log_text().count("was not delivered") == 2, lambda: (got, d.log_text()))
        equal(got, [ids[0]] * 2 + [ids[1]] * 2, "one after the other, each twice")
    server.shutdown()


@test("events for a dashboard, and the command line")
def test_events_for_a_dashboard_and_the_command_line():
    d = daemon()
    ws = d.ws("/v1/approvals/events")
    seen = []
    reader = threading.Thread(target=lambda: [seen.append(json.loads(m)) for m in ws.messages()], daemon=True)
    reader.start()
    addr = ["-addr", f"http://127.0.0.1:{d.port}"]
    p = subprocess.Popen([SBX, "run", *addr, "--", "touch", "/workspace/cli"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    line = p.stderr.readline()
    check("waiting for approval" in line, line)
    id = line.split("approval ")[1].split()[0]
    sbx = lambda *a: subprocess.run([SBX, "approvals", *a, *addr], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(id in sbx("list").stdout, "list")
    shown = sbx("show", id).stdout
    check("touch" in shown and "/workspace/cli" in shown and "it changes things" in shown, shown)
    equal(sbx("approve", id).stdout, "approved\n")
    equal(p.wait(60), 0, "sbx run goes on")
    p = subprocess.run([SBX, "run", *addr, "-approval", "return", "--", "touch", "x"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
    check(p.returncode == 122 and "-approval apr-" in p.stderr, p)
    wait_for(lambda: [e["type"] for e in seen if e["approval"]["id"] == id] == ["pending", "approved", "used"], lambda: seen)
    equal(sbx("reject", id).returncode, 123)
    equal(sbx("show", "nope").returncode, 123)
    ws.sock.shutdown(socket.SHUT_RDWR)
    reader.join(60)


# --- what a grant is worth at the moment of its use

LEVELS = """version: 1
default: allow
rules:
  - {id: all, verdict: allow, command: "*"}
  - {id: staging, verdict: ask, risk: medium, command: "*/deploy staging*"}
  - {id: quality, verdict: ask, risk: medium, command: "*/deploy quality*"}
  - {id: trial, verdict: ask, risk: low, command: "*/deploy trial*"}
  - {id: canary, verdict: ask, risk: high, command: "*/deploy canary*"}
  - {id: prod, verdict: ask, risk: critical, command: "*/deploy prod*"}
"""


def deployer(d, box):
    equal(d.put(f"{box.path}/files/content?path=/workspace/deploy&mode=755", b"#!/bin/sh\necho ran $*\n").status, 200)


@test("a session covers what the same rule asks about, at no more risk, and rules that the approver named; never critical")
def test_a_session_covers_what_the_same_rule_asks_about():
    targets = ("staging", "quality", "trial", "canary", "prod")
    risk = {"staging": 1, "quality": 1, "trial": 0, "canary": 2, "prod": 3}
    with Guarded(LEVELS) as d, d.sandbox() as box:
        deployer(d, box)
        for first, named in (("staging", None), ("staging", ["quality", "canary", "prod"]), ("canary", ["staging"]), ("trial", ["default", "unknown"])):
            id = ask(d, box, "./deploy", first)["approval_id"]
            session = {"argv_prefix": ["./deploy"], "count": 20}
            equal(d.post(f"/v1/approvals/{id}/approve", {"session": dict(session, rules=["nosuch"])}).status, 400)
            v = approve(d, id, session=dict(session, **({"rules": named} if named else {})))
            equal(v.get("session_rules"), named)
            for target in targets:
                covered = target != "prod" and risk[target] <= risk[first] and (target == first or target in (named or []))
                r = ask(d, box, "./deploy", target, "now", status=200 if covered else 202)
                equal(r.get("stdout"), f"ran {target} now\n" if covered else None)
                if not covered:
                    ask(d, box, "./deploy", target, "now", status=403, headers=granted(id))
            equal(state(d, id), "approved", "what it does not cover does not end it")
            d.post(f"/v1/policy/reload")
            d.replace(LEVELS + f"# {id}\n")  # ends the session


def clock_of(seconds):
    """The time of day so many seconds from now, as the rules write it."""
    return time.strftime("%H:%M", time.gmtime(time.time() + seconds))


@test("a grant is worth nothing where the decision of the moment asks for more: risk, obligations, or a denial by the hour")
def test_a_grant_is_worth_nothing_where_the_decision():
    later = f'hours: "{clock_of(3 * 3600)}-{clock_of(5 * 3600)}"'
    always = '  - {id: all, verdict: allow, command: "*"}\n  - {id: touch, verdict: ask, risk: medium, command: "touch *"}\n'
    changes = {
        "more risk": f'  - {{id: night, verdict: ask, risk: high, command: "touch *", {later}}}\n',
        "two people": f'  - {{id: night, verdict: ask, risk: critical, command: "touch *", {later}}}\n',
        "a limit": f'  - {{id: night, command: "touch *", require: {{limits: {{timeout_s: 5}}}}, {later}}}\n',
        "denied": f'  - {{id: night, verdict: deny, command: "touch *", {later}}}\n',
        "nothing": f'  - {{id: night, verdict: ask, risk: low, command: "touch *", {later}}}\n',
    }
    for what, rule in changes.items():
        policy = "version: 1\ndefault: allow\ntimezone: utc\nrules:\n" + always + rule
        for jump_ms in (1500, 6000, 24000):  # until the questions came before the jump
            if hour_changes(policy, jump_ms, what):
                break
        else:
            raise AssertionError("the clock always jumped too early")


def hour_changes(policy, jump_ms, what):
    with Guarded(policy, "--approval-ttl", "10h", "--debug-endpoints", env={"MAS_CLOCK_JUMP": f"{4 * 3600}:{jump_ms}"}) as d, d.sandbox() as box:
        call = lambda name, headers=None: d.post(box.path + "/exec", {"command": ["touch", "/workspace/" + name]}, headers=headers)
        started = lambda r: d.get(f"{box.path}/execs/{r['exec_id']}").json["started_at"]
        jumped = lambda: started(box.exec("true")) > time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3600))
        asked = [call(n).json for n in "ps"]
        answer = []
        t = threading.Thread(target=lambda: answer.append(call("w", {"X-Mas-Approval": "wait"})))
        if not all("approval_id" in a for a in asked):
            return False
        plain, session = (a["approval_id"] for a in asked)
        approve(d, session, session={"count": 5, "ttl_seconds": 36000})
        a = d.post(f"/v1/approvals/{plain}/approve", {})
        t.start()
        mine = lambda: [a["id"] for a in d.get("/v1/approvals?status=pending").json["approvals"] if a["argv"][1].endswith("w")]
        wait_for(lambda: mine() or answer, "it is asked")
        if jumped() or not mine():
            d.stop()
            t.join()
            return False
        wait_for(jumped, "the jump")
        waiting = mine()[0]
        approve(d, waiting)
        t.join(60)
        fine = what == "nothing"
        a, b = call("p", granted(plain)), call("s")
        equal((answer[0].status, a.status), (200, 200) if fine else (403, 403), f"{what}: {answer} {a}")
        equal(b.status, 200 if fine else 403 if what == "denied" else 202, f"{what}: {b}")
        equal(files(box), ["p", "s", "w"] if fine else [], what)
        if not fine and what != "denied":
            equal((state(d, plain), state(d, waiting)), ("void", "void"), what)
        return True


def locked(d):
    other = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
    other.execute("BEGIN IMMEDIATE")
    return other


def runner_of(d, box):
    """The host's number of the process that starts what runs in box."""
    mark = f"sleep {random.randrange(10**6, 10**7)}"
    d.post(box.path + "/exec", {"command": mark.split(), "async": True})
    wait_for(lambda: running_exactly(mark), "a command of the runner's")
    return parent_of(running_exactly(mark)[0])


@test("the hour counts until a call starts: after the last use of a session is on record, and after the last look at where its paths lead")
def test_the_hour_counts_until_a_call_starts():
    if os.environ.get("MAS_RUNTIME", "").endswith("gvisor"):
        raise Skip("gVisor's processes cannot be stopped one by one from the host")
    day, night = (f'hours: "{clock_of(a * 3600)}-{clock_of(b * 3600)}"' for a, b in ((-1, 2), (3, 5)))
    policy = f"""version: 1
default: allow
timezone: utc
rules:
  - {{id: all, verdict: allow, command: "*"}}
  - {{id: day, verdict: ask, risk: medium, command: "touch *", {day}}}
  - {{id: night, verdict: ask, risk: medium, command: "touch *", {night}}}
  - {{id: writes, verdict: ask, risk: medium, write: "/workspace/*"}}
  - {{id: closed, verdict: deny, write: "/workspace/closed", {night}}}
  - {{id: risky, verdict: ask, risk: high, write: "/workspace/risky", {night}}}
"""
    check(any(hour_ends(policy, jump_s) for jump_s in (4, 12, 36)), "the clock always jumped too early")


def hour_ends(policy, jump_s):
    earliest = time.monotonic() + jump_s
    with Guarded(policy, "--approval-ttl", "10h", "--debug-endpoints", env={"MAS_CLOCK_JUMP": f"{4 * 3600}:{jump_s * 1000}"}) as d, d.sandbox() as box, d.sandbox() as other:
        latest, answers = time.monotonic() + jump_s, {}
        write = lambda name, headers=None: d.put(f"{box.path}/files/content?path=/workspace/{name}", b"x", headers=headers)
        touch = lambda: d.post(other.path + "/exec", {"command": ["touch", "/workspace/touched"]})
        start = lambda name, f, *a: [t := threading.Thread(target=lambda: answers.update({name: f(*a)})), t.start()][0]
        names = ("closed", "risky", "fine")
        ids, session = {name: write(name).json["approval_id"] for name in names}, touch().json["approval_id"]
        approve(d, session, session={"count": 1, "ttl_seconds": 36000})
        for id in ids.values():
            approve(d, id)
        runner, lock = runner_of(d, box), locked(d)
        threads = [start(name, write, name, granted(ids[name])) for name in names]
        time.sleep(0.3)  # they wait for the database
        os.kill(runner, signal.SIGSTOP)
        try:
            lock.execute("ROLLBACK")
            row = lambda id: json.loads(lock.execute("SELECT body FROM approval WHERE key = ?", (id,)).fetchone()[0])
            wait_for(lambda: all(row(id)["state"] == "used" for id in ids.values()), "the uses are on record")
            lock.execute("BEGIN IMMEDIATE")
            threads.append(start("touch", touch))
            time.sleep(0.3)
            in_time = time.monotonic() < earliest
            time.sleep(max(0, latest - time.monotonic()) if in_time else 0)
            lock.execute("ROLLBACK")
        finally:
            os.kill(runner, signal.SIGCONT)
        lock.close()
        for t in threads:
            t.join(60)
        if in_time:
            equal({name: a.status for name, a in answers.items()}, {"closed": 403, "risky": 403, "fine": 200, "touch": 403}, answers)
            equal((files(box), files(other)), (["fine"], []))
        return in_time


@test("a policy that comes while a question, a vote or a use is being recorded ends it: nothing runs under what it denies")
def test_a_policy_that_comes_while_a_question_a_vote():
    deny = "version: 1\ndefault: allow\nrules:\n  - {id: no, verdict: deny, command: 'touch *'}\n"
    body = {"command": ["touch", "/workspace/late"]}
    wait = {"X-Mas-Approval": "wait"}
    for stage in ("ask", "ask and wait", "vote", "vote and wait", "use", "session"):
        with Guarded(POLICY) as d, d.sandbox() as box:
            answer = []
            send = lambda headers=None: answer.append(d.post(box.path + "/exec", body, headers=headers))
            start = lambda f, *a: [t := threading.Thread(target=f, args=a), t.start()][0]
            pending = lambda: d.get("/v1/approvals?status=pending").json["approvals"]
            threads = []
            if stage == "vote and wait":
                threads.append(start(send, wait))
                wait_for(pending, "it is asked")
                id = pending()[0]["id"]
            elif not stage.startswith("ask"):
                id = ask(d, box, *body["command"])["approval_id"]
            if stage in ("use", "session"):
                approve(d, id, **({"session": {"count": 3}} if stage == "session" else {}))
            lock = locked(d)
            if stage.startswith("ask"):
                threads.append(start(send, wait if "wait" in stage else None))
            elif stage.startswith("vote"):
                threads.append(start(lambda: d.post(f"/v1/approvals/{id}/approve", {})))
            else:
                threads.append(start(send, granted(id) if stage == "use" else None))
            time.sleep(0.3)  # it waits for the database
            d.replace(deny)
            lock.execute("ROLLBACK")
            lock.close()
            for t in threads:
                t.join(60)
            if stage == "vote":
                send(granted(id))
            if answer:
                check(answer[0].status == (202 if stage == "ask" else 403), f"{stage}: {answer}")
            wait_for(lambda: all(a["status"] in ("void", "used") for a in d.get("/v1/approvals").json["approvals"]), f"{stage}: it is void")
            equal(d.post(box.path + "/exec", body, headers=granted(d.get("/v1/approvals").json["approvals"][0]["id"])).status, 403, stage)
            equal(files(box), [], stage)


@test("a policy that comes, or an hour that ends, while the files of a call are written ends it before its command runs")
def test_a_policy_that_comes_or_an_hour_that_ends():
    if os.environ.get("MAS_RUNTIME", "").endswith("gvisor"):
        raise Skip("gVisor's processes cannot be stopped one by one from the host")
    rules = "version: 1\ndefault: allow\ntimezone: utc\nrules:\n  - {id: no, verdict: deny, command: 'touch *'%s}\n"
    other, night = rules.replace("touch", "other") % "", rules % f', hours: "{clock_of(3 * 3600)}-{clock_of(5 * 3600)}"'
    cut = False
    for _ in range(8):
        with Guarded(other) as d, d.sandbox() as box:
            cut = files_are_cut_short(d, box, lambda: d.replace(rules % ""))
        if cut:
            break
    check(cut, "the command always ran too early")
    check(any(hour_cuts_files(night, jump_s) for jump_s in (3, 9, 27)), "the clock always jumped too early")


def hour_cuts_files(policy, jump_s):
    with Guarded(policy, "--debug-endpoints", env={"MAS_CLOCK_JUMP": f"{4 * 3600}:{jump_s * 1000}"}) as d, d.sandbox() as box:
        jump = time.monotonic() + jump_s  # at the latest
        return files_are_cut_short(d, box, lambda: time.sleep(max(0, jump - time.monotonic())))


def files_are_cut_short(d, box, change):
    """Whether change() came between the intent of a call and its command: then it did not run."""
    body = {"command": ["touch", "/workspace/ran"], "files": [{"path": f"/tmp/f{i}", "content": "x"} for i in range(250)]}
    runner, answer, before = runner_of(d, box), [], d.count("intent")
    t = threading.Thread(target=lambda: answer.append(d.post(box.path + "/exec", body)))
    t.start()
    try:
        while not answer and d.count("intent") == before:
            pass
        os.kill(runner, signal.SIGSTOP)
        last = d.records(kind="intent")[-1]["call"] if d.count("intent") > before else None
        in_time = last and not answer and not d.records(kind="started", call=last)
        change()
    finally:
        os.kill(runner, signal.SIGCONT)
    t.join(60)
    if in_time:
        equal((answer[0].status, "ran" in files(box)), (403, False), answer)
        check("'no'" in answer[0].json["error"]["message"], answer)
        equal(d.records(kind="done", call=last)[-1]["outcome"], "failed")
    return in_time


# --- keys

def keyed(**roles):
    """A daemon with keys: a dictionary of headers by name, and one of ids."""
    d = Guarded(LEVELS + '  - {id: touch, verdict: ask, risk: medium, command: "touch *"}\n  - {id: calc, verdict: ask, tool: calculator}\n', "--auth-token", "t" * 32).start()
    d.token = "t" * 32
    headers, ids = {}, {}
    for name, role in roles.items():
        a = d.post("/v1/keys", {"name": name, "roles": role.split()})
        equal(a.status, 201, a)
        headers[name], ids[name] = {"Authorization": "Bearer " + a.json["secret"]}, a.json["id"]
    d.end_key = lambda name: equal(d.delete("/v1/keys/" + ids[name]).status, 200)
    d.box = Sandbox(d, d.post("/v1/sandboxes", {}, headers=headers["agent"]).json)
    equal(d.put(f"{d.box.path}/files/content?path=/workspace/deploy&mode=755", b"#!/bin/sh\ntouch /workspace/ran\n", headers=headers["agent"]).status, 200)
    return d, headers


def look(d, id):
    return d.get("/v1/approvals/" + id).json


@test("a vote counts while its key lives: revoked before and after the second vote, and before the use")
def test_a_vote_counts_while_its_key_lives_revoked():
    d, h = keyed(agent="agent", one="approver", two="approver", three="approver")
    try:
        call = lambda target, **more: d.post(d.box.path + "/exec", {"command": ["./deploy", target]}, headers=dict(h["agent"], **more))
        vote = lambda id, who: d.post(f"/v1/approvals/{id}/approve", {}, headers=h[who])
        a, b, c = (call(t).json["approval_id"] for t in ("staging", "prod", "prod"))
        equal((vote(a, "one").json["status"], vote(b, "one").json["status"], vote(b, "two").json["status"], vote(c, "one").json["status"]),
              ("approved", "pending", "approved", "pending"))
        d.end_key("one")
        wait_for(lambda: look(d, a)["status"] == look(d, b)["status"] == "void", lambda: (look(d, a), look(d, b)))
        check("approver" in look(d, a)["reason"], look(d, a))
        wait_for(lambda: look(d, c)["confirmations"] == 0, lambda: look(d, c))
        for id, target in ((a, "staging"), (b, "prod")):
            equal(call(target, **granted(id)).status, 403, target)
        equal(vote(c, "two").json["status"], "pending", "the revoked one is not the first of two")
        equal(call("prod", **granted(c)).status, 403)
        equal(vote(c, "three").json["status"], "approved")
        equal(call("prod", **granted(c)).status, 200)
        check("unconfirmed" in [r["outcome"] for r in d.records(action=c)], d.records(action=c))
    finally:
        d.__exit__()


def ignore_drop(call):
    """A request whose connection ends with its key."""
    try:
        call()
    except OSError:
        pass


@test("a call that waits for a sandbox being created does not run when its key has ended by then")
def test_a_call_that_waits_for_a_sandbox_being_created():
    d, h = keyed(agent="agent")
    start = lambda *a: [t := threading.Thread(target=ignore_drop, args=(lambda: d.post(*a, headers=h["agent"]),)), t.start()][0]
    try:
        os.kill(d.process.pid, signal.SIGSTOP)  # the warden, which makes sandboxes
        try:
            threads = [start("/v1/sandboxes", {})]
            created = lambda: [b["id"] for b in d.get("/v1/sandboxes").json["sandboxes"] if b["state"] == "creating"]
            wait_for(created, "it is being created")
            id = created()[0]
            threads.append(start(f"/v1/sandboxes/{id}/exec", {"command": ["true"]}))
            wait_for(lambda: d.records(kind="intent", sandbox=id), "the call waits for it")
            d.end_key("agent")
        finally:
            os.kill(d.process.pid, signal.SIGCONT)
        wait_for(lambda: d.records(kind="done", sandbox=id), "the call has ended")
        equal([r["outcome"] for r in d.records(kind="done", sandbox=id)], ["failed"])
        equal(d.records(kind="started", sandbox=id), [])
        for t in threads:
            t.join(60)
    finally:
        d.__exit__()


@test("what an ended key asked for is void, waiting or approved, and its waiting calls never run, in every kind of sandbox")
def test_what_an_ended_key_asked_for_is_void_waiting():
    d, h = keyed(agent="agent", other="agent", boss="approver")
    try:
        lasting = d.post("/v1/sandbox/create", {}, headers=h["agent"]).json["sandbox_id"]
        mas = {"sandbox_id": lasting, "tool": {"name": "calculator", "args": {"expression": "6*7"}}}
        waits = {"exec": (d.box.path + "/exec", {"command": ["touch", "/workspace/x"]}),
                 "mas": ("/v1/sandbox/execute", mas),
                 "one-shot": ("/v1/run", {"command": ["touch", "/workspace/x"]})}
        pending = lambda: {a["id"] for a in d.get("/v1/approvals?status=pending").json["approvals"]}
        approved = d.post(waits["exec"][0], waits["exec"][1], headers=h["agent"]).json["approval_id"]
        equal(d.post(f"/v1/approvals/{approved}/approve", {}, headers=h["boss"]).status, 200)
        others = d.post("/v1/run", {"command": ["touch", "/workspace/x"]}, headers=h["other"]).json["approval_id"]

        def ask_all(leave):
            asked, sockets = {}, []
            for name, (path, body) in waits.items():
                before, text = pending(), json.dumps(body)
                s = d.connect()
                s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-Mas-Approval: wait\r\nAuthorization: {h['agent']['Authorization']}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
                wait_for(lambda: len(pending() - before) == 1, f"{name} is asked")
                asked[name] = (pending() - before).pop()
                sockets.append(s)
                if leave:
                    s.close()
            return asked, sockets

        intents = lambda: [r["details"].get("grant") for r in d.records(kind="intent")]
        gone, _ = ask_all(True)
        time.sleep(0.3)  # the daemon sees them go
        for name, id in gone.items():
            equal(d.post(f"/v1/approvals/{id}/approve", {}, headers=h["boss"]).status, 200, name)
        time.sleep(0.3)
        for name, id in gone.items():
            equal((look(d, id)["status"], id in intents()), ("approved", False), f"{name}: its client left, and it did not run")
        here, sockets = ask_all(False)
        d.end_key("agent")
        for id in (*gone.values(), *here.values(), approved):
            wait_for(lambda: look(d, id)["status"] == "void", lambda: look(d, id))
            check("has ended" in look(d, id)["reason"], look(d, id))
            equal(d.post(f"/v1/approvals/{id}/approve", {}, headers=h["boss"]).status, 409)
        equal([i for i in intents() if i], [], "nothing of it ran")
        equal(look(d, others)["status"], "pending", "another key's is not touched")
    finally:
        d.__exit__()


@test("a session serves calls that come at once, as many as it has, and the others ask")
def test_a_session_serves_calls_that_come_at_once_as_many():
    with Guarded(LEVELS) as d, d.sandbox() as box:
        deployer(d, box)
        for count, calls_at_once in ((12, 12), (5, 12)):
            id = ask(d, box, "./deploy", "staging")["approval_id"]
            approve(d, id, session={"argv_prefix": ["./deploy"], "count": count})
            lock, answers = locked(d), []
            threads = [threading.Thread(target=lambda i=i: answers.append(d.post(box.path + "/exec", {"command": ["./deploy", "staging", str(i)]}))) for i in range(calls_at_once)]
            for t in threads:
                t.start()
            time.sleep(0.5)  # all of them wait for the first one's record
            lock.execute("ROLLBACK")
            lock.close()
            for t in threads:
                t.join(60)
            equal(sorted(a.status for a in answers), [200] * count + [202] * (calls_at_once - count), answers)
            equal((state(d, id), len([r for r in d.records(action=id) if r["kind"] == "grant"])), ("used", count))


@test("a clock that is set back revives nothing and stops no expiry, over a restart too")
def test_a_clock_that_is_set_back_revives_nothing():
    with Guarded(POLICY, "--approval-ttl", "6s", "--debug-endpoints", env={"MAS_CLOCK_JUMP": "-7200:2000"}) as d, d.sandbox() as box:
        id = ask(d, box, "touch", "/workspace/x")["approval_id"]
        approve(d, id)
        wait_for(lambda: state(d, id) == "expired", "it expires all the same")
        ask(d, box, "touch", "/workspace/x", status=403, headers=granted(id))
    with Guarded(POLICY, "--approval-ttl", "6s", "--debug-endpoints") as d:
        id = d.post("/v1/run", {"command": ["touch", "/workspace/x"]}).json["approval_id"]
        approve(d, id)
        seen = lambda: sqlite3.connect(d.state + "/control/state.db").execute("SELECT body FROM clock").fetchall()
        wait_for(seen, "the time is kept")
        d.stop()
        d.env["MAS_CLOCK_JUMP"] = "-7200:0"
        check(d.launch(), d.log_text())
        wait_for(lambda: state(d, id) == "expired", "two hours more would be too late", 20)


@test("rows of the version before open: a question, a grant and a session of it go on as they were")
def test_rows_of_the_version_before_open_a_question():
    with Guarded(LEVELS.replace('command: "*/deploy staging*"', 'command: "*/deploy staging*", require: {limits: {timeout_s: 30}}')) as d:
        box = d.sandbox()
        deployer(d, box)
        ids = [ask(d, box, "./deploy", "staging", x)["approval_id"] for x in ("a", "b", "c")]
        approve(d, ids[1])
        approve(d, ids[2], session={"count": 2})
        d.kill_control()
        db = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        for id in ids:
            row = json.loads(db.execute("SELECT body FROM approval WHERE key = ?", (id,)).fetchone()[0])
            check(row.pop("obligations"), row)
            db.execute("UPDATE approval SET body = ? WHERE key = ?", (json.dumps(row).encode(), id))
        db.execute("DROP TABLE clock")
        db.close()
        d.kill_control()
        equal([state(d, id) for id in ids], ["pending", "approved", "approved"])
        approve(d, ids[0])
        ask(d, box, "./deploy", "staging", "a", status=200, headers=granted(ids[0]))
        ask(d, box, "./deploy", "staging", "b", status=200, headers=granted(ids[1]))
        ask(d, box, "./deploy", "staging", "c", status=200)


ASK_ALL = "version: 1\ndefault: allow\nrules:\n  - {id: all, verdict: ask, command: '*'}\n"


def pins_of(d, place, *argv, **spec):
    a = d.post(place, dict(command=list(argv), **spec))
    equal(a.status, 202, a)
    return d.get("/v1/approvals/" + a.json["approval_id"]).json["subject"]["pins"]


def env_table(which):
    """The names of a table of src/shell/table-env.c."""
    with open(os.path.join(os.path.dirname(__file__), "../../src/shell/table-env.c")) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    body = text.split(which, 1)[1].split(";", 1)[0]
    return " ".join(re.findall(r'"([^"]*)"', body)).split()


# A command, a file that it reads by itself, and what else is said to be loaded.
BY_NAME = [
    ("make", "Makefile", "make"), ("make all", "makefile", "make"), ("make", "GNUmakefile", "make"), ("make -C sub", "sub/Makefile", "make"), ("make -fx.mk", "x.mk", "make"), ("ninja", "build.ninja", "ninja"),
    ("cmake .", "CMakeLists.txt", "cmake"), ("cmake --build out", "out/CMakeCache.txt", "cmake"), ("meson setup b", "meson.build", "meson"), ("pytest", "conftest.py", "pytest"), ("pytest tests/test_a.py::x", "tests/conftest.py", "pytest"),
    ("python3 -m pytest", "pytest.ini", "pytest"), ("python3 -m p", "p.py", "python -m p"), ("python3 pydir", "pydir/__main__.py", None), ("node nodedir", "nodedir/package.json", None), ("git log", ".git/config", "git"), ("git commit", ".git/hooks/pre-commit", "git"),
    ("npm test", "package.json", "npm"), ("npm run x", ".npmrc", "npm"), ("cargo build", "build.rs", "cargo"), ("cargo build --manifest-path=c/Cargo.toml", "c/Cargo.toml", "cargo"), ("go generate", "go.mod", "go"), ("mvn test", "pom.xml", "mvn"), ("gradle x", "settings.gradle", "gradle"),
    ("tox", "tox.ini", "tox"), ("just x", "justfile", "just"), ("rake", "Rakefile", "rake"), ("docker build ctx", "ctx/Dockerfile", "docker"), ("pip install .", "setup.py", "pip"), ("ansible-playbook s.yml", "ansible.cfg", "ansible-playbook"), ("terraform -chdir=tf plan", "tf/main.tf", "terraform"),
]


@test("what programs find by themselves is compared, and what cannot be is listed: a swapped Makefile makes the grant void")
def test_what_programs_find_by_themselves_is_compared():
    with Guarded(ASK_ALL) as d, d.sandbox() as box:
        put = lambda name, text: equal(d.put(f"{box.path}/files/content?path=/workspace/{name}", text.encode()).status, 200, name)
        here = box.path + "/exec"
        run = lambda line, **more: d.post(here, {"command": line.split() if isinstance(line, str) else line}, **more)
        put("tests/test_a.py", "")
        for line, name, program in BY_NAME:
            put(name, "one")
            pins = pins_of(d, here, *line.split())
            mine = [p for p in pins if p.get("path") == "/workspace/" + name]
            equal([p["sha256"] for p in mine], [hashlib.sha256(b"one").hexdigest()], f"{line}: {pins}")
            check("compared before the start" in mine[0]["not_pinned"] and mine[0]["by"] in line + " python -m p", mine)
            loads = [p["loads"] for p in pins if "loads" in p]
            check(program is None or any(f"what {program} loads from /workspace" in x for x in loads), f"{line}: {pins}")
            id = run(line).json["approval_id"]
            approve(d, id)
            put(name, "two")
            a = run(line, headers=granted(id))
            equal((a.status, state(d, id)), (403, "void"), f"{line} with another {name}: {a}")
        # one that is there only later, and would be read before the other or in its place
        id = run("make").json["approval_id"]
        approve(d, id)
        equal(d.delete(f"{box.path}/files?path=/workspace/GNUmakefile").status, 200)
        equal(run("make", headers=granted(id)).status, 403, "one is gone")
        for argv, name in ((["sh", "-c", "cd deep/er && make"], "deep/er/GNUmakefile"), (["env", "A=1", "make", "-C", "late"], "late/GNUmakefile"), (["timeout", "9", "pytest"], "pytest.toml")):
            put(name.rsplit("/", 1)[0] + "/x" if "/" in name else "x", "")
            id = run(argv).json["approval_id"]
            approve(d, id)
            put(name, "new")
            equal(run(argv, headers=granted(id)).status, 403, argv)
        # the home directory, and a link that leads elsewhere
        for script, argv, change in (("echo > $HOME/.gitconfig", ["git", "log"], "echo '[alias]' > $HOME/.gitconfig"), ("mkdir l; ln -s /etc/hostname l/Makefile", ["make", "-C", "l"], "ln -sf /etc/passwd l/Makefile")):
            for step in (script, None, change):
                if step is None:
                    id = run(argv).json["approval_id"]
                    approve(d, id)
                    continue
                prepared = run(["sh", "-c", step]).json["approval_id"]
                approve(d, prepared)
                equal(run(["sh", "-c", step], headers=granted(prepared)).json["exit_code"], 0, step)
            equal(run(argv, headers=granted(id)).status, 403, argv)
        # start files of shells: of a login shell or an interactive one, and there or not; a plain one reads none
        home = lambda name, text: [approve(d, i := run(["sh", "-c", f"echo '{text}' > $HOME/{name}"]).json["approval_id"]), equal(run(["sh", "-c", f"echo '{text}' > $HOME/{name}"], headers=granted(i)).json["exit_code"], 0, name)]
        for line, name in (("bash -lc true", ".bash_profile"), ("sh -l s.sh", ".profile"), ("bash -ic true", ".bashrc"), ("env A=1 bash --login -c true", ".bash_login"), ("bash --rcfile /workspace/rc -ic true", ".bashrc")):
            id = run(line).json["approval_id"]
            approve(d, id)
            home(name, f"echo {line}")
            equal((run(line, headers=granted(id)).status, state(d, id)), (403, "void"), f"{line}: {name} is new")
            pins = pins_of(d, here, *line.split())
            check(any(p.get("path", "").endswith("/" + name) and "compared before the start" in p["not_pinned"] and len(p["sha256"]) == 64 for p in pins), f"{line}: {pins}")
            id = run(line).json["approval_id"]
            approve(d, id)
            home(name, "echo another")
            equal((run(line, headers=granted(id)).status, state(d, id)), (403, "void"), f"{line}: {name} is another")
        check(any(p.get("command") == "true" for p in pins_of(d, here, "bash", "-lc", "true")), "the text is listed as a command of its own")
        for line in ("bash -c true", "sh s.sh"):
            check(not any("loads" in p or "by" in p for p in pins_of(d, here, *line.split())), line)
            id = run(line).json["approval_id"]
            approve(d, id)
            home(".bashrc", f"echo {line}")
            equal(run(line, headers=granted(id)).status, 200, f"{line} does not read it")
        # what stayed the same runs
        put("same/Makefile", "all:\n\t@echo made by $(MAKE_VERSION)\n")
        id = run("make -C same --no-print-directory").json["approval_id"]
        approve(d, id)
        a = run("make -C same --no-print-directory", headers=granted(id))
        equal(a.status, 200, a)
        check(a.json["stdout"].startswith("made by") or not shutil.which("make"), a)
        # a program that no table has, and sandboxes that are not there yet
        check(any("what frobnicate loads from /workspace" in p.get("loads", "") for p in pins_of(d, here, "frobnicate")), "not known")
        check(any("what make loads from" in p.get("loads", "") for p in pins_of(d, "/v1/run", "make")), "a one-shot")
        out = subprocess.run([SBX, "approvals", "show", run("make").json["approval_id"], "-addr", f"http://127.0.0.1:{d.port}"], stdout=subprocess.PIPE, text=True, timeout=60).stdout
        text = re.sub("\n {13}", " ", out)
        looks = [l for l in text.splitlines() if l.startswith("look")]
        check(any("/workspace/Makefile" in l and "for make" in l for l in looks) and any("what make loads from /workspace" in l for l in looks), out)


@test("code that runs is pinned, or listed as not pinned: interpreters, modules, directories, options, variables, commands in turn")
def test_code_that_runs_is_pinned_or_listed_as_not_pinned():
    files_there = {"run": "#!/workspace/interp\n", "interp": "#!/bin/sh\necho $0\n", "byenv": "#!/usr/bin/env tool\n", "lost": "#!/usr/bin/env nosuch\n",
                   "tool": "#!/bin/sh\n", "opt": "#!/usr/bin/python3 -m\n", "s.py": "print(1)\n", "d/__main__.py": "print(2)\n", "s.sh": "echo\n"}
    with Guarded(ASK_ALL) as d, d.sandbox(env={"PYTHONPATH": "/workspace/lib", "PLAIN": "1"}) as box:
        for name, text in files_there.items():
            equal(d.put(f"{box.path}/files/content?path=/workspace/{name}&mode=755", text.encode()).status, 200, name)
        here = box.path + "/exec"
        listed = lambda pins, key: [p[key] for p in pins if key in p and "not_pinned" in p]
        for argv, want in ((["./run"], "/workspace/interp"), (["./byenv"], "/workspace/tool"), (["./lost"], "nosuch"), (["./opt"], "-m"), (["python3", "-m", "p"], "-m"), (["python3", "-mp"], "-mp"),
                           (["python3", "-Im", "p"], "-Im"), (["python3", "d"], "d"), (["python3", "."], "."), (["bash", "-l"], "-l"), (["bash", "-il"], "-il"), (["bash", "--login", "s.sh"], "--login"),
                           (["bash", "--rcfile", "s.sh"], "--rcfile"), (["sh", "-s"], "-s"), (["python3", "-"], "-"), (["perl", "-Mx", "s.sh"], "-Mx"), (["ruby", "-rx", "s.sh"], "-rx"), (["node", "--require=./x", "s.sh"], "--require=./x"),
                           (["python3", "-c", "1"], "-c"), (["sh", "-c", "./run"], "-c"), (["python3.11", "s.py"], "python")):
            pins = pins_of(d, here, *argv, env={"PATH": "/workspace:/usr/bin:/bin"})
            check(any(want in x for x in listed(pins, "path")), f"{argv}: {pins}")
        for argv, want in ((["sh", "-c", "./run; touch x"], ["./run", "touch x"]), (["env", "./run"], ["./run"]), (["timeout", "5", "nice", "./run"], ["./run"]), (["sh", "-c", "$X"], ["<?>"])):
            found = listed(pins_of(d, here, *argv), "command")
            check(all(w in found for w in want), f"{argv}: {found}")
        known = [n.replace("*", "ZZ") for n in env_table("shell_env_harmful[]")]
        by_rule = [p + e for p in ("FROB", "some_tool") for e in ("_OPTIONS", "_OPTS", "FLAGS", "_PRELOAD", "_STARTUP_HOOKS", "_PLUGIN_PATH", "_MODULES", "LOADPATH", "_LIBRARY_PATH", "_COMMAND")]
        names = known + by_rule
        check(len(known) > 200, known)
        for place in ("call", "sandbox"):
            env = {n: "/workspace/x" for n in names}
            if place == "call":
                pins = pins_of(d, here, "true", env=dict(env, COLOUR="red"))
            else:
                pins = pins_of(d, d.sandbox(env=dict(env, COLOUR="red")).path + "/exec", "true")
            found = [p["env"].split("=")[0] for p in pins if "env" in p and p["of"] == place]
            equal(sorted(found), sorted(names), place)
            reasons = {p["env"].split("=")[0]: p["not_pinned"] for p in pins if "env" in p}
            check(all(("may load code" in reasons[n]) == (n in by_rule) for n in names), reasons)
            harmless = {n: "1" for n in env_table("shell_env_harmless[]")}
            equal([p for p in pins_of(d, here, "true", env=harmless) if "env" in p and p["of"] == "call"], [], "what is harmless is not listed")
        equal([p["env"] for p in pins_of(d, here, "true") if "env" in p], ["PYTHONPATH=/workspace/lib"], "of the sandbox, and nothing harmless")
        equal([p for p in pins_of(d, here, "sh", "-eu", "s.sh") if "not_pinned" in p and "env" not in p], [], "what is all pinned says nothing else")
        # an interpreter that is swapped between the question and the start is another subject
        a = d.post(here, {"command": ["./run"]}).json["approval_id"]
        approve(d, a)
        equal(d.put(f"{box.path}/files/content?path=/workspace/interp&mode=755", b"#!/bin/sh\necho swapped\n").status, 200)
        equal(d.post(here, {"command": ["./run"]}, headers=granted(a)).status, 403)


HIDDEN = "".join(map(chr, (0x1b, 0x9b, 0x7f, 0xad, 0x61c, 0x200b, 0x200d, 0x200e, 0x202e, 0x2028, 0x2060, 0x2066, 0x2069, 0xfeff, 0xe0041)))


def scalars(value):
    if isinstance(value, (dict, list)):
        for v in value.values() if isinstance(value, dict) else value:
            yield from scalars(v)
    elif value is not None:
        yield value


def written(text):
    """As sbx writes it."""
    return "".join((f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}") if c in HIDDEN or c < " " else c for c in text)


def on_terminal(*argv, columns=0):
    """What a command prints to a terminal of that width, or one that does not say."""
    import fcntl
    import pty
    import struct
    import termios
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=child, stderr=child)
    os.close(child)
    out = b""
    while True:
        try:
            data = os.read(parent, 65536)
        except OSError:
            data = b""
        if not data:
            break
        out += data
    os.close(parent)
    return p.wait(60), out.decode()


@test("sbx shows all that the digest covers, the unusual first, and nothing that a terminal obeys or hides")
def test_sbx_shows_all_that_the_digest_covers_the_unusual():
    host = tempfile.mkdtemp(prefix="mas-host-")
    atexit.register(shutil.rmtree, host, True)
    with Guarded(ASK_ALL, "--mounts-allow", host) as d:
        box = d.sandbox(env={"LD_PRELOAD": "/workspace/a.so", "QUIET": "s" + HIDDEN}, mounts=[{"source": host, "target": "/mnt/host", "read_only": False}], limits={"memory_mb": 77})
        equal(d.put(f"{box.path}/files/content?path=/workspace/go&mode=755", b"#!/bin/sh\n").status, 200)
        name = "x" + HIDDEN.replace("\x1b", "") + "y"
        equal(d.put(f"{box.path}/files/content?path=/workspace/" + urllib.parse.quote(name), b"").status, 200)
        spec = dict(command=["./go", "a" + HIDDEN + "b", "line\nline"], env={"BASH_ENV": "/workspace/r" + HIDDEN, "N": "1"}, cwd="/workspace", stdin="in" + HIDDEN, timeout_ms=54321,
                    files=[{"path": "/workspace/f", "content": "text" + HIDDEN}])
        plain = d.post(box.path + "/exec", spec).json["approval_id"]
        addr = ["-addr", f"http://127.0.0.1:{d.port}"]
        code, wrapped = on_terminal(SBX, "approvals", "show", plain, *addr)
        equal(code, 0, wrapped)
        text = re.sub("\r\n {13}", "", wrapped)
        full = d.get("/v1/approvals/" + plain).json
        for value in scalars(full["subject"]):
            shown = written(value) if isinstance(value, str) else json.dumps(value)
            check(shown in text, f"{shown!r} is not in {text}")
        check(full["subject"]["pins"][0]["sha256"] in text and full["digest"] in text, text)
        lines = text.replace("\r", "").splitlines()
        looks = [l for l in lines if "look" in l.split(" ")[0]]
        for word in ("do not show", "sets variables", "writes to the host's " + host, "BASH_ENV", "LD_PRELOAD"):
            check(any(word in l for l in looks), f"{word}: {looks}")
        check(max(i for i, l in enumerate(lines) if l in looks) < min(i for i, l in enumerate(lines) if l.startswith("argv")), "the unusual is first")
        for spec, word in ((dict(open_stdin=True), "more input"), (dict(pty=True), "terminal")):
            id = d.post(box.path + "/exec", dict(command=["cat"], **{"async": True}, **spec)).json["approval_id"]
            check(word in on_terminal(SBX, "approvals", "show", id, *addr)[1], word)
        outputs = {"show": wrapped}
        for verb in (["approvals", "list"], ["approvals", "show", plain, "-json"], ["approvals", "list", "-json"], ["ls", box.id], ["ls", "-json", box.id]):
            code, outputs[" ".join(verb)] = on_terminal(SBX, *verb, *addr)
            equal(code, 0, verb)
        for verb, out in outputs.items():
            plain_out = re.sub("\x1b\\[[0-9]*m", "", out)
            check(not any(c in plain_out for c in HIDDEN), f"{verb}: {plain_out!r}")
        check(written(name) in outputs["ls " + box.id], outputs)


# Unicode's Default_Ignorable_Code_Point, which Python's module does not know; what only a font gives a look; blanks that are no spaces.
IGNORABLE = ((0x34f, 0x34f), (0x115f, 0x1160), (0x17b4, 0x17b5), (0x180b, 0x180f), (0x2065, 0x2065), (0x3164, 0x3164), (0xfe00, 0xfe0f), (0xffa0, 0xffa0),
             (0xfff0, 0xfff8), (0xe0000, 0xe0fff))
NO_LOOK = ((0x2800, 0x2800), (0xe000, 0xe002), (0xf8fd, 0xf8ff), (0xfdd0, 0xfdef), (0xfffe, 0xffff), (0xf0000, 0xf0002), (0x10fffe, 0x10ffff))


@test("no character without a look of its own is shown as it is, whatever Unicode calls it")
def test_no_character_without_a_look():
    import unicodedata
    hidden = {chr(cp) for cp in range(1, 0x110000) if unicodedata.category(chr(cp)) in ("Cc", "Cf", "Zs", "Zl", "Zp")} - {" "}
    hidden |= {chr(cp) for first, last in IGNORABLE + NO_LOOK for cp in range(first, last + 1)}
    check(len(hidden) > 4000, len(hidden))
    with Guarded(ASK_ALL) as d:
        addr = ["-addr", f"http://127.0.0.1:{d.port}"]
        a = d.post("/v1/run", {"command": ["echo"] + [f"a{c}b" for c in sorted(hidden)]})
        id = a.json["approval_id"]
        for verb in (["approvals", "show", id], ["approvals", "list"]):
            p = subprocess.run([SBX, *verb, *addr], capture_output=True, timeout=120)
            equal(p.returncode, 0, p.stderr)
            equal(sorted(f"U+{ord(c):04X}" for c in hidden & set(p.stdout.decode()) - {"\n"}), [], f"{verb} shows these as they are")
        text = subprocess.run([SBX, "approvals", "show", id, *addr], capture_output=True, timeout=120).stdout.decode()
        check("do not show" in text, text[:2000])
        for c in ("\u3000", "\U0001bca0", "\u2065", "\u2800"):
            one = d.post("/v1/run", {"command": ["echo", f"a{c}b"]}).json["approval_id"]
            text = subprocess.run([SBX, "approvals", "show", one, *addr], capture_output=True, timeout=120).stdout.decode()
            check("do not show" in text, f"U+{ord(c):04X}: {text}")


@test("sbx approvals show is no wider than the terminal, loses nothing, and puts nothing else at the left edge")
def test_sbx_approvals_show_is_no_wider_than_the_terminal():
    with Guarded(ASK_ALL) as d:
        addr = ["-addr", f"http://127.0.0.1:{d.port}"]
        texts = ["word " * 60, "x" * 300, "\u00e4\u4e16" * 80, "a" * 70 + " " * 70 + "status       approved", "end "]
        spec = {"command": ["echo", *texts], "stdin": "\n".join(texts), "files": [{"path": "/workspace/" + "n" * 200, "content": "y" * 250}]}
        id = d.post("/v1/run", spec).json["approval_id"]
        for width in (None, 60, 100, 173):
            if width:
                code, out = on_terminal(SBX, "approvals", "show", id, *addr, columns=width)
            else:
                p = subprocess.run([SBX, "approvals", "show", id, *addr], stdout=subprocess.PIPE, text=True, timeout=60)
                code, out = p.returncode, p.stdout
            equal(code, 0, out)
            lines = re.sub("\x1b\\[[0-9]*m", "", out).replace("\r", "").splitlines()
            check(max(map(len, lines)) <= (width or 100), (width, max(lines, key=len)))
            whole = "\n".join(lines).replace("\n" + " " * 13, "")
            for value in texts + [spec["files"][0]["path"]]:
                check(value in whole, (width, value, whole))
            block = "\n".join(lines).replace("\n    ", "")
            check(all("\n  " + t in block for t in texts) and "y" * 250 in block, (width, block))
            equal([l for l in lines if l.startswith("status")], ["status       pending"], width)


@test("whatever is asked, approved and reloaded at once: each call that ran was allowed, or granted, by the policy of that moment")
def test_whatever_is_asked_approved_and_reloaded_at_once():
    import random
    names = ("a", "b", "c", "d")
    seed = int.from_bytes(os.urandom(4), "big")
    rng = random.Random(seed)
    verdicts = {}

    def policy():
        chosen = {n: rng.choice([("allow", "low"), ("ask", "low"), ("ask", "high"), ("deny", "low")]) for n in names}
        rules = "".join(f"  - {{id: {n}, verdict: {v}, risk: {r}, command: 'touch /workspace/{n}*'}}\n" for n, (v, r) in chosen.items())
        text = f"version: 1\ndefault: allow\nrules:\n{rules}# {rng.random()}\n"
        verdicts[hashlib.sha256(text.encode()).hexdigest()] = {n: v for n, (v, _) in chosen.items()}
        return text

    with Guarded(policy(), "--max-pending-approvals", "1000", "--max-pending-approvals-per-key", "1000") as d, d.sandbox() as box:
        over = threading.Event()

        def call():
            while not over.is_set():
                name = rng.choice(names)
                d.post(box.path + "/exec", {"command": ["touch", f"/workspace/{name}{rng.randrange(3)}"]}, headers=rng.choice([{"X-Mas-Approval": "wait"}, None]), timeout=120)

        def decide():
            while True:
                pending = d.get("/v1/approvals?status=pending").json["approvals"]
                for a in pending:
                    d.post(f"/v1/approvals/{a['id']}/approve", rng.choice([{}, {"session": {"argv_prefix": ["touch"], "count": 3}}]))
                if over.is_set() and not pending and not any(t.is_alive() for t in callers):
                    return
                time.sleep(0.02)
        callers = [threading.Thread(target=call) for _ in range(4)]
        approver = threading.Thread(target=decide)
        for t in (*callers, approver):
            t.start()
        try:
            for _ in range(5):
                time.sleep(0.3)
                lock = locked(d)  # questions, votes and uses are under way while it comes
                d.replace(policy())
                lock.execute("ROLLBACK")
                lock.close()
        finally:
            over.set()
            for t in (*callers, approver):
                t.join(120)
        current, n, granted_ones, seen, since = None, 0, 0, 0, 0
        while True:
            records = [json.loads(x) for x in d.get(f"/v1/audit?limit=1000&since={since}").body.splitlines()]
            if not records or records[-1]["seq"] == since:
                break
            since = records[-1]["seq"]
            for r in records:
                if r["kind"] == "policy_change" and r["outcome"] == "loaded":
                    current, seen = r["revision"], seen + 1
                argv = r.get("details", {}).get("argv", [""])
                if r["kind"] == "intent" and os.path.basename(argv[0]) == "touch":
                    n, granted_ones = n + 1, granted_ones + (r["outcome"] == "granted")
                    verdict = verdicts[r["revision"]][argv[1].rsplit("/", 1)[1][0]]
                    equal(r["revision"], current, f"seed {seed}: {r}")
                    # who began to ask under the policy before may have asked for no need
                    check(verdict == "allow" or (verdict == "ask" and r["outcome"] == "granted"), f"seed {seed}: {verdict} {r}")
        check(n > granted_ones > 0 and seen >= 6, f"seed {seed}: {n} calls, {granted_ones} granted, {seen} policies")


@test("a grant for a one-shot with files is not used up for want of a second sandbox")
def test_a_grant_for_a_one_shot_with_files_is_not_used_up():
    with Guarded(POLICY, "-auth-token", "t") as d:
        d.token = "t"
        agent, approver = (d.post("/v1/keys", {"name": r, "roles": [r], "quotas": {"max_sandboxes": 1}}).json["secret"]
                           for r in ("agent", "approver"))
        body = {"command": ["touch", "x"], "files": [{"path": "f", "content": "x"}]}
        for session in (None, {"count": 2, "ttl_seconds": 600}):
            headers = {"Authorization": "Bearer " + agent}
            a = d.post("/v1/run", body, headers=headers)
            equal(a.status, 202, a)
            id = a.json["approval_id"]
            a = d.post(f"/v1/approvals/{id}/approve", {"session": session} if session else {}, headers={"Authorization": "Bearer " + approver})
            equal(a.status, 200, a)
            wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 0, "the one that was looked into is gone")
            a = d.post("/v1/run", body, headers=headers if session else dict(headers, **{"X-Mas-Approval-Id": id}))
            equal(a.status, 200, a)
            wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 0, "it is gone")


main()
