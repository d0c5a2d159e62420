#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a server or a page inside a sandbox tries by way of its ports, and what callers try there that
are not allowed to."""
import os
import sqlite3
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from ports import *
from routes import route_table, request_to

_boxes = {}


def box():
    d = shared_daemon("--ports-domain", DOMAIN, "--idle-ttl", "0")
    if d not in _boxes:
        _boxes[d] = start_server(d, d.sandbox())
    return d, _boxes[d]


@test("P30 credentials of ours never enter; others do")
def test_credentials():
    d, sb = box()
    ours = {"X-Sandbox-Token": "t", "X-Mas-Approval": "return", "x-mas-anything": "t",
            "Cookie": "mas-traffic=1; a=b; __Host-mas-traffic=2;MAS-x=3, mas-y=4; c=d", "Proxy-Authorization": "Basic x",
            "X-Forwarded-For": "1.2.3.4", "Forwarded": "for=1"}
    for value in ("Bearer mas_" + "1" * 64, "bearer   mas_x", "Basic mas_x"):
        f = seen(d.get(port(sb, "/echo"), headers=dict(ours, Authorization=value)))
        equal({k for k in f if k.startswith(("x-mas", "x-sandbox", "authorization", "proxy", "forwarded"))}, set())
        equal(f["cookie"], "a=b; c=d")
        check("x-forwarded-for" not in f, f)
    f = seen(d.get(port(sb, "/echo"), headers={"Authorization": "Basic dTpw", "Cookie": "mas-a=1"}))
    equal(f["authorization"], "Basic dTpw", "the server's own")
    check("cookie" not in f, f)
    with Daemon("--auth-token", "s3cret-token") as other:
        other.token = "s3cret-token"
        sb = start_server(other, other.sandbox())
        for name, value in (("Authorization", "Bearer s3cret-token"), ("X-Sandbox-Token", "s3cret-token")):
            other.token = None
            f = seen(other.get(port(sb, "/echo"), headers={name: value}))
            check("s3cret" not in json.dumps(f), f)
            equal(other.get(port(sb, "/echo")).status, 401)


@test("P30 a host below the domain never reaches a route of the API")
def test_host_reaches_no_route():
    d, sb = box()
    exec_id = d.get(sb.path + "/execs").json["execs"][0]["exec_id"]
    hosts = [host_of(sb), f"9999-{sb.id}.{DOMAIN}", f"x.{DOMAIN}", f"api.{DOMAIN}", f"80-.{DOMAIN}", f"0-{sb.id}.{DOMAIN}", f"a.b.{DOMAIN}",
             f"{host_of(sb)}.", f"{host_of(sb)}..:1", f"localhost.{DOMAIN}", f"127.0.0.1.{DOMAIN}", f"-.{DOMAIN}", f"{'9' * 200}.{DOMAIN}"]
    before = d.get("/v1/sandboxes").json
    for r in route_table():
        path, body = request_to(r["method"], r["path"], sb.id, exec_id)
        path = path.replace("{", "").replace("}", "")
        for host in hosts:
            a = d.request(r["method"].upper(), path, body, headers={"Host": host})
            if host.rstrip(".").split("..")[0].rstrip(".") == host_of(sb):
                equal((a.status, a.headers.get("Content-Security-Policy")), (200, CSP), f"{host} {path}")
                check(a.json["line"].split()[1] == path, a)
            else:
                check(a.status in (404, 502), f"{host} {path}: {a}")
    equal(d.get("/v1/sandboxes").json, before, "nothing was made or changed")
    out = d.raw(f"GET http://{host_of(sb)}/v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    check(b'"line": "GET /v1/status' in out, out)
    equal(d.get("/v1/status", headers={"Host": DOMAIN}).status, 403, "the domain itself is nobody's")


@test("P30 a page of a sandbox cannot call the API, nor can one of another site call it")
def test_pages():
    d, sb = box()
    for origin in ("null", f"http://{host_of(sb)}", "http://evil.example"):
        for method, path in (("POST", "/v1/run"), ("GET", "/v1/status"), ("DELETE", sb.path)):
            a = d.request(method, path, {"command": ["true"]} if method == "POST" else None, headers={"Origin": origin})
            equal(a.status, 403, f"{origin} {method}")
            check("Access-Control-Allow-Origin" not in a.headers, a.headers)
        a = d.request("OPTIONS", "/v1/run", headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
        check(a.status in (403, 405) and "Access-Control-Allow-Origin" not in a.headers, a)
        s = d.ws("/v1/events", headers={"Origin": origin})
        equal(s.status, 403)
        if origin != "http://evil.example":
            equal(d.get("/echo", headers={"Host": host_of(sb), "Origin": origin}).status, 200)
    equal(d.get("/echo", headers={"Host": host_of(sb), "Origin": "http://evil.example"}).status, 403)
    equal(d.get(port(sb, "/echo"), headers={"Origin": "null"}).status, 403, "by path it is the API's own origin")


@test("P30 ports of another key's sandbox are not there, and roles count")
def test_keys():
    with Daemon("--ports-domain", DOMAIN, "--auth-token", "t0ken-of-the-test") as d:
        d.token = "t0ken-of-the-test"
        keys = {n: d.post("/v1/keys", {"name": n, "roles": [r]}).json["secret"] for n, r in (("a", "agent"), ("b", "agent"), ("o", "auditor"))}
        d.token = keys["a"]
        sb = start_server(d, d.sandbox())
        equal(d.get("/echo", headers={"Host": host_of(sb)}).status, 200)
        d.token = keys["b"]
        equal(d.get(port(sb, "/echo")).status, 404)
        equal(d.get("/echo", headers={"Host": host_of(sb)}).status, 404)
        equal(d.ws(sb.path + "/forward/8080").status, 404)
        d.token = keys["o"]
        equal(d.get(port(sb, "/echo")).status, 403)
        d.token = None
        equal(d.get(port(sb, "/echo")).status, 401)
        equal(d.get("/echo", headers={"Host": host_of(sb)}).status, 401)


# --- traffic tokens

TOKEN = "t0ken-of-the-test"


def keyed():
    """A daemon with keys a and b, each with a sandbox and a server in it."""
    d = shared_daemon("--ports-domain", DOMAIN, "--auth-token", TOKEN, "--idle-ttl", "0", "--allowed-hosts", "example.com")
    if d not in _boxes:
        boxes = {}
        for name in ("a", "b"):
            d.token = TOKEN
            d.token = d.post("/v1/keys", {"name": name, "roles": ["agent"]}).json["secret"]
            boxes[name] = (d.token, start_server(d, d.sandbox(network={"allow": [{"host": "example.com"}]})))
        _boxes[d] = boxes
    d.token = None
    return d, _boxes[d]


def bearer(secret):
    return {"Authorization": "Bearer " + secret}


def make_token(d, sb, key, **spec):
    a = d.post(sb.path + "/traffic-tokens", spec, headers=bearer(key))
    equal(a.status, 201, a)
    return a.json


@test("P30 a traffic token opens the ports of its sandbox, by path and by host, and nothing else")
def test_token_reach():
    d, boxes = keyed()
    (key, sb), (_, other) = boxes["a"], boxes["b"]
    t = make_token(d, sb, key)
    with_token = {"X-Mas-Traffic-Token": t["token"]}
    equal(d.get(port(sb, "/echo")).status, 401)
    f = seen(d.get(port(sb, "/echo"), headers=with_token))
    check(t["token"] not in json.dumps(f), "it does not go in")
    equal(d.get("/echo", headers=dict(with_token, Host=host_of(sb))).status, 200)
    f = seen(d.get(port(sb, "/echo"), headers=dict(with_token, Authorization="Bearer the-servers-own")))
    equal(f["authorization"], "Bearer the-servers-own")
    equal(d.get(port(other, "/echo"), headers=with_token).status, 404, "another key's sandbox")
    equal(d.get("/echo", headers=dict(with_token, Host=host_of(other))).status, 404)
    second = Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(key)).json)
    equal(d.get(port(second, "/"), headers=with_token).status, 404, "another sandbox of the same key")
    equal(d.get(port(sb, "/", 3128), headers=with_token).status, 403, "the proxy's port")
    for secret in (t["token"] + "0", t["token"][:-1], "mastt_" + "0" * 64, t["id"], ""):
        equal(d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": secret}).status, 401, secret)
    narrow = make_token(d, sb, key, port=8080)
    equal(d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": narrow["token"]}).status, 200)
    equal(d.get(port(sb, "/", 8081), headers={"X-Mas-Traffic-Token": narrow["token"]}).status, 404)
    d.delete(second.path, headers=bearer(key))


@test("P30 a traffic token is no credential of any route, in any header")
def test_token_at_the_api():
    d, boxes = keyed()
    key, sb = boxes["a"]
    token = make_token(d, sb, key)["token"]
    exec_id = d.get(sb.path + "/execs", headers=bearer(key)).json["execs"][0]["exec_id"]
    for r in route_table():
        if r["open"] or r["path"].endswith("/{path}"):
            continue
        path, body = request_to(r["method"], r["path"], sb.id, exec_id)
        path = path.replace("{", "").replace("}", "")
        for headers in ({"X-Mas-Traffic-Token": token}, bearer(token), {"X-Sandbox-Token": token}, {"Cookie": f"mas-traffic={token}"}):
            a = d.request(r["method"].upper(), path, body, headers=headers)
            check(a.status in (401, 429, 404) and a.status != 200, f"{r['method']} {path} {list(headers)}: {a}")
    equal(d.get("/v1/identity", headers=bearer(key)).status, 200, "the key still is")


@test("P30 a link sets a cookie once, for one host, that no other host takes")
def test_links():
    d, boxes = keyed()
    (key, sb), (other_key, other) = boxes["a"], boxes["b"]
    t = make_token(d, sb, key)
    a = d.post(f"{sb.path}/traffic-tokens/{t['id']}/link", {"port": 8080}, headers=bearer(key))
    equal(a.status, 201, a)
    url = a.json["url"]
    equal(url.split("/.mas")[0], f"http://{host_of(sb)}:{d.port}")
    path = "/" + url.split("/", 3)[3]
    equal(d.get(path, headers={"Host": host_of(other)}).status, 403, "another sandbox's host")
    equal(d.get(path, headers={"Host": host_of(sb, 8081)}).status, 403, "another port's host")
    equal(d.post(path, b"", headers={"Host": host_of(sb)}).status, 403)
    a = d.get(path, headers={"Host": host_of(sb)})
    equal((a.status, a.headers["Location"]), (303, "/"), a)
    cookie, *rest = a.headers["Set-Cookie"].split("; ")
    equal(sorted(rest), ["HttpOnly", "Path=/", "SameSite=Lax"], "and no Domain: it is this host's alone")
    equal(d.get(path, headers={"Host": host_of(sb)}).status, 403, "a link works once")
    f = seen(d.get("/echo", headers={"Host": host_of(sb), "Cookie": "a=b; " + cookie}))
    equal(f["cookie"], "a=b", "the cookie does not go in")
    for host in (host_of(other), host_of(sb, 8081), f"127.0.0.1:{d.port}"):
        equal(d.get("/echo", headers={"Host": host, "Cookie": cookie}).status, 401 if "test" in host else 404, host)
    equal(d.get(port(sb, "/echo"), headers={"Cookie": cookie}).status, 401, "by path a cookie is none")
    equal(d.get("/echo", headers={"Host": host_of(sb), "Cookie": cookie, "Origin": "http://evil.example"}).status, 403)
    equal(d.get("/echo", headers={"Host": host_of(sb), "X-Mas-Traffic-Token": cookie.split("=")[1]}).status, 401, "nor is it a token")
    equal(d.post(f"{sb.path}/traffic-tokens/{t['id']}/link", {"port": 8080}, headers=bearer(other_key)).status, 404)


@test("P30 tokens survive kill -9, are nowhere in clear, and end when revoked or with their sandbox")
def test_token_life():
    d, boxes = keyed()
    (key, sb), (other_key, other) = boxes["a"], boxes["b"]
    t, u = make_token(d, sb, key, name="one"), make_token(d, sb, key, name="two", expires_in_s=3600)
    listed = d.get(sb.path + "/traffic-tokens", headers=bearer(key)).json["tokens"]
    check({"one", "two"} <= {x["name"] for x in listed} and "mastt_" not in json.dumps(listed), listed)
    d.kill_control(headers=bearer(TOKEN))
    use = lambda x: d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": x["token"]}).status
    wait_for(lambda: use(t) == 200, "the token after a restart")
    for root, _, files in os.walk(d.state):
        for name in files:
            with open(os.path.join(root, name), "rb") as f:
                check(t["token"].encode() not in f.read(), f"{root}/{name}")
    equal(d.delete(f"{sb.path}/traffic-tokens/{t['id']}", headers=bearer(other_key)).status, 404)
    equal(d.delete(f"{sb.path}/traffic-tokens/{t['id']}", headers=bearer(TOKEN)).status, 403, "who sees everything owns nothing")
    equal(d.delete(f"{sb.path}/traffic-tokens/{t['id']}", headers=bearer(key)).status, 200)
    equal((use(t), use(u)), (401, 200))
    equal(d.delete(f"{sb.path}/traffic-tokens/{t['id']}", headers=bearer(key)).status, 404)
    records = [json.loads(x) for x in d.get("/v1/audit?since=0", headers=bearer(TOKEN)).body.splitlines()]
    outcomes = [r["outcome"] for r in records if r.get("tool") == "port.token"]
    check({"token_made", "token_revoked"} <= set(outcomes), outcomes)
    d.delete(sb.path, headers=bearer(key))
    wait_for(lambda: use(u) in (401, 404), "the token is gone with its sandbox")
    uri = f"file:{d.state}/control/state.db?mode=ro"

    def rows():
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
            return [r for r in db.execute("SELECT body FROM traffic_token") if sb.id.encode() in bytes(r[0]) or sb.id in str(r[0])]
    wait_for(lambda: not rows(), "its rows are gone")


def hold_by(d, sb, token):
    """A stream that was opened with a traffic token, and whose answer has begun."""
    s = d.connect()
    path = port(sb, "/hold?" + b"HTTP/1.1 200 OK\r\n\r\nx".hex())
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Mas-Traffic-Token: {token}\r\n\r\n".encode())
    check(s.recv(65536).startswith(b"HTTP/1.1 200"), "the stream")
    return s


def ends(s):
    s.settimeout(60)
    try:
        while s.recv(65536):
            pass
    except ConnectionError:
        pass
    except TimeoutError:
        raise AssertionError("the stream is still open")


def cookie_of(d, sb, key, token):
    a = d.post(f"{sb.path}/traffic-tokens/{token['id']}/link", {"port": 8080}, headers=bearer(key))
    equal(a.status, 201, a)
    a = d.get("/" + a.json["url"].split("/", 3)[3], headers={"Host": host_of(sb)})
    equal(a.status, 303, a)
    return a.headers["Set-Cookie"].split(";")[0]


def add_key(d, name):
    return d.post("/v1/keys", {"name": name, "roles": ["agent"]}, headers=bearer(TOKEN)).json


@test("P23 what a traffic token has opened ends when its maker's key is revoked or rotated, also when that key's row is gone")
def test_maker_ends():
    with Daemon("--ports-domain", DOMAIN, "--auth-token", TOKEN, "--idle-ttl", "0", config="max_keys: 2\n") as d:
        for verb, request in (("rotated", lambda k: d.post(f"/v1/keys/{k['id']}/rotate", {}, headers=bearer(TOKEN))),
                              ("revoked", lambda k: d.delete(f"/v1/keys/{k['id']}", headers=bearer(TOKEN)))):
            key = add_key(d, verb)
            sb = Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(key["secret"])).json)
            start_server(d, sb, headers=bearer(key["secret"]))
            t = make_token(d, sb, key["secret"])
            stream, cookie = hold_by(d, sb, t["token"]), cookie_of(d, sb, key["secret"], t)
            use = lambda: (d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": t["token"]}).status,
                           d.get("/echo", headers={"Host": host_of(sb), "Cookie": cookie}).status)
            equal(use(), (200, 200), verb)
            equal(request(key).status, 200, verb)
            ends(stream)
            equal(use(), (401, 401), verb)
        for name in ("one", "two", "three"):  # which makes room by dropping the rows of ended keys
            made = add_key(d, name)
            equal(d.delete(f"/v1/keys/{made['id']}", headers=bearer(TOKEN)).status, 200, made)
            equal(use(), (401, 401), "the row of its maker is gone")


@test("P23 a traffic token of a rotated key is worth nothing where kill -9 came before its row was deleted; one made since is")
def test_token_left_over():
    with Daemon("--auth-token", TOKEN, "--ports-domain", DOMAIN, "--idle-ttl", "0") as d:
        key = add_key(d, "maker")
        sb = Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(key["secret"])).json)
        start_server(d, sb, headers=bearer(key["secret"]))
        old = make_token(d, sb, key["secret"])
        db = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=30)
        rows = lambda: db.execute("SELECT key, body FROM traffic_token").fetchall()
        before = rows()
        equal(len(before), 1)
        secret = d.post(f"/v1/keys/{key['id']}/rotate", {}, headers=bearer(TOKEN)).json["secret"]
        wait_for(lambda: rows() == [], "the row is deleted")
        new = make_token(d, sb, secret)
        db.executemany("INSERT INTO traffic_token (key, body) VALUES (?, ?)", before)
        d.kill_control(headers=bearer(TOKEN))
        use = lambda x: d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": x["token"]})
        wait_for(lambda: use(new).status == 200, "the new one after a restart")
        a = use(old)
        check(a.status == 401 and "was rotated" in a.json["error"]["message"], a)
        db.close()


@test("P23 a traffic token that was made with auth_token is worth nothing where the daemon starts with another one")
def test_auth_token_changes():
    for end in ("terminate", "kill"):
        with Daemon("--auth-token", TOKEN, "--idle-ttl", "0") as d:
            sb = Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(TOKEN)).json)
            start_server(d, sb, headers=bearer(TOKEN))
            t = make_token(d, sb, TOKEN)
            use = lambda: d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": t["token"]}).status
            equal(use(), 200)
            getattr(d.process, end)()
            d.process.wait()
            d.log.close()
            d.flags[d.flags.index(TOKEN)] = "another-" + TOKEN
            d.start()
            equal(use(), 401, end)


@test("P30 a token that has expired ends what it opened, has no links, and takes the place of no other")
def test_token_expires():
    d, boxes = keyed()
    key = add_key(d, "expiring")["secret"]
    sb = Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(key)).json)
    start_server(d, sb, headers=bearer(key))
    t = make_token(d, sb, key, expires_in_s=8)
    stream = hold_by(d, sb, t["token"])
    for _ in range(31):
        make_token(d, sb, key, expires_in_s=1)
    ends(stream)
    wait_for(lambda: d.get(sb.path + "/traffic-tokens", headers=bearer(key)).json["tokens"] == [], "all have expired")
    equal(d.post(f"{sb.path}/traffic-tokens/{t['id']}/link", {"port": 8080}, headers=bearer(key)).status, 404)
    equal(make_token(d, sb, key)["port"], None)
    d.delete(sb.path, headers=bearer(key))


@test("P30 a traffic token lives by the clock that nobody can set back")
def test_token_clock():
    # The wall clock of the control plane jumps two hours back; the token's hour goes on.
    with Daemon("--ports-domain", DOMAIN, "--idle-ttl", "0", "--debug-endpoints", env={"MAS_CLOCK_JUMP": "-7200:8000"}) as d:
        sb = start_server(d, d.sandbox())
        t = make_token_free(d, sb, expires_in_s=12)
        use = lambda: d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": t["token"]}).status
        wait_for(lambda: use() == 401, "it has expired")


@test("P23 connections by traffic tokens are counted for the key that made them")
def test_token_connections():
    with Daemon("--auth-token", TOKEN, "--max-connections", "40", "--idle-ttl", "0") as d:
        one, two = add_key(d, "one")["secret"], add_key(d, "two")["secret"]
        sb = Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(one)).json)
        start_server(d, sb, headers=bearer(one))
        held, refused = [], 0
        for t in [make_token(d, sb, one)["token"] for _ in range(4)]:
            for _ in range(7):
                s = d.connect()
                s.settimeout(60)
                path = port(sb, "/hold?" + b"HTTP/1.1 200 OK\r\n\r\nx".hex())
                s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Mas-Traffic-Token: {t}\r\n\r\n".encode())
                try:
                    good = s.recv(4096).startswith(b"HTTP/1.1 200")
                except ConnectionError:
                    good = False
                refused += not good
                held.append(s) if good else s.close()
        check(refused and len(held) <= 20, f"{len(held)} held, {refused} refused: the share of one key is half of all")
        equal(d.get("/v1/status", headers=bearer(two)).status, 200, "another key meanwhile")


@test("P30 a cookie changes nothing and opens no WebSocket for a page of another sandbox, which has the origin null as all have")
def test_cookie_of_other_pages():
    d, boxes = keyed()
    key = add_key(d, "viewer")["secret"]
    sb, other = (Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(key)).json) for _ in range(2))
    start_server(d, sb, headers=bearer(key))
    cookie = cookie_of(d, sb, key, make_token(d, sb, key))
    own = "http://" + host_of(sb)
    base = {"Host": host_of(sb), "Cookie": cookie}
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        for more in ({"Origin": "null"}, {"Origin": "http://" + host_of(other)}, {}, {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
                     {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://" + host_of(sb, 8081)}):
            check(d.request(method, "/echo", b"", headers={**base, **more}).status in (401, 403), f"{method} {more}")
        for more in ({"Origin": own}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}):
            equal(d.request(method, "/echo", b"", headers={**base, **more}).status, 200, f"{method} {more}")
    for origin, want in (("null", 401), ("http://" + host_of(other), 403), (own, 101)):
        out = d.raw(f"GET /ws HTTP/1.1\r\nHost: {host_of(sb)}\r\nCookie: {cookie}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode(), silence=1)
        check(out.startswith(b"HTTP/1.1 %d" % want), f"{origin}: {out}")
    for method in ("GET", "HEAD"):
        equal(d.request(method, "/echo", headers={**base, "Origin": "null"}).status, 200, "what a page shows")
    for s in (sb, other):
        d.delete(s.path, headers=bearer(key))


@test("P30 the holder of a traffic token learns of no other sandbox")
def test_token_sees_one():
    d, boxes = keyed()
    key = add_key(d, "of-two")["secret"]
    sb, other = (Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(key)).json) for _ in range(2))
    given = {"X-Mas-Traffic-Token": make_token(d, sb, key)["token"]}
    for number in ("8080", "99999999", "x"):
        told = [d.get(f"/v1/sandboxes/{name}/ports/{number}/", headers=given) for name in (other.id, "sbx-" + "0" * (len(other.id) - 4))]
        equal(*[(a.status, a.body.replace(n.encode(), b"X")) for a, n in zip(told, (other.id, "sbx-" + "0" * (len(other.id) - 4)))], number)
    told = [d.get("/echo", headers={**given, "Host": f"8080-{n}.{DOMAIN}"}) for n in (other.id, "sbx-" + "0" * (len(other.id) - 4))]
    equal(told[0].status, told[1].status)
    for s in (sb, other):
        d.delete(s.path, headers=bearer(key))


@test("P30 without keys a traffic token works, and it ends when there are keys")
def test_token_without_keys():
    with tempfile.TemporaryDirectory(prefix="mas-test-") as path, \
            Daemon("--ports-domain", DOMAIN, "--idle-ttl", "0", "-listen", f"unix:{path}/s") as d:
        sb = start_server(d, d.sandbox())
        t = make_token_free(d, sb)
        use = lambda: d.get(port(sb, "/echo"), headers={"X-Mas-Traffic-Token": t["token"]}).status
        equal(use(), 200)
        cookie = cookie_of_free(d, sb, t)
        equal(d.get("/echo", headers={"Host": host_of(sb), "Cookie": cookie}).status, 200)
        p = subprocess.run([SBX, "keys", "add", "first", "-roles", "admin", "-addr", f"unix:{path}/s"], capture_output=True, text=True)
        equal(p.returncode, 0, p)
        equal(use(), 401)


@test("P30 our token enters in no shape of the Authorization header")
def test_authorization_shapes():
    d, boxes = keyed()
    key, sb = add_key(d, "shapes")["secret"], None
    sb = Sandbox(d, d.post("/v1/sandboxes", {}, headers=bearer(key)).json)
    start_server(d, sb, headers=bearer(key))
    given = make_token(d, sb, key)["token"]
    for shape in (TOKEN, f"Bearer\t{TOKEN}", f"bearer {TOKEN}", f"Custom {TOKEN}", f"Custom a={TOKEN}", key, f"Bearer {key}"):
        out = d.raw(f"GET {port(sb, '/echo')} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {shape}\r\nX-Mas-Traffic-Token: {given}\r\n"
                    f"Connection: close\r\n\r\n".encode())
        check(b" 200 " in out[:16] and TOKEN.encode() not in out and key.encode() not in out, f"{shape!r}: {out}")
    d.delete(sb.path, headers=bearer(key))


@test("P30 a policy decides on making tokens, and bad ones are refused by name")
def test_token_policy():
    d = Daemon()
    path = os.path.join(d.dir, "policy.yaml")
    with open(path, "w") as f:
        f.write("version: 1\ndefault: allow\nrules:\n  - id: no-tokens\n    tool: port.token\n    verdict: deny\n    reason: not here\n")
    d.flags = ["--policy-file", path]
    with d:
        sb = d.sandbox()
        a = d.post(sb.path + "/traffic-tokens", {})
        equal((a.status, a.json["error"]["code"]), (403, "policy_denied"), a)
    d, sb = box()
    for bad in ({"port": 0}, {"port": 65536}, {"port": "x"}, {"expires_in_s": 0}, {"name": "x" * 65}, {"nmae": "x"}):
        equal(d.post(sb.path + "/traffic-tokens", bad).status, 400, bad)
    made = [make_token_free(d, sb) for _ in range(32)]
    equal(d.post(sb.path + "/traffic-tokens", {}).status, 429)
    for t in made:
        equal(d.delete(f"{sb.path}/traffic-tokens/{t['id']}").status, 200)


def make_token_free(d, sb, **spec):
    a = d.post(sb.path + "/traffic-tokens", spec)
    equal(a.status, 201, a)
    return a.json


def cookie_of_free(d, sb, token):
    a = d.post(f"{sb.path}/traffic-tokens/{token['id']}/link", {"port": 8080})
    return d.get("/" + a.json["url"].split("/", 3)[3], headers={"Host": host_of(sb)}).headers["Set-Cookie"].split(";")[0]


main()
