#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP as the daemon speaks it: pages of other origins, paths, methods, encodings, and what each refusal says."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from openapi import operations, resolve

TOKEN = "a-token-for-pages"
PAGE = "https://tools.example"
d = Daemon("-auth-token", TOKEN, config=f"allowed_origins: ['{PAGE}']\n").start()
d.token = TOKEN
HOST = f"Host: 127.0.0.1:{d.port}\r\n"
AUTH = f"Authorization: Bearer {TOKEN}\r\n"


def raw(text, daemon=d):
    """The first answer that is not an interim one: status, lower-case headers, body."""
    data = daemon.raw(text.encode())
    while data.startswith(b"HTTP/1.1 100"):
        data = data[data.index(b"\r\n\r\n") + 4:]
    head, _, body = data.decode().partition("\r\n\r\n")
    lines = head.split("\r\n")
    return int(lines[0].split()[1]), {k.lower(): v for k, v in (l.split(": ", 1) for l in lines[1:])}, body


# --- pages of other origins

def cors(headers):
    return {k.lower() for k in headers if k.lower().startswith("access-control-")}


@test("a page of an allowed origin: its browser asks first, and hears the path's methods")
def test_a_page_of_an_allowed_origin_its_browser_asks():
    ask = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    d.token = None
    a = d.request("OPTIONS", "/v1/sandboxes", headers=ask)
    equal(a.status, 204, a)
    equal(a.headers["Access-Control-Allow-Origin"], PAGE)
    equal(a.headers["Access-Control-Allow-Methods"], "GET, HEAD, POST")
    may = set(a.headers["Access-Control-Allow-Headers"].lower().split(", "))
    named = [resolve(p["$ref"]) if "$ref" in p else p for _, _, op in operations() for p in op.get("parameters", [])]
    needed = {p["name"].lower() for p in named if p["in"] == "header"}
    equal(sorted((needed | {"authorization", "content-type"}) - may), [], "headers of the API that a page cannot send")
    equal(a.headers["Vary"], "Origin")
    check("Access-Control-Allow-Credentials" not in a.headers, "never with credentials")
    equal(d.request("OPTIONS", "/v1/nothing", headers=ask).status, 404)
    for origin in ("https://evil.example", "null"):
        a = d.request("OPTIONS", "/v1/sandboxes", headers=dict(ask, Origin=origin))
        equal((a.status, cors(a.headers)), (403, set()), origin)
    d.token = TOKEN
    a = d.request("OPTIONS", "/v1/sandboxes")
    equal((a.status, a.headers["Allow"]), (405, "GET, HEAD, POST"), "without an origin it is a method like any other")


@test("it can read answers, refusals too, and must bring a key")
def test_it_can_read_answers_refusals_too_and_must_bring():
    for token, status in ((TOKEN, 200), (None, 401), ("wrong", 401)):
        d.token = token
        a = d.get("/v1/status", headers={"Origin": PAGE})
        equal(a.status, status, a)
        equal(a.headers["Access-Control-Allow-Origin"], PAGE)
        check("X-Request-Id" in a.headers["Access-Control-Expose-Headers"], a.headers)
        check("Access-Control-Allow-Credentials" not in a.headers, a.headers)
    d.token = TOKEN
    equal(cors(d.get("/v1/status", headers={"Origin": f"http://127.0.0.1:{d.port}"}).headers), set(), "our own page")
    equal(cors(d.get("/v1/status").headers), set(), "no page")
    with Daemon(config=f"allowed_origins: ['{PAGE}']\n") as open_one:
        equal(open_one.get("/v1/status").status, 200, "others need no key here")
        a = open_one.get("/v1/status", headers={"Origin": PAGE})
        equal(a.status, 401, a)
        check("must bring a key" in a.json["error"]["message"], a)


@test("two Origin or Authorization headers are refused, whichever comes first")
def test_two_origin_or_authorization_headers_are_refused():
    ours = f"http://127.0.0.1:{d.port}"
    for one, two in ((ours, "https://evil.example"), ("https://evil.example", ours), (ours, ours)):
        status, _, body = raw(f"GET /v1/status HTTP/1.1\r\n{HOST}{AUTH}Origin: {one}\r\nOrigin: {two}\r\n\r\n")
        equal(status, 400, body)
        check("one Origin" in body, body)
    equal(raw(f"GET /v1/status HTTP/1.1\r\n{HOST}{AUTH}{AUTH}\r\n")[0], 400)


@test("where pages may call, every answer says that it depends on the Origin; elsewhere none does")
def test_where_pages_may_call_every_answer_says():
    for headers in ({}, {"Origin": PAGE}, {"Origin": "https://evil.example"}, {"Origin": f"http://127.0.0.1:{d.port}"}):
        for method, path in (("GET", "/v1/status"), ("GET", "/nothing"), ("PUT", "/v1/run"), ("GET", "/healthz"), ("OPTIONS", "*")):
            equal(d.request(method, path, headers=headers).headers.get_all("Vary"), ["Origin"], (method, path, headers))
    with Daemon() as closed:
        equal(closed.get("/v1/status").headers["Vary"], None)


@test("OPTIONS * is about the server: 204 with its methods, also without a key")
def test_options_is_about_the_server_204_with_its_methods():
    for token in (TOKEN, None):
        d.token = token
        a = d.request("OPTIONS", "*")
        equal((a.status, a.body, a.headers["Allow"]), (204, b"", "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"), a)
    d.token = TOKEN
    equal(d.request("GET", "*").status, 404)
    equal(d.request("OPTIONS", "/*").status, 404)


