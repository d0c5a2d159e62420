#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Secrets: what the operator configures, what a key keeps, who sees what, and where no value ever is."""
import contextlib
import os
import sqlite3
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

TOKEN = "the-operators-token"
VALUE = "sk-operators-0123456789abcdef"
OWN = "own-fedcba9876543210-secret"


def auth(secret):
    return {"Authorization": "Bearer " + secret}


def secret_file(text=VALUE + "\n"):
    f = tempfile.NamedTemporaryFile("w", prefix="mas-secret-", suffix=".key")
    f.write(text)
    f.flush()
    return f


FILE = secret_file()


CREDENTIALS = tempfile.TemporaryDirectory(prefix="mas-credentials-")
with open(os.path.join(CREDENTIALS.name, "given"), "w") as credential:
    credential.write(VALUE)


def daemon():
    return shared_daemon("-auth-token", TOKEN, "--debug-endpoints",
                         "-secrets", f"openai=file:{FILE.name} api.openai.example Authorization: Bearer {{}}",
                         "-secrets", "other=env:MAS_TEST_SECRET *.other.example:8443 X-Key: {}",
                         "-secrets", "third=credential:given third.example Cookie: session={}",
                         "-secret-hosts", "*.allowed.example,exact.example",
                         env={"MAS_TEST_SECRET": VALUE, "CREDENTIALS_DIRECTORY": CREDENTIALS.name})


def add(d, name):
    a = d.post("/v1/keys", {"name": name, "roles": ["agent"]}, headers=auth(TOKEN))
    equal(a.status, 201, a)
    return a.json["secret"]


def put(d, key, name, **body):
    return d.put(f"/v1/secrets/{name}", json.dumps(body), headers=dict(auth(key), **{"Content-Type": "application/json"}))


def processes_of(d):
    return [d.process.pid, *below(d.process.pid)]


@test("the list has names and hosts, of the operator's and of the caller's own")
def test_the_list_has_names_and_hosts_of_the_operator_s_a():
    d = daemon()
    one, two = add(d, "one"), add(d, "two")
    a = put(d, one, "mine", value=OWN, hosts=["Api.Allowed.example."], header="X-Token: {}")
    equal((a.status, a.json), (200, {"name": "mine", "hosts": ["api.allowed.example"], "own": True}), a)
    operators = [{"name": "openai", "hosts": ["api.openai.example"], "own": False},
                 {"name": "other", "hosts": ["*.other.example:8443"], "own": False},
                 {"name": "third", "hosts": ["third.example"], "own": False}]
    equal(d.get("/v1/secrets", headers=auth(one)).json["secrets"], operators + [a.json])
    equal(d.get("/v1/secrets", headers=auth(two)).json["secrets"], operators)
    equal(d.get("/v1/secrets/mine", headers=auth(one)).status, 405, "write-only")
    equal(d.delete("/v1/secrets/mine", headers=auth(two)).status, 404, "another key's does not exist")
    equal(put(d, two, "mine", value="x", hosts=["exact.example"]).status, 200)
    equal(d.delete("/v1/secrets/mine", headers=auth(one)).json, {"name": "mine", "deleted": True})
    equal(len(d.get("/v1/secrets", headers=auth(two)).json["secrets"]), 4, "the other key's stays")
    equal(d.delete("/v1/secrets/mine", headers=auth(one)).status, 404)
    equal(d.delete("/v1/secrets/openai", headers=auth(one)).status, 404, "the operator's is not a caller's to delete")


@test("a key's secret is for hosts of secret_hosts only, and never takes an operator's name")
def test_a_key_s_secret_is_for_hosts_of_secret_hosts_only():
    d = daemon()
    key = add(d, "bounded")
    for hosts in (["api.openai.example"], ["allowed.example"], ["x.allowed.example:8443"], ["exact.example", "evil.example"],
                  ["*.exact.example"], ["*.other.example"]):
        a = put(d, key, "s", value="v", hosts=hosts)
        equal(a.status, 403, (hosts, a))
        check("secret_hosts" in a.body.decode(), a)
    equal(put(d, key, "openai", value="v", hosts=["exact.example"]).status, 409)
    for body, field in (({"value": "v"}, "hosts"), ({"value": "v", "hosts": []}, "hosts"), ({"hosts": ["exact.example"]}, "value"),
                        ({"value": "", "hosts": ["exact.example"]}, "value"), ({"value": "a\r\nB: c", "hosts": ["exact.example"]}, "value"),
                        ({"value": "v" * 8193, "hosts": ["exact.example"]}, "value"),
                        ({"value": "v", "hosts": ["127.0.0.1"]}, "hosts"), ({"value": "v", "hosts": ["*"]}, "hosts"), ({"value": "v", "hosts": ["*.example"]}, "hosts"),
                        ({"value": "v", "hosts": ["exact.example"], "header": "Host: {}"}, "header"),
                        ({"value": "v", "hosts": ["exact.example"], "header": "X: y"}, "header"),
                        ({"value": "v", "hosts": ["exact.example"], "port": 1}, "port")):
        a = put(d, key, "s", **body)
        equal(a.status, 400, (body, a))
        check(field in a.body.decode(), a)
    for name in ("Upper", "a%20b", ".x", "x" * 65):
        equal(put(d, key, name, value="v", hosts=["exact.example"]).status, 400, name)
    equal(d.get("/v1/secrets", headers=auth(key)).json["secrets"][3:], [], "nothing of it was kept")


