#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Keys: roles, quotas, invisibility, revocation, the first one, and what is never written down."""
import os
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from mcp import Client, rpc
from routes import route_table

TOKEN = "the-operators-token"


def auth(secret):
    return {"Authorization": "Bearer " + secret}


def add(d, name, *roles, **more):
    a = d.post("/v1/keys", dict(name=name, roles=list(roles), **more), headers=auth(TOKEN))
    equal(a.status, 201, a)
    return a.json


def daemon():
    return shared_daemon("-auth-token", TOKEN, "--debug-endpoints")


def sbx(*argv, check_code=True, **kw):
    p = subprocess.run([SBX, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=60, **kw)
    if check_code:
        equal((p.returncode, p.stderr), (0, ""), f"sbx {argv}")
    return p


@test("a key is shown once, works, and its secret is nowhere in the daemon's files")
def test_a_key_is_shown_once_works_and_its_secret():
    d = daemon()
    k = add(d, "shown once", "agent")
    check(k["secret"].startswith("mas_") and len(k["secret"]) == 68, k)
    equal(d.get("/v1/identity", headers=auth(k["secret"])).json,
          {"key": k["id"], "name": "shown once", "roles": ["agent"], "authenticated": True,
           "quotas": {"max_sandboxes": 0, "max_execs": 0, "requests_per_minute": 6000}})
    equal(d.get("/v1/identity", headers={"X-Sandbox-Token": k["secret"]}).json["key"], k["id"])
    listed = d.get("/v1/keys", headers=auth(TOKEN))
    check(k["id"] in listed.body.decode() and "secret" not in listed.json["keys"][0], listed)
    d.post("/v1/run", {"command": ["true"]}, headers=auth(k["secret"]))
    d.get("/v1/identity", headers=auth(k["secret"] + "x"))
    hidden = k["secret"].encode()
    for root, _, files in os.walk(d.dir):
        for name in files:
            with open(os.path.join(root, name), "rb") as f:
                data = f.read()
            check(hidden not in data and hidden[4:] not in data, f"the secret is in {name}")


@test("nobody, and wrong, ended or mistyped keys get 401")
def test_nobody_and_wrong_ended_or_mistyped_keys_get_401():
    d = daemon()
    k = add(d, "mistyped", "agent")["secret"]
    for wrong in (None, "", "mas_", k[:-1], k + "0", k.upper(), "mas_" + "0" * 64, " " + k[:10]):
        a = d.get("/v1/sandboxes", headers=auth(wrong) if wrong is not None else {})
        equal((a.status, a.headers["WWW-Authenticate"]), (401, "Bearer"), wrong)
    equal(d.get("/healthz").status, 200)


@test("each role may do its own and gets 403 naming what else needs")
def test_each_role_may_do_its_own_and_gets_403_naming():
    d = daemon()
    keys = {r: add(d, "role " + r, r)["secret"] for r in ("agent", "operator", "approver", "auditor", "admin")}
    run = {"command": ["echo", "x"]}
    allowed = {"agent": {"/v1/run", "/v1/sandboxes"}, "operator": {"/v1/sandboxes", "/metrics"}, "approver": set(),
               "auditor": {"/metrics"}, "admin": {"/v1/sandboxes", "/metrics", "/v1/keys"}}
    for role, secret in keys.items():
        for path in ("/v1/run", "/v1/sandboxes", "/metrics", "/v1/keys"):
            a = d.post(path, run, headers=auth(secret)) if path == "/v1/run" else d.get(path, headers=auth(secret))
            equal(a.status, 200 if path in allowed[role] else 403, f"{role} {path}: {a}")
        equal(d.get("/v1/identity", headers=auth(secret)).json["roles"], [role])
    message = d.get("/v1/keys", headers=auth(keys["agent"])).json["error"]
    equal(message, {"code": "forbidden", "message": "this needs the role admin; key 'role agent' has agent"})
    check("one of the roles agent, operator, admin" in d.get("/sandboxes", headers=auth(keys["auditor"])).json["error"], "the sbx API")


@test("every route but the open ones refuses a key without its roles, and nobody")
def test_every_route_but_the_open_ones_refuses_a_key():
    d = daemon()
    keys = {r: add(d, "table " + r, r)["secret"] for r in ("agent", "operator", "approver", "auditor", "admin")}
    for r in route_table():
        path = r["path"].replace("{id}", "sbx-none").replace("{exec_id}", "x")
        if r["open"] or "{" in path:
            continue
        equal(d.request(r["method"].upper(), path).status, 401, path)
        for role, secret in keys.items():
            if role not in r["roles"]:
                equal(d.request(r["method"].upper(), path, headers=auth(secret)).status, 403, f"{role} {r['method']} {path}")


@test("what one key has does not exist for another; operators and admins see it")
def test_what_one_key_has_does_not_exist_for_another():
    d = daemon()
    a, b = add(d, "alice", "agent")["secret"], add(d, "bob", "agent")["secret"]
    op = add(d, "operator", "operator")["secret"]
    sb = d.post("/v1/sandboxes", {}, headers=auth(a)).json["id"]
    path = f"/v1/sandboxes/{sb}"
    e = d.post(path + "/exec", {"command": ["echo", "private"]}, headers=auth(a)).json["exec_id"]
    equal(d.post("/v1/sandbox/create", {"sandbox_id": "mine"}, headers=auth(a)).json["sandbox_id"], "mine")
    for method, p, body in (("GET", path, None), ("DELETE", path, None), ("GET", path + "/stats", None), ("GET", path + "/execs", None),
                            ("GET", f"{path}/execs/{e}", None), ("GET", f"{path}/execs/{e}/logs", None),
                            ("POST", f"{path}/execs/{e}/cancel", {}), ("POST", path + "/exec", {"command": ["id"]}),
                            ("GET", path + "/files?path=/", None), ("GET", path + "/files/content?path=/etc/passwd", None),
                            ("PUT", path + "/files/content?path=/tmp/x", b"x"), ("GET", path + "/processes", None),
                            ("GET", f"/sandboxes/{sb}", None), ("DELETE", f"/sandboxes/{sb}", None),
                            ("POST", f"/sandboxes/{sb}/exec", {"command": ["id"]}), ("GET", f"/sandboxes/{sb}/execs/{e}", None)):
        equal(d.request(method, p, body, headers=auth(b)).status, 404, f"{method} {p}")
    for name in (sb, "mine", "nobody-has-it"):
        x = d.post("/v1/sandbox/destroy", {"sandbox_id": name}, headers=auth(b))
        equal((x.status, x.json), (200, {"status": "ok"}), "what is not there is gone")
    equal(d.get(path, headers=auth(a)).status, 200, "another's is not")
    for w in (d.ws(f"/sandboxes/{sb}/stream?exec_id={e}", auth(b)), d.ws(f"{path}/execs/{e}/attach", auth(b))):
        equal(w.status, 404)
        w.close()
    x = d.post("/v1/sandbox/execute", {"sandbox_id": sb, "tool": {"name": "calculator", "args": {"expression": "1"}}}, headers=auth(b)).json
    equal(x["status"], "error", x)
    equal(d.get("/v1/sandboxes", headers=auth(b)).json["sandboxes"], [])
    equal(d.get("/sandboxes", headers=auth(b)).json, [])
    check(sb in [s["id"] for s in d.get("/v1/sandboxes", headers=auth(op)).json["sandboxes"]], "the operator lists it")
    equal(d.get(path, headers=auth(op)).status, 200)
    check("private" in d.get(f"{path}/execs/{e}/logs", headers=auth(op)).body.decode(), "the operator reads it")
    equal(d.post(path + "/exec", {"command": ["id"]}, headers=auth(op)).status, 403, "an operator is no agent")
    # the same alias of another key is another sandbox
    equal(d.post("/v1/sandbox/create", {"sandbox_id": "mine"}, headers=auth(b)).status, 200)
    equal(d.post("/v1/sandbox/destroy", {"sandbox_id": "mine"}, headers=auth(b)).status, 200)
    equal(d.post("/v1/sandbox/execute", {"sandbox_id": "mine", "tool": {"name": "calculator", "args": {"expression": "1+1"}}},
                 headers=auth(a)).json["result"]["result"], 2)
    equal(d.delete(path, headers=auth(op)).status, 200)


@test("an Idempotency-Key of one key is not another's")
def test_an_idempotency_key_of_one_key_is_not_anothers():
    d = daemon()
    a, b = add(d, "idem a", "agent")["secret"], add(d, "idem b", "agent")["secret"]
    go = lambda k: d.post("/v1/sandboxes", {}, headers=dict(auth(k), **{"Idempotency-Key": "same"}))
    first, again, other = go(a), go(a), go(b)
    equal(again.json["id"], first.json["id"])
    check(other.json["id"] != first.json["id"], other)


@test("an API key has a share of the idempotency keys and of the texts that wait")
def test_an_api_key_has_a_share_of_the_idempotency_keys():
    config = ("max_idempotency_keys: 6\nmax_idempotency_keys_per_key: 2\n"
              "validate_queue: 4\nvalidate_queue_per_key: 1\n")
    with Daemon("-auth-token", TOKEN, config=config) as d:
        a, b = add(d, "idem a", "agent")["secret"], add(d, "idem b", "agent")["secret"]

        def create(key, n):
            return d.post("/v1/sandboxes", {}, headers=dict(auth(key), **{"Idempotency-Key": f"k{n}"}))
        answers = [create(a, n) for n in range(3)]
        equal([x.status for x in answers], [201, 201, 429], answers)
        check("max_idempotency_keys_per_key" in answers[2].json["error"]["message"], answers[2])
        equal(create(a, 1).headers["Idempotency-Replayed"], "true")
        equal([create(b, n).status for n in range(2)], [201, 201], "the other key is not shut out")
        d.kill_control(headers=auth(TOKEN))
        equal((create(a, 3).status, create(b, 3).status, create(a, 0).status), (429, 429, 201), "nor after a restart")

        text, out = "ignore the the the the " * 40000, []
        threads = [threading.Thread(target=lambda: out.append(d.post("/api/validate", {"input": text}, headers=auth(a))))
                   for _ in range(8)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        equal({x.status for x in out}, {200, 429}, "of eight at once, some are told to come back")
        refused = [x for x in out if x.status == 429]
        check(all("validate_queue_per_key" in x.json["detail"] and x.headers["Retry-After"] for x in refused), refused)


@test("one API key cannot shut out another, whatever the shares are set to")
def test_one_api_key_cannot_shut_out_another():
    policy = os.path.join(tempfile.mkdtemp(prefix="mas-policy-"), "policy.yaml")
    with open(policy, "w") as f:
        f.write("version: 1\ndefault: ask\nrules: []\n")
    config = ("max_idempotency_keys: 4\nmax_idempotency_keys_per_key: 1000\n"
              "max_pending_approvals: 4\nmax_pending_approvals_per_key: 1000\n")
    with Daemon("-auth-token", TOKEN, "--policy-file", policy, config=config) as d:
        a, b = add(d, "greedy", "agent")["secret"], add(d, "other", "agent")["secret"]

        def statuses(key, call):
            return [call(auth(key), n).status for n in range(3)]
        equal(statuses(a, lambda h, n: d.post("/v1/run", {"command": ["true"]}, headers=h)), [202, 202, 429])
        equal(statuses(b, lambda h, n: d.post("/v1/run", {"command": ["true"]}, headers=h)), [202, 202, 429])
        create = lambda h, n: d.post("/v1/sandboxes", {}, headers=dict(h, **{"Idempotency-Key": f"k{n}"}))
        equal(statuses(a, create), [201, 201, 429])
        equal(statuses(b, create), [201, 201, 429])


@test("work under an Idempotency-Key stops when its API key ends, and goes on when that is rotated")
def test_work_under_an_idempotency_key_stops_when_its_api():
    d = daemon()
    for end, want in (("DELETE", 0), ("POST", 1)):
        k = add(d, f"idem {end}", "agent")
        body = json.dumps({"command": ["sleep", "60"]}).encode()
        s = d.connect()
        s.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: stops\r\nAuthorization: Bearer %s\r\n"
                  b"Content-Length: %d\r\n\r\n" % (k["secret"].encode(), len(body)) + body)
        running = lambda: sum(1 for pid in below(d.process.pid) if command_line(pid) == b"sleep\0" b"60\0")
        wait_for(lambda: running() == 1, "the command runs")
        path = f"/v1/keys/{k['id']}" + ("/rotate" if end == "POST" else "")
        equal(d.request(end, path, headers=auth(TOKEN)).status, 200)
        equal(s.recv(100), b"", "the connection is closed without an answer")
        s.close()
        wait_for(lambda: running() == want, f"{want} commands after {end} {path}")
        time.sleep(0.2)
        equal(running(), want)
    d.delete(f"/v1/keys/{k['id']}", headers=auth(TOKEN))
    wait_for(lambda: running() == 0, "and then it stops as well")


@test("quotas: sandboxes and commands at once are 429, and come back")
def test_quotas_sandboxes_and_commands_at_once_are_429():
    d = daemon()
    k = auth(add(d, "small", "agent", quotas={"max_sandboxes": 2, "max_execs": 1})["secret"])
    ids = [d.post("/v1/sandboxes", {}, headers=k).json["id"] for _ in range(2)]
    a = d.post("/v1/sandboxes", {}, headers=k)
    equal((a.status, a.headers["Retry-After"], a.json["error"]["code"]), (429, "1", "limit_exceeded"))
    equal(d.post("/sandboxes", {}, headers=k).status, 429)
    equal(d.post("/v1/run", {"command": ["true"]}, headers=k).status, 429, "a one-shot counts too")
    equal(d.post("/v1/sandboxes", {}, headers=auth(TOKEN)).status, 201, "others are not touched")
    path = "/v1/sandboxes/" + ids[0]
    e = d.post(path + "/exec", {"command": ["sleep", "60"], "async": True}, headers=k).json["exec_id"]
    a = d.post(f"/v1/sandboxes/{ids[1]}/exec", {"command": ["true"]}, headers=k)
    equal(a.status, 429, "in any of its sandboxes")
    check("max_execs" in a.json["error"]["message"], a)
    d.post(f"{path}/execs/{e}/cancel", {}, headers=k)
    wait_for(lambda: d.post(path + "/exec", {"command": ["true"]}, headers=k).status == 200, "room again")
    d.delete(path, headers=k)
    equal(d.post("/v1/sandboxes", {}, headers=k).status, 201)


@test("requests a minute: 429 with how long to wait, per key")
def test_requests_a_minute_429_with_how_long_to_wait_per():
    d = daemon()
    k = auth(add(d, "hasty", "agent", quotas={"requests_per_minute": 5})["secret"])
    got = [d.get("/v1/identity", headers=k) for _ in range(7)]
    equal([a.status for a in got], [200] * 5 + [429] * 2)
    check(1 <= int(got[-1].headers["Retry-After"]) <= 12, got[-1].headers["Retry-After"])
    equal(d.get("/sandboxes", headers=k).json["error"].split(":")[0].split(" is over")[0], "key 'hasty'")
    equal(d.get("/v1/identity", headers=auth(TOKEN)).status, 200)


@test("revoking ends the key at once: requests, streams and WebSockets")
def test_revoking_ends_the_key_at_once_requests_streams():
    d = daemon()
    key = add(d, "to be revoked", "agent")
    k = auth(key["secret"])
    sb = d.post("/v1/sandboxes", {}, headers=k).json["id"]
    path = f"/v1/sandboxes/{sb}"
    e = d.post(path + "/exec", {"command": ["sleep", "60"], "async": True}, headers=k).json["exec_id"]
    ws = d.ws(f"/sandboxes/{sb}/stream?exec_id={e}", k)
    equal(ws.status, 101)
    answers = []
    def wait():
        try:
            answers.append(d.get(f"{path}/execs/{e}/logs?follow=1", headers=k))
        except Exception as err:
            answers.append(err)
    threads = [threading.Thread(target=wait)]
    threads += [threading.Thread(target=lambda: list(ws.messages()))]
    for t in threads:
        t.start()
    time.sleep(0.3)
    check(all(t.is_alive() for t in threads), "both wait")
    equal(d.delete("/v1/keys/" + key["id"], headers=auth(TOKEN)).json, {"id": key["id"], "revoked": True})
    equal(d.get("/v1/identity", headers=k).status, 401)
    for t in threads:
        t.join(60)
        check(not t.is_alive(), "it was closed")
    equal(ws.close_code, 1008)
    row = [x for x in d.get("/v1/keys", headers=auth(TOKEN)).json["keys"] if x["id"] == key["id"]][0]
    check(not row["active"] and row["revoked_at"], row)
    equal(d.delete("/v1/keys/" + key["id"], headers=auth(TOKEN)).status, 409)
    equal(d.post("/v1/keys/" + key["id"] + "/rotate", headers=auth(TOKEN)).status, 409)
    equal(d.delete("/v1/keys/nope", headers=auth(TOKEN)).status, 404)
    d.delete(path, headers=auth(TOKEN))


@test("rotating ends the old secret, not the key; who rotates its own gets the answer")
def test_rotating_ends_the_old_secret_not_the_key():
    d = daemon()
    key = add(d, "rotated", "agent", "admin")
    old = auth(key["secret"])
    sb = d.post("/v1/sandboxes", {}, headers=old).json["id"]
    a = d.post(f"/v1/keys/{key['id']}/rotate", headers=old)
    equal(a.status, 200, a)
    new = auth(a.json["secret"])
    equal(d.get("/v1/identity", headers=old).status, 401)
    equal(d.get(f"/v1/sandboxes/{sb}", headers=new).status, 200)
    equal(d.delete(f"/v1/keys/{key['id']}", headers=new).status, 200)


@test("an expired key ends by itself, with what is open in its name")
def test_an_expired_key_ends_by_itself_with_what_is_open():
    d = daemon()
    for seconds in (1, 5, 20):  # enough for it to be used in time
        k = auth(add(d, f"short-{seconds}", "agent", expires_in_s=seconds)["secret"])
        ws = d.ws("/v1/debug/echo", k)
        if ws.status == 101:
            break
    equal(ws.status, 101)
    ws.sock.settimeout(60)
    equal(list(ws.messages()), [])
    equal(ws.close_code, 1008)
    equal(d.get("/v1/identity", headers=k).status, 401)


@test("a clock that is set back does not bring an expired key to life, nor let one live longer, over a restart too")
def test_a_clock_that_is_set_back_does_not_bring():
    with Daemon("--auth-token", TOKEN, "--debug-endpoints", env={"MAS_CLOCK_JUMP": "-7200:3000"}) as d:
        d.token = TOKEN
        key = add(d, "short", "agent", expires_in_s=5)
        use = lambda: d.get("/v1/identity", headers=auth(key["secret"])).status
        look = lambda: [k for k in d.get("/v1/keys", headers=auth(TOKEN)).json["keys"] if k["id"] == key["id"]][0]
        wait_for(lambda: use() == 401, "it expires all the same")
        equal((look()["active"], "revoked_at" in look()), (False, False))
        d.stop()
        d.env["MAS_CLOCK_JUMP"] = "-14400:0"
        check(d.launch(), d.log_text())
        equal((use(), look()["active"]), (401, False), "and stays so")
        again = auth(add(d, "again", "agent", expires_in_s=3600)["secret"])
        equal(d.get("/v1/identity", headers=again).status, 200, "a new one lives")


@test("the audit has every change of a key by its id, never the secret")
def test_the_audit_has_every_change_of_a_key_by_its_id():
    d = daemon()
    key = add(d, "audited", "agent")
    new = d.post(f"/v1/keys/{key['id']}/rotate", headers=auth(TOKEN)).json["secret"]
    d.delete("/v1/keys/" + key["id"], headers=auth(TOKEN))
    equal(d.get("/v1/sandboxes", headers=auth(new)).status, 401)
    auditor = auth(add(d, "reader", "auditor")["secret"])
    def changes():
        records = map(json.loads, d.get("/v1/audit?kind=key_change&limit=1000", headers=auditor).body.splitlines())
        return [r["outcome"] for r in records if r.get("action") == key["id"]]
    wait_for(lambda: changes() == ["added", "rotated", "revoked"], "all three are in the chain")
    lines = d.get("/v1/audit?limit=1000", headers=auditor)
    for secret in (key["secret"], new):
        check(secret not in lines.body.decode() and secret[4:] not in lines.body.decode(), "no secret")


@test("what a revoked key asked for is void with it, and cannot be approved any more")
def test_what_a_revoked_key_asked_for_is_void():
    d = daemon()
    key, approver = add(d, "gone soon", "agent"), auth(add(d, "decides", "approver")["secret"])
    a = d.post("/api/actions", {"action_type": "file_operation", "parameters": {"operation": "write", "path": "a.txt", "content": "x"}},
               headers=auth(key["secret"])).json
    equal(a["status"], "pending", a)
    d.delete("/v1/keys/" + key["id"], headers=auth(TOKEN))
    look = lambda: d.get("/api/actions/" + a["action_id"], headers=approver).json
    wait_for(lambda: look()["status"] == "rejected", "it does not run")
    equal(d.post(f"/api/actions/{a['action_id']}/approve", {"approved": True}, headers=approver).status, 404)
    check("has ended" in look()["error"], look())


@test("what a key may not be called or have is refused")
def test_what_a_key_may_not_be_called_or_have_is_refused():
    d = daemon()
    bad = [{}, {"name": "x"}, {"name": "", "roles": ["agent"]}, {"name": "x" * 65, "roles": ["agent"]}, {"name": "a\nb", "roles": ["agent"]},
           {"name": "token", "roles": ["agent"]}, {"name": "stream", "roles": ["agent"]}, {"name": "x", "roles": []}, {"name": "x", "roles": ["root"]}, {"name": "x", "roles": "agent"},
           {"name": "x", "roles": ["agent"], "quotas": {"max_execs": -1}}, {"name": "x", "roles": ["agent"], "expires_in_s": 0},
           {"name": "x", "roles": ["agent"], "quotas": 5}, {"name": 7, "roles": ["agent"]}]
    for body in bad:
        equal(d.post("/v1/keys", body, headers=auth(TOKEN)).status, 400, body)
    add(d, "taken", "agent")
    equal(d.post("/v1/keys", {"name": "taken", "roles": ["agent"]}, headers=auth(TOKEN)).status, 409)


@test("keys survive a restart, revoked ones too")
def test_keys_survive_a_restart_revoked_ones_too():
    with Daemon("-auth-token", TOKEN) as d:
        a, b = add(d, "stays", "agent"), add(d, "goes", "agent")
        d.delete("/v1/keys/" + b["id"], headers=auth(TOKEN))
        sb = d.post("/v1/sandboxes", {}, headers=auth(a["secret"])).json["id"]
        d.kill_control(headers=auth(TOKEN))
        equal(d.get("/v1/identity", headers=auth(a["secret"])).status, 200)
        equal(d.get("/v1/identity", headers=auth(b["secret"])).status, 401)
        equal(d.get("/v1/sandboxes/" + sb, headers=auth(a["secret"])).status, 200)


@test("MCP: a rotated key keeps its session, and one that ends takes it along with what it still does")
def test_mcp_a_rotated_key_keeps_its_session():
    with Daemon("-auth-token", TOKEN) as d:
        d.token = TOKEN
        key = add(d, "agent", "agent")
        c = Client(d, headers=auth(key["secret"]))
        gauges = lambda: [int(x.split()[1]) for x in d.get("/metrics").body.decode().splitlines()
                          if x.startswith(("sandbox_mcp_sessions ", "sandbox_mcp_requests_running "))]
        secret = d.post(f"/v1/keys/{key['id']}/rotate").json["secret"]
        c.headers = auth(secret)
        check("result" in c.call("list_sandboxes"), "the session goes on")
        stream = c.open(rpc("tools/call", {"name": "run_command", "arguments": {"command": "sleep 1000"}}, 7))
        wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] == 1, "it runs")
        equal(gauges(), [1, 1])
        equal(d.delete("/v1/keys/" + key["id"]).status, 200)
        stream.close()
        wait_for(lambda: gauges() == [0, 0], gauges)


