#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ways out that are not the proxy, and requests that try to get more through it than one reader would see.

Sockets of every kind are tried inside the sandbox, and the same program outside of it as the control, where it does reach
the servers. Requests through the proxy are looked at where they arrive, byte by byte."""
import atexit
import os
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
from cases import Net, allowed, denied, main, status, use  # noqa: E402
from masd import check, equal  # noqa: E402

net = use(Net(w.World(), {"allow": [{"host": "allowed.test"}, {"host": "*.wild.test"}, {"host": "127.0.0.1"}, {"host": "localhost"}]}))

# --- sockets

PRELUDE = f"""import errno,os,socket,struct,sys
ALLOWED, ALLOWED6, DNS = {w.ALLOWED!r}, {w.ALLOWED6!r}, {w.DNS!r}
def sock(*a):
    s=socket.socket(*a); s.settimeout(10); return s
def ping(kind, family=socket.AF_INET, proto=1, first=8, to=(ALLOWED, 0)):
    body=bytes([first,0,0,0])+struct.pack('!HH',1,1)
    total=sum(struct.unpack('!%dH' % (len(body)//2), body)); total=(total>>16)+(total&0xffff)
    sock(family, kind, proto).sendto(body[:2]+struct.pack('!H',~total&0xffff)+body[4:], to)
"""
# What a command may not do in a sandbox, and root outside of it does. "tried" is printed before, so that nothing passes by failing early.
WAYS = {
    "TCP to an address": "sock(socket.AF_INET, socket.SOCK_STREAM).connect((ALLOWED, 80))",
    "TCP to an IPv6 address": "sock(socket.AF_INET6, socket.SOCK_STREAM).connect((ALLOWED6, 80))",
    "TCP by an address that maps IPv4": "sock(socket.AF_INET6, socket.SOCK_STREAM).connect(('::ffff:'+ALLOWED, 80))",
    "TCP that sends with its first packet": "sock(socket.AF_INET, socket.SOCK_STREAM).sendto(b'x', 0x20000000, (ALLOWED, 80))",
    "UDP": "sock(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (ALLOWED, 4000))",
    "UDP by IPv6": "sock(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', (ALLOWED6, 4000))",
    "a lookup at the resolver": "sock(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7allowed\\4test\\0\\0\\1\\0\\1', (DNS, 53))",
    "a lookup by TCP": "sock(socket.AF_INET, socket.SOCK_STREAM).connect((DNS, 53))",
    "a broadcast": "s=sock(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(1, 6, 1); s.sendto(b'x', ('11.0.0.255', 4000))",
    "a multicast": "s=sock(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x', ('224.0.0.251', 5353))",
    "a multicast by IPv6": "s=sock(socket.AF_INET6, socket.SOCK_DGRAM); s.sendto(b'x', ('ff02::fb', 5353, 0, socket.if_nametoindex(sys.argv[1])))",
    "an echo by a raw socket": "ping(socket.SOCK_RAW)",
    "an echo by IPv6": "ping(socket.SOCK_RAW, socket.AF_INET6, 58, 128, (ALLOWED6, 0))",
    "a packet of one's own making": "sock(socket.AF_INET, socket.SOCK_RAW, 255).sendto(bytes([69,0,0,20,0,0,0,0,64,200,0,0,0,0,0,0])+socket.inet_aton(ALLOWED), (ALLOWED, 0))",
    "a TCP packet without a connection": "sock(socket.AF_INET, socket.SOCK_RAW, 6).sendto(struct.pack('!HHIIBBHHH',4,80,0,0,80,16,9,0,0), (ALLOWED, 0))",
    "a frame of Ethernet": "s=sock(17, socket.SOCK_RAW, 0); s.bind((sys.argv[1], 0)); s.send(b'\\xff'*6+b'\\2\\0\\0\\0\\0\\1\\x88\\xb5'+b'x'*46)",
    "SCTP": "sock(socket.AF_INET, socket.SOCK_RAW, 132).sendto(b'x'*16, (ALLOWED, 0))",
    "UDP-Lite": "sock(socket.AF_INET, socket.SOCK_DGRAM, 136).sendto(b'x', (ALLOWED, 4000))",
}
for way, code in WAYS.items():
    code = PRELUDE + "print('tried', flush=True)\ntry:\n    " + code + "\n    print('done')\nexcept OSError as e: print(e.errno, e)\n"

    @allowed(way, f"control: outside of the sandbox {way} arrives")
    def test_arrives_outside(n, code=code):
        p = subprocess.run([sys.executable, "-c", code, "veth0"], stdout=subprocess.PIPE, text=True, timeout=60)
        check(p.stdout.startswith("tried"), p)

    @denied(way, f"{way} leaves no sandbox, and fails at once")
    def test_leaves_no_sandbox(n, code=code):
        a = n.python(code, "lo", timeout_ms=30000)
        check(a["status"] == "completed" and a["stdout"].startswith("tried\n"), a)


@denied("a lookup at the resolver", "a name is not known without the proxy, and at once")
def test_a_name_is_not_known(n):
    a = n.python("import socket\nfor name in ('allowed.test', 'denied.test'):\n    try: print(socket.getaddrinfo(name, 80))\n"
                 "    except OSError as e: print('no')\n")
    equal(a["stdout"], "no\nno\n", a)


@denied("TCP to an address", "neither routes nor interfaces can be added")
def test_no_route_can_be_added(n):
    a = n.run("sh", "-c", "for c in 'link add d0 type dummy' 'link add v0 type veth peer name v1' 'addr add 11.0.0.7/24 dev lo' 'route add default dev lo' "
              "'link add link lo name m0 type macvlan' 'tuntap add mode tap t0'; do ip $c >/dev/null 2>&1 && echo \"done: $c\"; done; true")
    # A kernel of its own lets its own loopback have addresses and routes, which lead nowhere.
    check("link add" not in a["stdout"] and "tuntap" not in a["stdout"], a)
    n.python(PRELUDE + "try: sock(socket.AF_INET, socket.SOCK_STREAM).connect((ALLOWED, 80)); print('done')\nexcept OSError: pass")


# --- sockets of the host

class Listener:
    """In the daemon's own namespace, as a service of the host would be."""

    def __init__(self, address):
        self.sock, self.count = socket.socket(socket.AF_UNIX), 0
        self.sock.bind(address)
        self.sock.listen(8)
        if not address.startswith("\0"):
            atexit.register(os.unlink, address)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            conn, _ = self.sock.accept()
            self.count += 1
            conn.sendall(b"reached")
            conn.close()


UNIX = "import socket,sys\ns=socket.socket(socket.AF_UNIX); s.settimeout(10)\nname=sys.argv[1].replace('@', chr(0))\ntry:\n    s.connect(name)\n" \
       "    print(s.recv(20).decode())\nexcept OSError as e: print('no')\n"
for kind, address in (("a unix socket of the host", "/tmp/mas-egress-%d.sock" % os.getpid()), ("an abstract socket of the host", "@mas-egress-%d" % os.getpid())):
    listener = Listener(address.replace("@", "\0"))

    @allowed(kind, f"control: outside of the sandbox {kind} is reached", wire=False)
    def test_is_reached_outside(n, address=address):
        p = subprocess.run([sys.executable, "-c", UNIX, address], stdout=subprocess.PIPE, text=True, timeout=60)
        equal(p.stdout, "reached\n")

    @denied(kind, f"{kind} is not reached")
    def test_is_not_reached(n, address=address, listener=listener):
        before = listener.count
        equal(n.python(UNIX, address)["stdout"], "no\n")
        equal(listener.count, before)


# --- what the proxy itself could be used for

@allowed("connect", "control: a tunnel arrives")
def test_a_tunnel_arrives(n):
    out = n.ask(b"CONNECT allowed.test:8000 HTTP/1.1\r\nHost: allowed.test:8000\r\n\r\nGET /tunnel HTTP/1.1\r\nHost: any\r\n\r\n")[0]
    check(out.startswith("HTTP/1.1 200 ") and out.endswith("hello\n"), out)


for title, authority in (("the proxy itself", "127.0.0.1:3128"), ("the daemon's own API", "127.0.0.1:{port}"), ("the daemon's API by a name", "localhost:{port}"),
                         ("the daemon's API by the wire's address", "11.0.0.1:{port}"), ("a socket of a path", "/run/mas-sandbox.sock"),
                         ("a socket of a URL", "unix:/run/mas-sandbox.sock")):
    @denied("connect", f"no tunnel to {title}")
    def test_no_tunnel(n, authority=authority):
        out = n.connect(authority.format(port=n.daemon.port))[0]
        check(status(out) in (400, 403), out)


@denied("connect", "what follows a tunnel that was refused is not read as a request")
def test_what_follows_a_refused_tunnel(n):
    out = n.ask(b"CONNECT denied.test:80 HTTP/1.1\r\nHost: denied.test:80\r\n\r\nGET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n")[0]
    equal((status(out), out.count("HTTP/1.1 ")), (403, 1), out)


@denied("connect", "the URL tools' gateway socket is no way for commands")
def test_the_gateway_socket(n):
    a = n.run("sh", "-c", "ls -a /.mas/run /.mas/gateway.sock 2>/dev/null; /usr/bin/python3 -c \"$0\" /.mas/gateway.sock; /usr/bin/python3 -c \"$0\" /.mas/run/gateway.sock", UNIX)
    check(a["stdout"].endswith("no\nno\n"), a)


# --- requests that two readers could read differently

GOOD = b"GET http://allowed.test:8000/ HTTP/1.1\r\n"
HOST = b"Host: allowed.test:8000\r\n"
POST = b"POST http://allowed.test:8000/ HTTP/1.1\r\n" + HOST


@allowed("smuggling", "control: a request arrives, once, without what was meant for the proxy")
def test_a_request_arrives_once(n):
    before = len(n.world.recorded())
    out = n.ask(POST + b"Content-Length: 3\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nProxy-Authorization: secret\r\nProxy-Connection: keep-alive\r\n"
                b"Upgrade: h2c\r\nX-Kept: 2\r\n\r\nabcGET http://denied.test/two HTTP/1.1\r\nHost: denied.test\r\n\r\n")[0]
    check(out.startswith("HTTP/1.1 200 ") and out.endswith("hello\n"), out)
    got = n.world.recorded()[before:]
    equal(len(got), 1, got)
    head, body = got[0]["data"].split("\r\n\r\n")
    lines = head.split("\r\n")
    equal((lines[0], sorted(lines[1:]), body), ("POST / HTTP/1.1", ["Connection: close", "Content-Length: 3", "Host: allowed.test:8000", "X-Kept: 2"], "abc"))


for title, request in (
        ("another Host", GOOD + b"Host: denied.test\r\n\r\n"),
        ("no Host", GOOD + b"\r\n"),
        ("two Hosts", GOOD + HOST + HOST + b"\r\n"),
        ("a Host at another port", GOOD + b"Host: allowed.test\r\n\r\n"),
        ("two lengths", POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\na"),
        ("two equal lengths in one", POST + b"Content-Length: 1, 1\r\n\r\na"),
        ("a length with a sign", POST + b"Content-Length: +1\r\n\r\na"),
        ("a length in hexadecimal", POST + b"Content-Length: 0x1\r\n\r\na"),
        ("a negative length", POST + b"Content-Length: -1\r\n\r\na"),
        ("a length beyond all numbers", POST + b"Content-Length: 99999999999999999999\r\n\r\na"),
        ("a length and chunks", POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        ("chunks that are none", POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        ("chunks by two codings", POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
        ("a blank before a colon", GOOD + HOST + b"Transfer-Encoding : chunked\r\n\r\n"),
        ("a line that goes on", GOOD + HOST + b"X: a\r\n b\r\n\r\n"),
        ("a line that begins with a blank", GOOD + b" " + HOST + b"\r\n"),
        ("one line that ends in LF", GOOD + HOST + b"X: a\nY: b\r\n\r\n"),
        ("a CR inside a line", GOOD + HOST + b"X: a\rY: b\r\n\r\n"),
        ("a NUL in a value", GOOD + HOST + b"X: a\0b\r\n\r\n"),
        ("a NUL in a name", GOOD + HOST + b"X\0: a\r\n\r\n"),
        ("a header without a name", GOOD + HOST + b": a\r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("HTTP/0.9", b"GET http://allowed.test:8000/\r\n\r\n"),
        ("two blanks", b"GET  http://allowed.test:8000/ HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("a tab for a blank", b"GET\thttp://allowed.test:8000/ HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("a user and a password", b"GET http://user:pw@allowed.test:8000/ HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("a host before an at", b"GET http://denied.test@allowed.test:8000/ HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("a backslash", b"GET http://allowed.test:8000\\@denied.test/ HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("a fragment", b"GET http://allowed.test:8000/#x HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("a path alone", b"GET / HTTP/1.1\r\n" + HOST + b"\r\n"),
        ("another scheme", b"GET ftp://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
        ("a file", b"GET file:///etc/passwd HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
        ("a tunnel without a port", b"CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n"),
        ("a tunnel to another Host", b"CONNECT allowed.test:8000 HTTP/1.1\r\nHost: denied.test:8000\r\n\r\n"),
        ("a tunnel with a body", b"CONNECT allowed.test:8000 HTTP/1.1\r\nHost: allowed.test:8000\r\nContent-Length: 5\r\n\r\nhello"),
        ("port zero", b"CONNECT allowed.test:0 HTTP/1.1\r\nHost: allowed.test:0\r\n\r\n"),
        ("port 65536", b"CONNECT allowed.test:65536 HTTP/1.1\r\nHost: allowed.test:65536\r\n\r\n"),
        ("a port with a zero before it", b"CONNECT allowed.test:08000 HTTP/1.1\r\nHost: allowed.test:8000\r\n\r\n"),
        ("101 headers", GOOD + HOST + b"X: y\r\n" * 101 + b"\r\n"),
        ("a header of 20000 bytes", GOOD + HOST + b"X: " + b"y" * 20000 + b"\r\n\r\n")):
    @denied("smuggling", f"a request with {title} is refused")
    def test_is_refused(n, request=request):
        out = n.ask(request)[0]
        check(status(out) in (400, 403, 411, 413, 431, 501, 505), out)
        check("\nHTTP/1.1 " not in out, out)


main()