@test("no value is in an answer, the log, the audit, a file of the state, a command line or an environment")
def test_no_value_is_in_an_answer_the_log_the_audit_a_fil():
    d = daemon()
    key = add(d, "searched")
    equal(put(d, key, "mine", value=OWN, hosts=["exact.example"]).status, 200)
    put(d, key, "mine", value=OWN, hosts=["evil.example"])
    d.get("/v1/status", headers=auth(TOKEN))
    hidden = [VALUE.encode(), OWN.encode()]
    seen = [d.get(p, headers=auth(TOKEN)).body for p in ("/v1/status", "/v1/secrets", "/v1/audit", "/metrics")]
    check(b"secret_change" in seen[2], "the audit has the change")
    seen.append(d.log_text().encode())
    for root, _, files in os.walk(d.dir):
        for name in files:
            with open(os.path.join(root, name), "rb") as f:
                seen.append(f.read())
    for pid in processes_of(d):
        seen += [proc_bytes(pid, name) for name in ("cmdline", "environ")]
    for data in seen:
        for value in hidden:
            check(value not in data, f"a value is in {data[:200]}")


@test("a key's secrets are there after kill -9 of the control plane, still sealed")
def test_a_key_s_secrets_are_there_after_kill_9_of_the_co():
    d = daemon()
    key = add(d, "kept")
    equal(put(d, key, "mine", value=OWN, hosts=["exact.example"]).status, 200)
    d.kill_control(headers=auth(TOKEN))
    names = [s["name"] for s in d.get("/v1/secrets", headers=auth(key)).json["secrets"]]
    equal(names, ["openai", "other", "third", "mine"])


@test("P31 a secret that is deleted while a sandbox that names it is being made is not in that sandbox's requests")
def test_a_secret_deleted_meanwhile():
    d = daemon()
    key = add(d, "meanwhile")
    made = 0
    for i in range(12):
        equal(put(d, key, "mine", value=f"{OWN}-{i}", hosts=["api.allowed.example"], header="X-T: {}").status, 200)
        body = json.dumps({"network": {"allow": [{"host": "api.allowed.example"}], "inject": ["mine"], "intercept": True}}).encode()
        head = f"Host: localhost\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n"
        one, two = d.connect(), d.connect()
        one.sendall(f"POST /v1/sandboxes HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        time.sleep(0.0005 * (i % 6))
        two.sendall(f"DELETE /v1/secrets/mine HTTP/1.1\r\n{head}\r\n".encode())
        answers = []
        for s in (one, two):
            s.settimeout(PATIENCE_S)
            got = b""
            while piece := s.recv(65536):
                got += piece
            answers.append(got)
            s.close()
        check(answers[1].startswith(b"HTTP/1.1 200"), answers[1])
        if not answers[0].startswith(b"HTTP/1.1 201"):
            continue
        made += 1
        box = json.loads(answers[0].split(b"\r\n\r\n", 1)[1])["id"]
        wait_for(lambda: f"a secret of a sandbox is gone id={box}" in d.log_text(), f"the sandbox has learned of it, try {i}")
        equal(d.delete("/v1/sandboxes/" + box, headers=auth(key)).status, 200)
    check(made or os.geteuid() != 0, "no sandbox was made before the secret was deleted")


@test("a secret that was deleted and is put again goes into requests of sandboxes that name it")
def test_a_secret_that_comes_back():
    d = daemon()
    key = add(d, "back")
    mine = dict(value=OWN, hosts=["api.allowed.example"], header="X-T: {}")
    equal(put(d, key, "mine", **mine).status, 200)
    a = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "api.allowed.example"}], "inject": ["mine"], "intercept": True}}, headers=auth(key))
    if a.status != 201 and os.geteuid() != 0:
        return
    equal(a.status, 201, a)
    running = lambda: sorted(int(p) for p in processes_of(d) if proc_text(p, "comm").strip() == "mas-intercept")
    before = running()
    equal(d.delete("/v1/secrets/mine", headers=auth(key)).status, 200)
    wait_for(lambda: running() and running() != before, "one without secrets")
    empty = running()
    equal(put(d, key, "mine", **mine).status, 200)
    wait_for(lambda: running() and running() != empty, "one that has it again")
    d.delete("/v1/sandboxes/" + a.json["id"], headers=auth(key))


