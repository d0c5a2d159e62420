#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The way in to servers inside sandboxes: HTTP and WebSocket, by path and by host; what passes in either
direction and what does not; servers that misbehave; callers that do."""
import os
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from ports import *

_boxes = {}


def daemon():
    return shared_daemon("--ports-domain", DOMAIN, "--port-answer-timeout", "2s", "--idle-ttl", "0")


def box():
    """The sandbox of all tests that do not end theirs, with a server at 8080."""
    d = daemon()
    if d not in _boxes:
        _boxes[d] = start_server(d, d.sandbox())
    return d, _boxes[d]


def raw_answer(text):
    """An answer of the server that is these bytes."""
    d, sb = box()
    return d.get(port(sb, "/raw?" + text.encode("latin-1").hex()))


@test("a request and its answer: method, path, query, fields and body as they are")
def test_round_trip():
    d, sb = box()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"):
        body = None if method == "GET" else b"some body"
        a = d.request(method, port(sb, "/echo/a%20b%2F/%e2%82%ac?x=1&x=%41&y&&z=+;"), body, headers={"X-Own": "a, b", "Accept": "x/y"})
        equal(a.status, 200, method)
        equal(a.json["line"], f"{method} /echo/a%20b%2F/%e2%82%ac?x=1&x=%41&y&&z=+; HTTP/1.1")
        equal(a.json["body"].encode(), body or b"")
        f = seen(a)
        equal((f["x-own"], f["accept"], f["host"], f["connection"]), ("a, b", "x/y", "localhost:8080", "close"))
        equal(f["x-forwarded-prefix"], port(sb, ""))
    a = d.request("HEAD", port(sb, "/echo"))
    equal((a.status, a.body), (200, b""))
    check(int(a.headers["Content-Length"]) > 10, a.headers)
    equal(seen(d.post(port(sb, "/echo"), b""))["content-length"], "0")


@test("request bodies stream, with a length and in chunks, larger than any buffer")
def test_bodies_in():
    d, sb = box()
    big = os.urandom(1 << 20) * 6
    a = d.put(port(sb, "/echo"), big)
    equal((a.status, a.json["length"]), (200, len(big)))
    equal(seen(a)["content-length"], str(len(big)))
    pieces = b"".join(b"%x\r\n" % len(p) + p + b"\r\n" for p in (big[i:i + 70000] for i in range(0, len(big), 70000)))
    a = d.put(port(sb, "/echo"), pieces + b"0\r\n\r\n", headers={"Transfer-Encoding": "chunked"})
    equal((a.status, a.json["length"]), (200, len(big)))
    equal(seen(a)["transfer-encoding"], "chunked")
    check("content-length" not in seen(a), a)
    a = d.post(port(sb, "/echo"), b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"})
    equal(seen(a)["content-encoding"], "gzip")
    equal(d.post("/v1/run", b"\x1f\x8b", headers={"Content-Encoding": "gzip"}).status, 415, "which is for ports only")


@test("answers stream: large ones whole, and events as they come")
def test_bodies_out():
    d, sb = box()
    a = d.get(port(sb, "/big?9000000"))
    equal((a.status, len(a.body)), (200, 9000000))
    s = d.connect()
    s.sendall(f"GET {port(sb, '/slow')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    got = b""
    while b"data: one" not in got:
        got += s.recv(65536)
    check(b"data: two" not in got, got)
    d.get(port(sb, "/go"))
    while b"data: two" not in got:
        got += s.recv(65536)
    check(b"text/event-stream" in got, got)
    s.close()


@test("a slow reader holds back the server, and nothing of its answer is lost")
def test_slow_reader():
    d, sb = box()
    s = d.connect()
    s.sendall(f"GET {port(sb, '/big?20000000')} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    equal(d.get(port(sb, "/echo")).status, 200, "others are served meanwhile")
    got = bytearray()
    while piece := s.recv(1 << 16):
        got += piece
    equal(len(got.split(b"\r\n\r\n", 1)[1]), 20000000)


@test("a client that leaves ends the server's connection")
def test_client_leaves():
    d, sb = box()
    s = hold(d, sb)
    s.recv(65536)
    s.close()
    wait_for(lambda: d.get(sb.path + "/files/stat?path=/workspace/left").status == 200, "the server saw the end")


@test("WebSockets pass both ways, with the frame that comes with the handshake")
def test_websocket():
    d, sb = box()
    ws = d.ws(port(sb, "/ws"), headers={"Authorization": "Bearer mas_" + "0" * 64})
    equal(ws.status, 101, ws.head)
    check("X-Mas-Evil" not in ws.head and "Set-Cookie" not in ws.head, ws.head)
    it = ws.messages()
    equal(next(it), "hello")
    for text in ("one", "x" * 60000):
        ws.send(text)
        equal(next(it), text)
    ws.close()


@test("fields about one connection stay on it, those that Connection names too")
def test_hop_by_hop():
    d, sb = box()
    f = seen(d.get(port(sb, "/echo"), headers={"Connection": "close, X-Secret-Hop", "X-Secret-Hop": "1", "Keep-Alive": "5", "TE": "trailers",
                                               "Trailer": "X", "Upgrade": "h2c", "HTTP2-Settings": "x"}))
    equal({"x-secret-hop", "keep-alive", "te", "trailer", "upgrade", "http2-settings"} & set(f), set())
    equal(f["connection"], "close")
    with socket.create_connection(("127.0.0.1", d.port), 20) as s:  # in several lines, as in one
        s.sendall(f"GET {port(sb, '/echo')} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: X-First\r\nX-First: 1\r\nX-Second: 2\r\nX-Other: 3\r\nConnection: x-second, close\r\n\r\n".encode())
        text = b"".join(iter(lambda: s.recv(65536), b"")).lower()
    check(b" 200 " in text and b"x-other" in text and b"x-first" not in text and b"x-second" not in text, text)


@test("of an answer's fields only the listed ones pass, and a page is always sandboxed")
def test_answer_filter():
    inside = {"Content-Language": "de", "Cache-Control": "no-store", "ETag": '"1"', "Last-Modified": "x", "Vary": "a", "X-Own": "1",
              "Content-Type": "text/html"}
    outside = {"Set-Cookie": "sid=1", "Content-Security-Policy": "default-src *", "Access-Control-Allow-Origin": "*", "Clear-Site-Data": "*",
               "Service-Worker-Allowed": "/", "Refresh": "0;url=/", "Link": "<x>;rel=preload", "Strict-Transport-Security": "max-age=1",
               "X-Accel-Redirect": "/etc/passwd", "X-Sendfile": "/etc/passwd", "X-Mas-Ignored": "x", "X-Request-Id": "evil",
               "Server": "evil", "WWW-Authenticate": "Basic", "Proxy-Authenticate": "Basic", "Alt-Svc": "h2=\"evil\"", "Trailer": "x",
               "Content-Security-Policy-Report-Only": "x", "Keep-Alive": "x", "Date": "evil"}
    text = "HTTP/1.1 200 OK\r\n" + "".join(f"{k}: {v}\r\n" for k, v in {**inside, **outside}.items()) + "Content-Length: 2\r\n\r\nok"
    a = raw_answer(text)
    equal((a.status, a.body), (200, b"ok"))
    for k, v in inside.items():
        equal(a.headers.get(k), v, k)
    for k, v in outside.items():
        check(a.headers.get(k) != v, f"{k}: {a.headers.get(k)}")
    equal(a.headers.get_all("Content-Security-Policy"), [CSP])
    equal(a.headers.get_all("Cross-Origin-Resource-Policy"), ["same-origin"])
    equal(a.headers.get_all("X-Content-Type-Options"), ["nosniff"])


LONG_FIELDS = r"""
import socket
listener = socket.create_server(("127.0.0.1", 8085))
while True:
    c, _ = listener.accept()
    length = int(c.recv(65536).split()[1].strip(b"/"))
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type:text/html\r\nX-A:" + b"a" * length + b"\r\n\r\n<script>")
    c.close()
