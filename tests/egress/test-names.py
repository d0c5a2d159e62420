#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network by name: every way to write a name or an address, what names lead to, and what a resolver may answer.

What is allowed arrives at real servers; of what is denied not one packet leaves, not even a lookup, nor does it reach the
host's own loopback. Closed addresses have servers, too, and are reached where the operator opens them.
"""
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
from cases import Net, allowed, denied, main, status, use  # noqa: E402
from masd import Daemon, Sandbox, check, equal, test  # noqa: E402

TRICKS = {
    "rebind": [[w.ALLOWED], ["127.0.0.1"], [w.DENIED]],
    "late": [[w.ALLOWED], [w.ALLOWED], ["10.9.9.9"]],
    "mixed": [["127.0.0.1", w.ALLOWED]],
    "split": [[w.ALLOWED, "::1"]],
    "cname": ["cname allowed.test"],
    "cname-denied": ["cname denied.test"],
    "cname-inside": ["cname loopback.test"],
    "cname-meta": ["cname meta.test"],
    "silent": ["silent"],
    "empty": [[]],
    "many": [["127.0.0.%d" % n for n in range(1, 30)]],
}
ALLOW = [{"host": "allowed.test", "ports": [80, 443, 8000]}, {"host": "*.wild.test"}, {"host": "xn--bcher-kva.test", "ports": [80]},
         {"host": w.ALLOWED, "ports": [8080]}, {"host": f"[{w.ALLOWED6}]", "ports": [8080]}, {"host": "far.test"}, {"host": "missing.test"}, {"host": "bare"},
         {"host": "*.tricks.test"}, {"host": "both.test"}, {"host": "six.test"}, {"host": "127.0.0.1"}, {"host": "[::1]"}, {"host": "localhost"},
         {"host": "0.0.0.0"}, {"host": "169.254.169.254"}, {"host": "10.9.9.9"}, {"host": "11.0.0.1"}]
# Names that lead where no list of a sandbox may: allowed by name, closed by address. With the word that says why.
INSIDE = {"loopback.test": "loopback", "loopback-six.test": "loopback", "mapped.test": "loopback", "meta.test": "metadata",
          "meta-six.test": "metadata", "azure.test": "metadata", "private.test": "private", "private-six.test": "private",
          "cgnat.test": "private", "link.test": "link-local", "zero.test": "forbidden", "self.test": "own", "second.test": "own"}
ALLOW += [{"host": name} for name in INSIDE]
DENY = [{"host": "bad.wild.test"}, {"host": w.DENIED}, {"host": f"[{w.DENIED6}]"}, {"host": "one.wild.test", "ports": [8080]}]
# The host searches: each name would first be one below elsewhere.test, which has them all. No lookup of such a name may be seen.
SEARCHED = {f"{name}.elsewhere.test": [w.OTHER] for name in ("allowed.test", "one.wild.test", "missing.test", "empty.tricks.test", "bare")}
world = w.World(names={"denied-six.wild.test": [w.DENIED6], **SEARCHED}, tricks={f"{name}.tricks.test": answers for name, answers in TRICKS.items()},
                resolver="search elsewhere.test\noptions ndots:5\n")
net = use(Net(world, {"allow": ALLOW, "deny": DENY}, config='disallowed_hosts: ["far.test"]\n'))


def row(decorate, probe, title, act, **more):
    """One case of a table."""
    @decorate(probe, title, **more)
    def run_row(n):
        act(n)


# --- what is allowed

for title, url in (("an allowed name", "http://allowed.test/"), ("capital letters", "http://ALLOWED.Test/"), ("a dot at the end", "http://allowed.test./"),
                   ("its port, and a query", "http://allowed.test:80/?b=c"), ("a name below a wildcard", "http://one.wild.test/"),
                   ("a name deep below a wildcard", "http://deep.sub.wild.test/"), ("a name in its ASCII form", "http://xn--bcher-kva.test/"),
                   ("an address that is allowed with its port", f"http://{w.ALLOWED}:8080/"), ("a name with two kinds of address", "http://both.test/"),
                   ("a name with an IPv6 address only", "http://six.test/"), ("an IPv6 address", f"http://[{w.ALLOWED6}]:8080/"),
                   ("an IPv6 address at length", "http://[2600:0011:0:0:0:0:0:2]:8080/"), ("a name that is another's", "http://cname.tricks.test/")):
    def act(n, url=url):
        out = n.get(url)[0]
        check(out.startswith("HTTP/1.1 200 ") and out.endswith("hello\n"), out)
    row(allowed, "http", f"{title} answers", act)


@allowed("connect", "a tunnel to an allowed name carries what is sent")
def test_a_tunnel_carries(n):
    out = n.ask(b"CONNECT allowed.test:8000 HTTP/1.1\r\nHost: allowed.test:8000\r\n\r\nGET /tunnel HTTP/1.1\r\nHost: any\r\n\r\n")[0]
    check(out.startswith("HTTP/1.1 200 ") and out.endswith("hello\n"), out)
    check(any(r["data"].startswith("GET /tunnel ") for r in n.world.recorded()), "what the server got")


@test("control: a packet that leaves is seen on either wire, whatever it is")
def test_a_packet_that_leaves_is_seen():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (w.DENIED, 5353))
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", ("fc00::7", 123))
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b"\x08\0\xf7\xff\0\0\0\0", (w.OTHER, 0))
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 5353))
    net.get("http://allowed.test/")
    seen = net.capture.seen()
    for line in (f"udp {w.DENIED} 5353", "udp fc00::7 123", f"icmp {w.OTHER}", "udp 127.0.0.1 5353", "dns allowed.test", f"tcp {w.ALLOWED} 80"):
        check(line in seen, (line, seen))
    try:
        net.check_silence(["dns allowed.test"])
    except AssertionError as e:
        check("came over the wire" in str(e), e)
    else:
        check(False, "a case of silence that was none has passed")


# --- what is denied by its name

for title, url, why, lookups in (
        ("another name", "http://denied.test/", "not an allowed host", ()),
        ("the name above a wildcard", "http://wild.test/", "not an allowed host", ()),
        ("a name below an allowed one", "http://www.allowed.test/", "not an allowed host", ()),
        ("another port", "http://allowed.test:8080/", "not an allowed host", ()),
        ("a port of mail", "http://allowed.test:25/", "not an allowed host", ()),
        ("a denied name below a wildcard", "http://bad.wild.test/", "is denied in this sandbox", ()),
        ("a denied name in capitals and with a dot", "http://BAD.Wild.test./", "is denied in this sandbox", ()),
        ("a denied port of an allowed name", "http://one.wild.test:8080/", "is denied in this sandbox", ()),
        ("a name that ends in a wildcard's letters", "http://xwild.test/", "not an allowed host", ()),
        ("a name that begins with an allowed one", "http://allowed.test.evil.test/", "not an allowed host", ()),
        ("a name in another ASCII form", "http://xn--bcher-kv.test/", "not an allowed host", ()),
        ("a host of the operator's list", "http://far.test/", "of this daemon", ()),
        ("the address of an allowed name", f"http://{w.ALLOWED}/", "not an allowed host", ()),
        ("a denied address", f"http://{w.DENIED}/", "is denied in this sandbox", ()),
        ("a denied IPv6 address", f"http://[{w.DENIED6}]/", "is denied in this sandbox", ()),
        ("a denied IPv6 address at length", "http://[2600:11:0000::0003]/", "is denied in this sandbox", ()),
        ("an IPv6 address at another port", f"http://[{w.ALLOWED6}]:80/", "not an allowed host", ()),
        ("an allowed name with a denied address", "http://denied-address.wild.test/", "is denied", ["denied-address.wild.test"]),
        ("an allowed name with a denied IPv6 address", "http://denied-six.wild.test/", "is denied", ["denied-six.wild.test"]),
        ("a name that carries data out", "http://c2VjcmV0.denied.test/", "not an allowed host", ())):
    def act(n, url=url, why=why):
        out = n.get(url)[0]
        equal((status(out), why in out), (403, True), out)
    row(denied, "http", f"{title} is refused", act, lookups=lookups)

for title, authority in (("another name", "denied.test:443"), ("a denied name below a wildcard", "bad.wild.test:443"),
                         ("a port that is not allowed", "allowed.test:22"), ("a denied address", f"{w.DENIED}:443"),
                         ("the resolver", f"{w.DNS}:53"), ("an IPv4 address as an IPv6 one", f"[::ffff:{w.DENIED}]:443"),
                         ("a NAT64 address of a denied one", "[64:ff9b::b00:3]:443"), ("a 6to4 address of a denied one", "[2002:b00:3::1]:443")):
    def act(n, authority=authority):
        equal(status(n.connect(authority)[0]), 403)
    row(denied, "connect", f"a tunnel to {title} is refused", act)


# --- other spellings

for host in ("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "017700000001", "127.0.0.01", "184549379", "0xb000003", "013.0.0.3", "11.3"):
    def act(n, host=host):
        out = n.connect(f"{host}:80")[0]
        check(status(out) in (400, 403), out)
    row(denied, "connect", f"{host} is no name and no address", act)

for host in ("127.0.0.1", "[::1]", "localhost", "LOCALHOST.", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]",
             "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::]", "0.0.0.0", "169.254.169.254", "[::ffff:169.254.169.254]", "10.9.9.9",
             "11.0.0.1", "255.255.255.255", "224.0.0.1", "[ff02::1]", "[fe80::1]", "[fd00:ec2::254]"):
    def act(n, host=host):
        out = n.connect(f"{host}:{n.daemon.port}")[0]
        equal(status(out), 403, out)
    row(denied, "connect", f"{host} is closed, also where the list has it", act)

for title, host in (("a byte over 0x7f", b"b\xfccher.test"), ("an escaped NUL", b"allowed.test%00.evil"), ("a NUL", b"allowed.test\0.evil"),
                    ("a user before an at", b"allowed.test@denied.test"), ("a zone", b"[::1%25lo]"), ("dots alone", b".."), ("nothing", b""),
                    ("an empty label", b"allowed..test"), ("a blank", b"allowed.test denied.test"), ("a label of 64 letters", b"a" * 64 + b".wild.test"),
                    ("300 letters", b"a." * 150 + b"wild.test"), ("an underline and a slash", b"_/allowed.test"), ("half a bracket", b"[::1")):
    def act(n, host=host):
        out = n.ask(b"CONNECT %s:80 HTTP/1.1\r\nHost: x\r\n\r\n" % host)[0]
        check(status(out) in (400, 403, 505), out)
    row(denied, "connect", f"a host with {title} is none", act)


# --- names that lead inside

for name, why in INSIDE.items():
    def act(n, name=name, why=why):
        for out in n.get(f"http://{name}:{n.daemon.port}/healthz", f"http://{name}/") + n.connect(f"{name}:{n.daemon.port}"):
            equal((status(out), why in out), (403, True), out)
    row(denied, "inside", f"{name} is closed, although it is allowed", act, lookups=[name])


@allowed("inside", "what leads inside is reached where the operator opened it")
def test_what_leads_inside_is_reached_where_opened(n):
    with Daemon(config='gateway_allow_private: ["10.9.9.9", "169.254.169.254", "127.0.0.1", "fc00::7", "11.0.0.1"]\n') as d:
        names = ("private.test", "meta.test", "private-six.test")
        box = Sandbox(d, d.post("/v1/sandboxes", {"network": {"allow": [{"host": h} for h in names + ("127.0.0.1", "self.test")]}}).json)
        for out in n.get(*(f"http://{name}/" for name in names), box=box):
            equal((status(out), out[-6:]), (200, "hello\n"), out)
        out = n.get(f"http://127.0.0.1:{n.daemon.port}/healthz", box=box)[0]
        equal((status(out), out.strip()[-2:]), (200, "ok"), out)
        equal(status(n.get(f"http://self.test:{n.daemon.port}/healthz", box=box)[0]), 502, "nothing listens there")
    seen = n.capture.seen()
    for line in ("tcp 10.9.9.9 80", "tcp 169.254.169.254 80", "tcp fc00::7 80", f"tcp 127.0.0.1 {n.daemon.port}", f"tcp 11.0.0.1 {n.daemon.port}"):
        check(line in seen, (line, seen))


# --- what a resolver answers

@allowed("http", "a name that changes is judged by each connection's own lookup")
def test_a_name_that_changes_is_judged_anew(n):
    equal([status(out) for out in n.get(*["http://rebind.tricks.test/"] * 4)], [200, 403, 403, 403])
    equal([line for line in n.capture.seen() if line.startswith("tcp")], [f"tcp {w.ALLOWED} 80"])


@allowed("http", "a name that changes later is judged later")
def test_a_name_that_changes_later_is_judged_later(n):
    equal([status(out) for out in n.get(*["http://late.tricks.test/"] * 3)], [200, 200, 403])
    equal([line for line in n.capture.seen() if line.startswith("tcp")], [f"tcp {w.ALLOWED} 80"] * 2)


for name in ("mixed", "split"):
    def act(n, name=name):
        n.get(f"http://{name}.tricks.test/")
    row(denied, "http", f"of the addresses of {name}.tricks.test only an open one is connected to", act, lookups=[f"{name}.tricks.test"],
        reaches=[f"tcp {w.ALLOWED} 80"])

for name in ("cname-denied", "cname-inside", "cname-meta", "many"):
    def act(n, name=name):
        equal(status(n.get(f"http://{name}.tricks.test/")[0]), 403)
    row(denied, "http", f"{name}.tricks.test leads to a closed address and is refused", act, lookups=[f"{name}.tricks.test"])

# After a server that was silent, the gateway leaves names to libc for a while: both ways ask for the same.
for title, name in (("is not there", "missing.test"), ("has no dot", "bare"), ("has no address", "empty.tricks.test"),
                    ("has a resolver that does not answer", "silent.tricks.test"), ("is not there for libc either", "missing.test"),
                    ("has no dot for libc either", "bare"), ("has no address for libc either", "empty.tricks.test")):
    def act(n, name=name):
        out = n.get(f"http://{name}/")[0]
        check(status(out) in (502, 504), out)
    row(denied, "http", f"a name that {title} is an error", act, lookups=[name])


@allowed("http", "an allowed name leads where it did, also by libc")
def test_an_allowed_name_leads_where_it_did(n):
    equal(status(n.get("http://allowed.test/")[0]), 200)
    seen = n.capture.seen()
    equal([line for line in seen if line.startswith("tcp")], [f"tcp {w.ALLOWED} 80"])
    check("dns allowed.test" in seen and not any("elsewhere.test" in line for line in seen), seen)


@allowed("http", "a port at which nothing listens is an error")
def test_a_port_at_which_nothing_listens(n):
    equal(status(n.connect("six.test:81")[0]), 502)


# --- redirects

CURL = ["curl", "-sSL", "-m", "20", "--max-redirs", "5"]


@allowed("redirect", "a redirect to an allowed host is followed")
def test_a_redirect_is_followed(n):
    a = n.run(*CURL, "http://one.wild.test/moved")
    equal((a["exit_code"], a["stdout"]), (0, "hello\n"), a)


for where in ("/to-denied", "/to-denied-tls", "/to-loopback", "/to-metadata", "/to-port", "/to-self", "/to-file"):
    def act(n, where=where):
        a = n.run("env", "-u", "NO_PROXY", "-u", "no_proxy", *CURL, f"http://allowed.test{where}")
        check("hello" not in a["stdout"] and "root:" not in a["stdout"], a)
        check(a["exit_code"] != 0 or "host_not_allowed" in a["stdout"] or "closed" in a["stdout"] or "403" in a["stdout"] or "address" in a["stdout"], a)
    row(denied, "redirect", f"a redirect {where[1:].replace('-', ' ')} goes nowhere", act, lookups=["allowed.test", "self.test"],
        reaches=[f"tcp {w.ALLOWED} 80"])

main()