@contextlib.contextmanager
def no_rows(d):
    """Nothing can be written to the state database meanwhile."""
    with contextlib.closing(sqlite3.connect(f"{d.state}/control/state.db", timeout=PATIENCE_S, isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("ROLLBACK")


@test("what narrows and cannot be written holds at once, and after kill -9; what widens and cannot be never was")
def test_rows_that_cannot_be_written():
    with Daemon("-auth-token", TOKEN, "-secret-hosts", "*.allowed.example", "--idle-ttl", "0") as d:
        key = add(d, "rows")
        equal(put(d, key, "old", value=OWN, hosts=["api.allowed.example"]).status, 200)
        a = d.post("/v1/sandboxes", {"network": {"allow": [{"host": "one.example"}, {"host": "two.example"}]}}, headers=auth(key))
        equal(a.status, 201, a)
        box = "/v1/sandboxes/" + a.json["id"]
        token = d.post(box + "/traffic-tokens", {}, headers=auth(key)).json
        allowed = lambda: {r["host"] for r in d.get(box + "/network", headers=auth(key)).json["allow"]}
        narrow = (lambda: d.delete("/v1/secrets/old", headers=auth(key)), lambda: d.delete(f"{box}/traffic-tokens/{token['id']}", headers=auth(key)),
                  lambda: d.request("PATCH", box + "/network", {"drop": ["two.example"]}, headers=auth(key)))
        widen = (lambda: put(d, key, "new", value=OWN, hosts=["api.allowed.example"]), lambda: d.post(box + "/traffic-tokens", {}, headers=auth(key)),
                 lambda: d.request("PATCH", box + "/network", {"allow": [{"host": "new.example", "ports": [80], "for": "1h"}]}, headers=auth(key)))
        with no_rows(d):
            for change in narrow + widen:
                a = change()
                check(a.status >= 500, a)
        left = lambda: ([s["name"] for s in d.get("/v1/secrets", headers=auth(key)).json["secrets"]],
                        d.get(box + "/traffic-tokens", headers=auth(key)).json["tokens"], allowed())
        equal(left(), ([], [], {"one.example"}))

        def rows():
            with contextlib.closing(sqlite3.connect(f"file:{d.state}/control/state.db?mode=ro", uri=True)) as db:
                text = lambda table: " ".join(str(r) for r in db.execute(f"SELECT * FROM {table}"))
                return " ".join(text(t) for t in ("secret", "traffic_token", "sandbox"))
        wait_for(lambda: "two.example" not in rows() and token["id"] not in rows() and " old" not in rows(), "it is written in the end")
        d.kill_control(headers=auth(TOKEN))
        wait_for(lambda: left() == ([], [], {"one.example"}), "the same after kill -9")


@test("a configuration that cannot be meant is refused with the secret's name")
def test_a_configuration_that_cannot_be_meant_is_refused():
    for item, words in (("a=file:/nowhere/at/all h.example X: {}", "/nowhere/at/all"), ("a=env:MAS_NOT_SET h.example X: {}", "MAS_NOT_SET"),
                        ("a=credential:x h.example X: {}", "credential"), ("a=plain h.example X: {}", "plain"),
                        (f"a=file:{FILE.name} 10.0.0.1 X: {{}}", "10.0.0.1"), (f"a=file:{FILE.name} h.example Host: {{}}", "Host"),
                        (f"a=file:{FILE.name} h.example", "expected"), (f"A=file:{FILE.name} h.example X: {{}}", "name")):
        p = subprocess.run([SANDBOXD, "--check", "-secrets", item], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        equal(p.returncode, 2, p)
        check("secrets" in p.stderr and words in p.stderr, p.stderr)
        check(VALUE not in p.stderr, p.stderr)


if __name__ == "__main__":
    main()
