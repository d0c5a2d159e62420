#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tunnels by SOCKS and CONNECT: where they may lead, and which name TLS may say inside. A tunnel whose TLS names another host
is connected before that is known; of what it sends not one byte arrives."""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
from cases import Net, allowed, denied, main, use  # noqa: E402
from masd import check, equal  # noqa: E402

INSIDE = ("meta.test", "private.test", "loopback.test", "self.test", "meta-six.test")
net = use(Net(w.World(), {"allow": [{"host": "allowed.test", "ports": [22, 80, 443]}, {"host": "*.wild.test"}, {"host": w.ALLOWED, "ports": [8000]}]
                          + [{"host": h} for h in INSIDE + ("127.0.0.1", "[::1]", "169.254.169.254")], "deny": [{"host": w.DENIED}, {"host": "bad.wild.test"}]}))
with open(net.world.ca) as f:
    net.put("/tmp/ca.pem", f.read())
CURL = ["curl", "-sS", "-m", "20", "--cacert", "/tmp/ca.pem"]
BY_SOCKS = ["-x", "socks5h://127.0.0.1:3128"]
# A SOCKS request as it is; prints the reply's code, or what else there was.
ASK = """import socket,sys
s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(25)
s.sendall(b'\\5\\1\\0'); s.recv(2)
s.sendall(bytes.fromhex(sys.argv[1])); out=s.recv(100)
print(out[1] if len(out)>1 and out[0]==5 else out)
"""


def by_name(host, port=80, command=1):
    return bytes([5, command, 0, 3, len(host)]) + host + port.to_bytes(2, "big")


def by_address(address, port=80):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return bytes([5, 1, 0, 4 if ":" in address else 1]) + socket.inet_pton(family, address) + port.to_bytes(2, "big")


# --- SOCKS

for title, url in (("a name", "http://allowed.test/"), ("a name by TLS", "https://allowed.test/"), ("a name below a wildcard", "http://one.wild.test/"),
                   ("an address", f"http://{w.ALLOWED}:8000/")):
    @allowed("socks", f"SOCKS reaches {title} that is allowed")
    def test_socks_reaches(n, url=url):
        a = n.run(*CURL, *BY_SOCKS, url)
        equal((a["exit_code"], a["stdout"]), (0, "hello\n"), a)


for title, request, lookups in (
        ("a denied name", by_name(b"denied.test"), ()), ("a denied name below a wildcard", by_name(b"bad.wild.test"), ()), ("another port", by_name(b"allowed.test", 8080), ()),
        ("a name with a denied address", by_name(b"denied-address.wild.test"), ["denied-address.wild.test"]),
        ("an address", by_address(w.ALLOWED), ()), ("a denied address", by_address(w.DENIED), ()), ("an IPv6 address", by_address(w.ALLOWED6), ()),
        ("an address as an IPv6 one", by_address(f"::ffff:{w.DENIED}"), ()), ("loopback", by_address("127.0.0.1", 3128), ()),
        ("IPv6 loopback", by_address("::1", 3128), ()), ("metadata", by_address("169.254.169.254"), ()), ("no address", by_address("0.0.0.0"), ()),
        ("an address in letters", by_name(b"2130706433"), ()), ("a name with a NUL", by_name(b"allowed.test\0.evil"), ()), ("an empty name", by_name(b""), ()),
        ("port zero", by_name(b"allowed.test", 0), ()), ("a connection from outside", by_name(b"allowed.test", 80, 2), ()),
        ("datagrams", by_name(b"allowed.test", 80, 3), ()), ("a command that there is not", by_name(b"allowed.test", 80, 9), ())):
    @denied("socks", f"SOCKS refuses {title}", lookups=lookups)
    def test_socks_refuses(n, request=request):
        out = n.python(ASK, request.hex())["stdout"].strip()
        check(out.isdigit() and int(out) != 0, out)

for name in INSIDE:
    @denied("socks", f"SOCKS refuses {name}, which leads inside", lookups=[name])
    def test_socks_refuses_inside(n, name=name):
        equal(n.python(ASK, by_name(name.encode(), n.daemon.port).hex())["stdout"], "2\n")


@denied("socks", "SOCKS 4 is not spoken")
def test_socks_4(n):
    out = n.ask(b"\4\1\0\x50" + bytes([11, 0, 0, 2]) + b"user\0")[0]
    check("\0\x5a" not in out[:2], out)


@denied("socks", "what follows a SOCKS request that was refused is not sent")
def test_what_follows_a_refused_request(n):
    n.ask(b"\5\1\0" + by_name(b"denied.test") + b"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n")


# --- the name inside TLS

def named(name, to="allowed.test", port=443):
    """TLS that says a name, in a tunnel to another host."""
    return [*CURL, "--connect-to", f"{name}:443:{to}:{port}", f"https://{name}/"]


@allowed("tls", "TLS with the tunnel's own name arrives")
def test_tls_arrives(n):
    a = n.run(*named("allowed.test"))
    equal((a["exit_code"], a["stdout"]), (0, "hello\n"), a)
    check(n.capture.seen() and n.capture.payload.get((w.ALLOWED, 443)), "bytes that arrived")


for title, more in (("a tunnel of HTTP", []), ("a tunnel of SOCKS", BY_SOCKS)):
    for name in ("denied.test", "www.allowed.test", "allowed.test.evil.test", "one.wild.test"):
        @denied("tls", f"in {title}, TLS that names {name} is cut off before a byte of it arrives", lookups=["allowed.test"], reaches=[f"tcp {w.ALLOWED} 443"])
        def test_another_name(n, name=name, more=more):
            a = n.run(*named(name), *more)
            check(a["exit_code"] == 35 and "hello" not in a["stdout"], a)
            n.capture.seen()
            equal(n.capture.payload.get((w.ALLOWED, 443), 0), 0, "bytes that arrived")


@denied("tls", "TLS at another port that is open is looked at, too", lookups=["allowed.test"], reaches=[f"tcp {w.ALLOWED} 80"])
def test_another_name_at_another_port(n):
    a = n.run(*named("denied.test", port=80))
    check(a["exit_code"] == 35, a)
    n.capture.seen()
    equal(n.capture.payload.get((w.ALLOWED, 80), 0), 0, "bytes that arrived")


main()