@test("what was opened without a key ends when the first one is made")
def test_what_was_opened_without_a_key_ends():
    path = tempfile.mkdtemp(prefix="mas-keys-")
    try:
        with Daemon("-listen", "unix:" + path + "/s") as d, d.sandbox() as sb:
            shell = sb.exec("cat", open_stdin=True, **{"async": True})["exec_id"]
            sockets = [d.ws("/v1/events"), d.ws("/v1/approvals/events"), d.ws(f"{sb.path}/execs/{shell}/attach")]
            streams = []
            for what in ("events?follow=true", "audit?follow=true", f"sandboxes/{sb.id}/execs/{shell}/logs?follow=true"):
                streams.append(d.connect())
                streams[-1].sendall(f"GET /v1/{what} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                check(b" 200 " in streams[-1].recv(65536), what)
            out = sbx("keys", "add", "first", "-roles", "admin", "-addr", "unix:" + path + "/s").stdout
            d.token = dict(x.split("=", 1) for x in out.split())["secret"]
            for s in sockets:
                list(s.messages())
                equal(s.close_code, 1008)
            for s in streams:
                while s.recv(65536):
                    pass
            equal(d.get("/v1/identity").json["name"], "first", "its maker has the answer")
    finally:
        shutil.rmtree(path, ignore_errors=True)


@test("without keys everybody local may call, but the first key is not made over TCP")
def test_without_keys_everybody_local_may_call():
    path = tempfile.mkdtemp(prefix="mas-keys-")
    sock = os.path.join(path, "s")
    try:
        with Daemon("-listen", "unix:" + sock) as d:
            me = d.get("/v1/identity").json
            equal((me["key"], me["name"], me["authenticated"]), ("", "unauthenticated", False))
            a = d.post("/v1/keys", {"name": "first", "roles": ["admin"]})
            equal(a.status, 403, a)
            check("unix socket" in a.json["error"]["message"], a)
            p = sbx("keys", "add", "agent first", "-addr", "unix:" + sock, check_code=False)
            check(p.returncode == 2 and "role admin" in p.stderr, p)
            out = sbx("keys", "add", "first", "-roles", "admin", "-addr", "unix:" + sock).stdout
            found = dict(x.split("=", 1) for x in out.split())
            equal(d.get("/v1/status").status, 401, "now everybody needs one")
            equal(sbx("status", "-addr", "unix:" + sock, check_code=False).returncode, 122, "over the unix socket too")
            env = dict(os.environ, MAS_SANDBOX_TOKEN=found["secret"], MAS_SANDBOX_URL=f"http://127.0.0.1:{d.port}")
            more = dict(x.split("=", 1) for x in sbx("keys", "add", "second", "-roles", "agent,auditor", "-quota", "max_execs=3", "-expires", "1h", env=env).stdout.split())
            check(re_row(sbx("keys", "ls", env=env).stdout, more["id"], "second", "agent, auditor", "true"), "ls shows it")
            rotated = dict(x.split("=", 1) for x in sbx("keys", "rotate", more["id"], env=env).stdout.split())
            check(rotated["secret"] != more["secret"], rotated)
            p = sbx("keys", "rm", found["id"], env=env, check_code=False)
            check(p.returncode and "last key with the role admin" in p.stderr, p)
            equal(sbx("keys", "rm", more["id"], env=env).stdout, f"revoked {more['id']}\n")
            p = sbx("keys", "ls", "-state-dir", d.state, check_code=False)
            check(p.returncode and "running" in p.stderr, p)
    finally:
        shutil.rmtree(path)


def re_row(table, *cells):
    return any(all(c in line for c in cells) for line in table.splitlines())


@test("keys made while the daemon is stopped: before its first start and after")
def test_keys_made_while_the_daemon_is_stopped():
    d = Daemon("--require-keys", "--listen", "0.0.0.0:0")
    state = os.path.join(d.dir, "state")
    try:
        p = sbx("keys", "ls", "-state-dir", state, check_code=False)
        equal(p.returncode, 123, p)
        check(not os.path.exists(state), "looking makes nothing")
        first = dict(x.split("=", 1) for x in sbx("keys", "add", "root", "-roles", "admin,agent", "-state-dir", state).stdout.split())
        d.start()
        equal(d.get("/v1/status").status, 401)
        equal(d.get("/v1/identity", headers=auth(first["secret"])).json["roles"], ["agent", "admin"])
        equal(d.post("/v1/run", {"command": ["true"]}, headers=auth(first["secret"])).status, 200)
        d.stop()
        sbx("keys", "rm", first["id"], "-state-dir", state)
        second = json.loads(sbx("keys", "add", "next", "-roles", "admin", "-json", "-state-dir", state).stdout)
        d.start()
        equal(d.get("/v1/identity", headers=auth(first["secret"])).status, 401)
        equal(d.get("/v1/identity", headers=auth(second["secret"])).status, 200)
    finally:
        d.__exit__()


@test("a daemon that once had keys never becomes open; a row that cannot be read stops the start")
def test_a_daemon_that_once_had_keys_never_becomes_open():
    d = Daemon()
    state = os.path.join(d.dir, "state")
    try:
        k = json.loads(sbx("keys", "add", "only", "-roles", "admin", "-json", "-state-dir", state).stdout)
        sbx("keys", "rm", k["id"], "-state-dir", state)
        d.start()
        equal(d.get("/v1/status").status, 401)
        d.stop()
        db = sqlite3.connect(os.path.join(state, "control/state.db"))
        db.execute("UPDATE api_key SET body = CAST(replace(CAST(body AS TEXT), '\"admin\"', '\"emperor\"') AS BLOB)")
        db.commit()
        db.close()
        try:
            d.start()
            raise AssertionError("it started with a key it does not understand")
        except RuntimeError as err:
            check("key 'key-" in str(err), err)
    finally:
        d.__exit__()


@test("beyond loopback: a token, require_keys or insecure")
def test_beyond_loopback_a_token_require_keys_or_insecure():
    for flags, starts in (([], False), (["--require-keys"], True), (["-auth-token", TOKEN], True)):
        d = Daemon("-listen", "0.0.0.0:0", *flags)
        try:
            d.start()
            check(starts, f"it started with {flags}")
            equal("sbx keys add -state-dir" in d.log_text(), "--require-keys" in flags, "how to get in is in the log")
        except RuntimeError:
            check(not starts, d.log_text())
        finally:
            d.__exit__()


main()