# --- answers and paths

@test("every answer says that its type is not to be guessed")
def test_every_answer_says_that_its_type():
    for a in (d.get("/v1/status"), d.get("/nothing"), d.get("/metrics"), d.post("/v1/run", {"command": ["true"]}),
              d.request("GET", "/", headers={"Host": "evil.example"})):
        equal(a.headers["X-Content-Type-Options"], "nosniff", a)
    check("x-content-type-options" in raw("GARBAGE\r\n\r\n")[1], "also where no request was understood")


@test("an escaped slash is part of a name, not of the path")
def test_an_escaped_slash_is_part_of_a_name():
    with d.sandbox() as sb:
        equal(d.get(f"/v1/sandboxes%2F{sb.id}").status, 404)
        equal(d.get(f"/v1%2fsandboxes/{sb.id}").status, 404)
        equal(d.request("DELETE", f"/v1/sandboxes/{sb.id}%2Fexecs").status, 404)
        a = d.get("/v1/sandboxes/a%2Fb")
        check(a.status == 404 and "'a/b'" in a.json["error"]["message"], a)
        a = d.get("/v1/sandboxes/a%252Fb")
        check(a.status == 404 and "'a%2Fb'" in a.json["error"]["message"], f"decoded once: {a}")
        equal(d.get("/v1/%73andboxes/" + sb.id).status, 200, "other escapes are the character")


@test("405 names the methods in Allow; a slash at the end is a 404 that says so")
def test_405_names_the_methods_in_allow_a_slash():
    for method, path, allow in (("PUT", "/v1/sandboxes", "GET, HEAD, POST"), ("POST", "/v1/status", "GET, HEAD"),
                                ("GET", "/v1/run", "POST"), ("PATCH", "/mcp", None), ("GET", "/api/actions", "POST"),
                                ("POST", "/sandboxes/x", "GET, HEAD, DELETE")):
        a = d.request(method, path)
        equal(a.status, 405, (path, a))
        check(a.headers["Allow"] == allow if allow else "POST" in a.headers["Allow"], (path, a.headers["Allow"]))
    for path in ("/v1/sandboxes/", "/sandboxes/", "/v1/status/"):
        a = d.get(path)
        equal(a.status, 404, path)
        check(b"ends with a slash" in a.body, a)


@test("a body with a Content-Encoding is 415, whoever reads it")
def test_a_body_with_a_content_encoding_is_415_whoever():
    for path in ("/v1/run", "/v1/sandboxes", "/v1/sandbox/execute", "/mcp"):
        a = d.request("POST", path, b"\x1f\x8b\x08\x00", headers={"Content-Encoding": "gzip"})
        equal(a.status, 415, path)
        check("Content-Encoding" in a.json["error"]["message"], a)
    a = d.post("/v1/run", {"command": ["true"]}, headers={"Content-Encoding": "identity"})
    equal(a.status, 200, a)


# --- clients of other habits

@test("a client that ends its side after the body is answered; one that leaves is not waited for")
def test_a_client_that_ends_its_side_after_the_body():
    body = json.dumps({"command": ["sh", "-c", "sleep 0.3; echo done"]})
    s = socket.create_connection(("127.0.0.1", d.port))
    s.sendall(f"POST /v1/run HTTP/1.1\r\n{HOST}{AUTH}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    s.shutdown(socket.SHUT_WR)
    s.settimeout(60)
    answer = b""
    while data := s.recv(65536):
        answer += data
    check(b" 200 OK" in answer and b"done" in answer, answer)
    before = settled(lambda: d.get("/v1/status").json["counts"]["sandboxes"])
    body = json.dumps({"command": ["sleep", "300"]})
    s = socket.create_connection(("127.0.0.1", d.port))
    s.sendall(f"POST /v1/run HTTP/1.1\r\n{HOST}{AUTH}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] > before, "it runs")
    s.close()
    wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == before, "it ends with its client")


@test("HTTP/1.0 needs no Host")
def test_http_1_0_needs_no_host():
    equal(raw("GET /healthz HTTP/1.0\r\n\r\n")[0], 200)
    equal(raw(f"GET /v1/status HTTP/1.0\r\n{AUTH}\r\n")[0], 200)
    equal(raw("GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n")[0], 403, "but one that it has must be ours")
    equal(raw("GET /healthz HTTP/1.1\r\n\r\n")[0], 400)


@test("each refusal of a head says what is wrong")
def test_each_refusal_of_a_head_says_what_is_wrong():
    for head, status, words in (
            ("BREW / HTTP/1.1\r\nHost: x\r\n\r\n", 501, "method"),
            ("GET / HTTP/1.1\r\nHost: x\r\n" + "A: b\r\n" * 101 + "\r\n", 431, "100 header fields"),
            ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400, "one Content-Length"),
            ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\na", 400, "not a number"),
            ("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
             "Transfer-Encoding"),
            ("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: nonsense\r\n\r\n", 400, "transfer coding"),
            ("GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505, "HTTP/1.1")):
        got, _, body = raw(head)
        equal(got, status, head[:60])
        check(words in json.loads(body)["error"]["message"], (head[:60], body))


main()
