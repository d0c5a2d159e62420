#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a server or a page inside a sandbox tries by way of its ports, and what callers try there that
are not allowed to."""
import os
import sys

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
    ours = {"X-Sandbox-Token": "t", "X-Mas-Traffic-Token": "t", "X-Mas-Approval": "return", "x-mas-anything": "t",
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


main()
