#!/usr/bin/python3
"""What a person approved is what runs, once: every way to make it something else must fail."""
import os
import sqlite3
import sys
import threading
import time

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
def _():
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
def _():
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
def _():
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
            equal([(p["arg"], p.get("not_pinned")) for p in pins], [(1, None)], program)
            approve(d, id)
            r = ask(d, box, program, name, "arg", status=200, headers=granted(id))
            equal(r["stdout"], "ok 2\n", r)
        # data that a command reads is compared, and said not to be pinned
        put("data", "in")
        pins = d.get("/v1/approvals/" + ask(d, box, "touch", "/workspace/in")["approval_id"]).json["subject"]["pins"]
        check(len(pins) == 1 and pins[0]["arg"] == 1 and "command itself" in pins[0]["not_pinned"], pins)


@test("while it waits, a file that is swapped right before the start is not run")
def _():
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
        check("swapped" not in answer[0].body.decode() or answer[0].json.get("stdout") == "", answer)
        equal(answer[0].json["status"], "failed", answer)
        check("approved" in answer[0].json["error"], answer)


@test("in another sandbox, or in one of the same name, it does not run")
def _():
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
def _():
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


@test("one-shot runs, contract A, contract B and file writes ask and take grants too")
def _():
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


@test("wait: the call blocks until a person decides")
def _():
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
def _():
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
def _():
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
def _():
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


@test("expiry: of the question, and of a grant that nobody uses")
def _():
    with Guarded(POLICY, "--approval-ttl", "2s") as d, d.sandbox() as box:
        one = ask(d, box, "touch", "/workspace/x")["approval_id"]
        two = ask(d, box, "touch", "/workspace/y")["approval_id"]
        approve(d, one)
        wait_for(lambda: state(d, one) == state(d, two) == "expired", "both expire")
        ask(d, box, "touch", "/workspace/x", status=403, headers=granted(one))
        equal(d.post(f"/v1/approvals/{two}/approve").status, 409)
        equal(files(box), [])


@test("limits: so many may wait")
def _():
    with Guarded(POLICY, "--max-pending-approvals-per-key", "2") as d:
        for i in range(2):
            equal(d.post("/v1/run", {"command": ["touch", str(i)]}).status, 202)
        equal(d.post("/v1/run", {"command": ["touch", "3"]}).status, 429)


@test("kill -9 at every step between the question and the end")
def _():
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
def _():
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
def _():
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
        wait_for(lambda: f"an event is dropped approval={ids[2]}" in d.log_text(), d.log_text)
        hold.set()
        wait_for(lambda: d.log_text().count("was not delivered") == 2, lambda: (got, d.log_text()))
        equal(got, [ids[0]] * 2 + [ids[1]] * 2, "one after the other, each twice")
    server.shutdown()


@test("events for a dashboard, and the command line")
def _():
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


main()