"""


@test("however long a server's fields are, its page is sandboxed or not shown")
def test_long_fields():
    d, sb = box()
    d.post(sb.path + "/exec", {"command": ["python3", "-c", LONG_FIELDS], "async": True})
    wait_for(lambda: d.get(f"{sb.path}/ports/8085/1").status == 200, "it listens")
    for length in [10, 60000] + list(range(65300, 65500, 20)):
        a = d.get(f"{sb.path}/ports/8085/{length}")
        check(a.status == 502 or a.headers.get_all("Content-Security-Policy") == [CSP], f"{length}: {a.status}")
        check(a.status == 502 or a.headers.get_all("Cross-Origin-Resource-Policy") == ["same-origin"], f"{length}: {a.status}")


@test("a location leads to below the same prefix, or nowhere")
def test_location():
    d, sb = box()
    prefix = port(sb, "")
    for given, want in {"/login?a=/../b": prefix + "/login?a=/../b", "next": prefix + "/next", "": prefix + "/raw", "?q": prefix + "/raw?q",
                        "http://localhost:8080/x": prefix + "/x", "http://127.0.0.1:8080": prefix + "/", "//localhost:8080/y": prefix + "/y",
                        f"http://127.0.0.1:{d.port}/z": prefix + "/z", "/../../../../v1/keys": prefix + "/v1/keys", "../../x": prefix + "/x",
                        "/a/%2e%2e/%2E./b": prefix + "/b", "//evil.example/": None, "http://evil.example/": None, "https:evil": None,
                        "javascript:alert(1)": None, "/\\evil": None, "http://localhost:8081/": None, "http://localhost:8080@evil/": None,
                        "/a b": None, "///evil": None, "/..//evil": prefix + "/evil"}.items():
        a = raw_answer(f"HTTP/1.1 302 Found\r\nLocation: {given}\r\nContent-Length: 0\r\n\r\n")
        got = a.headers.get("Location")
        if given == "":
            check(got and got.startswith(want), f"{given!r}: {got!r}")
        else:
            equal(got, want, repr(given))


BAD_ANSWERS = {
    "no HTTP": "hello\r\n\r\n", "HTTP/2": "HTTP/2 200 OK\r\n\r\n", "HTTP/0.9": "<html>\r\n\r\n", "no status": "HTTP/1.1  OK\r\n\r\n",
    "a status of 99": "HTTP/1.1 099 x\r\n\r\n", "a status of 600": "HTTP/1.1 600 x\r\n\r\n",
    "a length and a coding": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
    "the same length twice": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
    "a list of lengths": "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab", "a signed length": "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab",
    "a length of 2^70": "HTTP/1.1 200 OK\r\nContent-Length: 1180591620717411303424\r\n\r\nab",
    "gzip, chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding twice": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked in HTTP/1.0": "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded field": "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\n\r\n", "a space before the colon": "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nab",
    "bare LF": "HTTP/1.1 200 OK\nX: y\n\n\r\n\r\n", "a NUL": "HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", "bare CR": "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n",
    "no name": "HTTP/1.1 200 OK\r\n: x\r\n\r\n", "200 fields": "HTTP/1.1 200 OK\r\n" + "X: y\r\n" * 200 + "\r\n",
    "a head of 100 kB": "HTTP/1.1 200 OK\r\nX: " + "y" * 100, "a head that ends too early": "HTTP/1.1 200 OK\r\nX: y\r\n",
    "nothing": "", "a switch that nobody asked for": "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n",
    "interim answers for ever": "HTTP/1.1 103 Early\r\n\r\n" * 50,
}


@test("an answer that has more than one meaning, or none, is 502 and says why")
def test_bad_answers():
    for name, text in BAD_ANSWERS.items():
        a = raw_answer(text)
        equal((a.status, a.json["error"]["code"]), (502, "bad_gateway"), name)
        check("8080" in a.json["error"]["message"], a)


@test("a head that is too long is 502 before all of it has come")
def test_long_head():
    d, sb = box()
    script = "import socket\ns=socket.socket()\ns.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\ns.bind(('127.0.0.1',8090))\ns.listen()\nc,_=s.accept()\nc.sendall(b'HTTP/1.1 200 OK\\r\\nX: ')\ntry:\n  while True: c.sendall(b'y'*60000)\nexcept OSError: pass\n"
    d.post(sb.path + "/exec", {"command": ["/usr/bin/python3", "-c", script], "async": True})
    wait_for(lambda: sb.sh("grep -q :1F9A /proc/net/tcp")["exit_code"] == 0, "the server")
    a = d.get(port(sb, "/", 8090))
    equal(a.status, 502, a)
    check("too long" in a.json["error"]["message"], a)


@test("interim answers are not the answer; HTTP/1.0 and answers without a length are")
def test_good_answers():
    a = raw_answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more")
    equal((a.status, a.body), (200, b"ok"))
    a = raw_answer("HTTP/1.0 404 Not here\r\nContent-Type: text/plain\r\n\r\nuntil the end")
    equal((a.status, a.body), (404, b"until the end"))
    a = raw_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nsmuggled")
    equal((a.status, a.body), (200, b"abc"))
    for text in ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\nhello"):
        a = raw_answer(text)
        equal((a.status, a.body), (int(text.split()[1]), b""))


@test("an answer that breaks off in its middle is broken for the client too")
def test_broken_answers():
    d, sb = box()
    for name, text in {"length": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
                       "bad chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n"}.items():
        try:
            a = raw_answer(text)
            check(False, f"{name}: {a}")
        except (http.client.IncompleteRead, ConnectionError, http.client.HTTPException):
            pass
    equal(d.get(port(sb, "/echo")).status, 200, "the connection of the next request is another")


@test("nothing listens, the server resets, or does not answer: 502, 502, 504")
def test_no_answer():
    d, sb = box()
    a = d.get(port(sb, "/", 9999))
    equal((a.status, a.json["error"]["code"]), (502, "bad_gateway"))
    check("nothing listens on port 9999" in a.json["error"]["message"], a)
    equal(d.get(port(sb, "/reset?")).status, 502)
    a = d.get(port(sb, "/hold?"))
    equal((a.status, a.json["error"]["code"]), (504, "timeout"))
    check("port_answer_timeout" in a.json["error"]["message"], a)


@test("a server on ::1 alone is found")
def test_ipv6():
    d, sb = box()
    start_server(d, sb, 8086, "::1")


@test("ports that are none, sandboxes that are none, and paths without a slash")
def test_names():
    d, sb = box()
    for bad in ("0", "65536", "x", "-1", "08", "1e3", "%38080x"):
        equal(d.get(port(sb, "/", bad)).status, 400, bad)
    equal(d.get("/v1/sandboxes/sbx-none/ports/80/").status, 404)
    equal(d.get(port(sb, "")).status, 404)
    equal(d.get(port(sb, "/echo", "%38080")).status, 200, "an escaped digit is a digit")


@test("runtimes that share the host's loopback are refused by name")
def test_shared_loopback():
    with Daemon("--enable-process") as d:
        for runtime in ("landlock", "process"):
            a = d.post("/v1/sandboxes", {"runtime": runtime})
            if a.status != 201:
                print(f"# {runtime} is not to be had here: {a}")
                continue
            sb = Sandbox(d, a.json)
            a = d.get(port(sb, "/", d.port))
            equal(a.status, 400, a)
            check(runtime in a.json["error"]["message"] and "loopback" in a.json["error"]["message"], a)


@test("the runner's own listener is refused by name, from outside too")
def test_own_listener():
    with Daemon("--allowed-hosts", "example.com") as d:
        sb = d.sandbox(network={"allow": [{"host": "example.com"}]})
        a = d.get(port(sb, "/", 3128))
        equal(a.status, 403, a)
        check("3128" in a.json["error"]["message"], a)
        equal(d.ws(sb.path + "/forward/3128").status, 403)
    d, sb = box()
    equal(d.get(port(sb, "/", 3128)).status, 502, "without a network nothing of ours is there")


@test("a paused sandbox is said to be paused, a deleted one ends what is open")
def test_states():
    d = daemon()
    sb = start_server(d, d.sandbox())
    ws = d.ws(port(sb, "/ws"))
    s = hold(d, sb)
    s.recv(65536)
    if d.post(sb.path + "/pause").status == 200:
        a = d.get(port(sb, "/echo"))
        equal(a.status, 409, a)
        equal(d.post(sb.path + "/resume").status, 200)
    equal(d.get(port(sb, "/echo")).status, 200)
    sb.delete()
    s.settimeout(60)
    try:
        while s.recv(65536):
            pass
    except ConnectionError:
        pass
    equal(list(ws.messages())[1:], [])


@test("more streams than a sandbox may have: 429, and room again afterwards")
def test_many():
    d = daemon()
    sb = start_server(d, d.sandbox())
    held = []
    for _ in range(64):
        s = hold(d, sb)
        held.append(s)
    for s in held:
        check(s.recv(65536).startswith(b"HTTP/1.1 200"), "held")
    equal(d.get(port(sb, "/echo")).status, 429)
    for s in held:
        s.close()
    wait_for(lambda: d.get(port(sb, "/echo")).status == 200, "room")
    sb.delete()


@test("a kill -9 of the control plane ends streams, and the next one serves them")
def test_restart():
    d = daemon()
    sb = start_server(d, d.sandbox())
    s = hold(d, sb)
    s.recv(65536)
    d.kill_control()
    wait_for(lambda: d.get(port(sb, "/echo")).status == 200, "the server again")
    sb.delete()


@test("TCP over a WebSocket: bytes both ways, and the end of either side alone")
def test_forward():
    d, sb = box()
    ws = d.ws(sb.path + "/forward/8080")
    equal(ws.status, 101, ws.head)
    body = os.urandom(200000)
    ws.send_frame(2, f"PUT /echo HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode())
    for i in range(0, len(body), 50000):
        ws.send_frame(2, body[i:i + 50000])
    ws.send('{"type":"end"}')
    got, ends = b"", 0
    for m in ws.messages():
        if isinstance(m, str):
            equal(m, '{"type":"end"}')
            ends += 1
        else:
            got += m
    equal((ends, ws.close_code), (1, 1000))
    equal(json.loads(got.split(b"\r\n\r\n", 1)[1])["length"], len(body))
    equal(d.ws(sb.path + "/forward/9999").status, 502)
    entered = [json.loads(x) for x in d.get("/v1/audit").body.splitlines() if b'"entered"' in x]
    check(9999 in [r["details"]["port"] for r in entered if r["sandbox"] == sb.id], "on record before it is tried")
    equal(d.get(sb.path + "/forward/8080").status, 400)
    ws = d.ws(sb.path + "/forward/8080")
    ws.send("what")
    list(ws.messages())
    equal(ws.close_code, 1003)


@test("bytes behind the end of a forwarded stream close it, and the sandbox does not see them")
def test_forward_behind_end():
    d, sb = box()
    ws = d.ws(sb.path + "/forward/8080")
    ws.send_frame(2, b"GET /echo")
    ws.send('{"type":"end"}')
    ws.send_frame(2, b" HTTP/1.1\r\n\r\n")
    list(ws.messages())
    equal(d.get(sb.path).json["state"], "ready")
    equal(ws.close_code, 1003)
    equal(d.get(port(sb, "/echo")).status, 200)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def talk(number, data):
    """Sends all of it and the end, and returns all that comes back."""
    with socket.create_connection(("127.0.0.1", number), timeout=60) as s:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        got = bytearray()
        while piece := s.recv(65536):
            got += piece
        return bytes(got)


@test("sbx port-forward: several ports and connections at once, both ways, to their ends")
def test_port_forward():
    d, sb = box()
    one, two, none = free_port(), free_port(), free_port()
    p = subprocess.Popen([SBX, "port-forward", "-addr", f"http://127.0.0.1:{d.port}", sb.id, f"{one}:8080", f"{two}:8080", f"{none}:9999"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        equal([p.stdout.readline().split()[0] for _ in range(3)], [f"127.0.0.1:{x}" for x in (one, two, none)])
        body = os.urandom(3000000)
        head = f"PUT /echo HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        idle = socket.create_connection(("127.0.0.1", one))
        for number in (one, two):
            answer = talk(number, head + body)
            equal(json.loads(answer.split(b"\r\n\r\n", 1)[1])["length"], len(body))
        equal(len(talk(two, b"GET /big?5000000 HTTP/1.1\r\n\r\n")) > 5000000, True)
        equal(talk(none, b""), b"")
        check("nothing listens on port 9999" in p.stderr.readline(), "and it says so")
        idle.sendall(b"GET /echo HTTP/1.1\r\n\r\n")
        check(idle.recv(65536).startswith(b"HTTP/1.1 200"), "a connection that was open all the time")
        idle.close()
    finally:
        p.send_signal(signal.SIGINT)
        p.communicate(timeout=60)
    equal(p.returncode, 0)
    for bad in ("0:1", "x", "1:2:3", "70000"):
        r = subprocess.run([SBX, "port-forward", "-addr", f"http://127.0.0.1:{d.port}", sb.id, bad], capture_output=True, text=True)
        equal(r.returncode, 2, bad)
    r = subprocess.run([SBX, "port-forward", "-addr", f"http://127.0.0.1:{d.port}", "sbx-none", "1:1"], capture_output=True, text=True)
    check(r.returncode not in (0, 2) and "sbx-none" in r.stderr, r)


# --- by host

@test("by host: the server's paths are its own, and it sees the name it is called by")
def test_by_host():
    d, sb = box()
    name = f"{host_of(sb)}:{d.port}"
    a = d.get("/echo/v1/keys?x", headers={"Host": name})
    equal(a.json["line"], "GET /echo/v1/keys?x HTTP/1.1")
    f = seen(a)
    equal(f["host"], name)
    check("x-forwarded-prefix" not in f, f)
    equal(a.headers["Content-Security-Policy"], CSP)
    text = "HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n"
    for given, want in {"/x": "/x", f"http://{name}/y": "/y", "//evil/": None, "/..//evil": "/evil", "/%2e%2e//evil": "/evil",
                        f"http://127.0.0.1:{d.port}/v1/keys": None}.items():
        a = d.get("/raw?" + text.format(given).encode().hex(), headers={"Host": name})
        equal(a.headers.get("Location"), want, given)
    equal(d.get("/echo", headers={"Host": host_of(sb).upper() + "."}).status, 200, "names have no case, and may end with a dot")


@test("a policy decides on the tool 'port', and a refusal and the first use are on record")
def test_policy():
    with Daemon() as d:
        sb = start_server(d, d.sandbox())
        entered = [json.loads(x) for x in d.get("/v1/audit").body.splitlines() if b'"entered"' in x]
        equal([(r["sandbox"], r["details"]["port"]) for r in entered], [(sb.id, 8080)], "once a minute")
        for _ in range(2):
            named = Sandbox(d, d.post("/v1/sandboxes", {"id": "same"}).json)
            start_server(d, named)
            named.delete()
            wait_for(lambda: d.get(named.path).status == 404, "it is gone")
        entered = [json.loads(x) for x in d.get("/v1/audit").body.splitlines() if b'"entered"' in x]
        equal(len([r for r in entered if r["sandbox"] == named.id]), 2, "each sandbox that had the id is on record")
    for rule in ("deny", "ask"):
        d = Daemon()
        path = os.path.join(d.dir, "policy.yaml")
        with open(path, "w") as f:
            f.write(f"version: 1\ndefault: allow\nrules:\n  - id: no-ports\n    tool: port\n    verdict: {rule}\n    reason: not here\n")
        d.flags = ["--policy-file", path]
        with d:
            sb = d.sandbox()
            a = d.get(port(sb, "/"))
            equal((a.status, a.json["error"]["code"]), (403, "policy_denied"), a)
            equal(sb.sh("true")["exit_code"], 0)


@test("real servers: python's http.server and nginx")
def test_real_servers():
    d = daemon()
    sb = d.sandbox()
    sb.sh("mkdir -p /workspace/www/sub /workspace/logs && echo hello > /workspace/www/sub/f.txt")
    d.post(sb.path + "/exec", {"command": ["/usr/bin/python3", "-m", "http.server", "-b", "127.0.0.1", "-d", "/workspace/www", "8000"], "async": True})
    wait_for(lambda: d.get(port(sb, "/", 8000)).status == 200, "http.server")
    equal(d.get(port(sb, "/sub/f.txt", 8000)).body, b"hello\n")
    equal(d.get(port(sb, "/sub", 8000)).headers["Location"], port(sb, "/sub/", 8000))
    equal(d.get(port(sb, "/none", 8000)).status, 404)
    if not os.path.exists("/usr/sbin/nginx"):
        raise Skip("nginx is not installed")
    conf = ("daemon off; pid /workspace/nginx.pid; error_log /workspace/logs/e; worker_processes 1; events {} http { access_log off; "
            + "".join(f"{n}_temp_path /workspace/{n}; " for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
            + "server { listen 127.0.0.1:8001; root /workspace/www; location /old { return 301 /sub/; } } }")
    d.put(sb.path + "/files/content?path=/workspace/nginx.conf", conf.encode())
    d.post(sb.path + "/exec", {"command": ["/usr/sbin/nginx", "-c", "/workspace/nginx.conf", "-p", "/workspace"], "async": True})
    wait_for(lambda: d.get(port(sb, "/sub/f.txt", 8001)).status == 200, lambda: sb.sh("cat /workspace/logs/e")["stdout"])
    a = d.get(port(sb, "/sub/f.txt", 8001), headers={"Range": "bytes=1-3"})
    equal((a.status, a.body, a.headers["Content-Range"]), (206, b"ell", "bytes 1-3/6"))
    equal(d.get(port(sb, "/old", 8001)).headers["Location"], port(sb, "/sub/", 8001))
    sb.delete()


main()
