#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No network namespace is given to a second sandbox (src/warden/local/network.h). Here sandboxes leave in theirs whatever
they can, and those that follow look at all that there is to be seen."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

FOLLOWERS = 4  # after each attempt: with so few blanks that is more than once around
BLANKS = 1

# Run inside, before and instead of anything else. A namespace's number may be given out again by the kernel, its cookie
# never is. To ask for it takes a socket, which is closed at once.
SEE = r"""
import ctypes, os, re, socket, struct, sys
def view():
    seen = {}
    def take(path):
        try:
            with open(path) as f:
                seen[path] = f.read()
        except OSError:
            pass
    for name in ("dev dev_snmp6/lo snmp snmp6 netstat sockstat6 ip6_flowlabel rt6_stats igmp igmp6 mcfilter mcfilter6 tcp "
                 "tcp6 udp udp6 udplite raw raw6 icmp icmp6 unix route ipv6_route fib_trie arp if_inet6 dev_mcast packet "
                 "ptype nf_conntrack").split():
        take("/proc/net/" + name)
    with open("/proc/net/sockstat") as f:
        seen["sockstat"] = re.sub(r" (orphan|alloc|mem) \d+", "", f.read())
    for top, dirs, files in os.walk("/proc/sys/net"):
        for name in files:
            take(os.path.join(top, name))
    return seen
def cookie():
    with socket.socket(socket.AF_UNIX) as s:
        return struct.unpack("Q", s.getsockopt(socket.SOL_SOCKET, 71, 8))[0]
"""
LOOK = SEE + r"""
import json
seen = view()
with socket.socket(socket.AF_UNIX) as s:
    try:
        s.connect("\0left")
        seen["abstract"] = "reached"
    except OSError as e:
        seen["abstract"] = str(e)
print(json.dumps({"cookie": cookie(), "view": seen}))
"""

d = shared_daemon("--blanks", str(BLANKS))


def look():
    r = d.post("/v1/run", {"command": ["/usr/bin/python3", "-c", LOOK]}).json
    equal(r["exit_code"], 0, r["stderr"])
    return json.loads(r["stdout"])


# What may differ between two looks at namespaces that were both just made: numbers of sockets and random secrets.
def plain(view):
    return {k: v for k, v in view.items() if "secret" not in k and "random" not in k}


first = look()


LEFT = {
    "a packet": 's = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b"x", ("127.0.0.1", 9))',
    "a packet of the other version": 's = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.sendto(b"x", ("::1", 9))',
    "a connection that was refused": 's = socket.socket(); s.connect_ex(("127.0.0.1", 9))',
    "a connection that is being closed":
        'l = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(l.getsockname()); a = l.accept()[0]\n'
        'c.close(); a.close()',
    "an address without a route": 's = socket.socket(type=socket.SOCK_DGRAM); s.connect_ex(("192.0.2.1", 9))',
    "one of the other version":
        's = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.connect_ex(("2001:db8::1", 9))',
    "the key of fast open": 's = socket.socket(); s.setsockopt(6, 23, 5)',
    "a flow label":
        's = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n'
        's.setsockopt(socket.IPPROTO_IPV6, 32, socket.inet_pton(socket.AF_INET6, "::1") +'
        ' struct.pack("!I", 0x12345) + struct.pack("BBHHHI", 0, 1, 1, 60, 60, 0))\n'
        'assert "12345" in open("/proc/net/ip6_flowlabel").read()',
}
HELD = {
    "a listener": 's = socket.create_server(("127.0.0.1", 4711))',
    "a listener for datagrams": 's = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", 4711))',
    "a name": 's = socket.socket(socket.AF_UNIX); s.bind("\\0left"); s.listen()',
    "a name in a message to itself":
        'l = socket.socket(socket.AF_UNIX); l.bind("\\0left"); l.listen()\n'
        'a, b = socket.socketpair()\n'
        'for s in (l, a, b):\n    socket.send_fds(a, [b"x"], [s.fileno()])\n'
        'l.close(); a.close(); b.close()',
    "a membership":
        's = socket.socket(type=socket.SOCK_DGRAM)\n'
        's.setsockopt(0, socket.IP_ADD_MEMBERSHIP, socket.inet_aton("224.0.0.77") + socket.inet_aton("127.0.0.1"))',
    "a connected socket that never sent":
        's = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.connect(("::1", 9))',
    "a netlink socket": 's = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0); s.bind((0, 1))',
}


def leave(what, code, wait):
    """The cookie of the network in which it was left. wait: with a process that still has it when the sandbox ends."""
    stay = "\nif os.fork() == 0:\n    os.setsid()\n    import time; time.sleep(1000)" if wait else ""
    print_cookie = "\nprint(cookie(), flush=True)\nos.dup2(os.open('/dev/null', 2), 1)\n"
    r = d.post("/v1/run", {"command": ["/usr/bin/python3", "-c", SEE + print_cookie + code + stay]}).json
    equal(r["exit_code"], 0, f"{what}: {r['stderr']}")
    return int(r["stdout"])


def followers():
    for _ in range(FOLLOWERS):
        seen = look()
        for name, text in plain(seen["view"]).items():
            equal(text, first["view"].get(name), name)
        yield seen["cookie"]


@test("P6 a network in which something is left is never seen again")
def test_p6_a_network_in_which_something_is_left_is_never_seen_again():
    for what, code in LEFT.items():
        used = leave(what, code, False)
        check(used not in list(followers()), f"{what}: the same network")


@test("P6 nothing of what a sandbox had open when it ended shows in a later one")
def test_p6_nothing_that_was_open_shows_in_a_later_one():
    for what, code in HELD.items():
        for wait in (False, True):
            leave(what, code, wait)
            list(followers())


@test("P7 nothing inside has a right over the network, whoever it is inside")
def test_p7_no_right_over_the_network():
    code = r"""
import fcntl, os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH", b"lo", 0))
    print("lo is down")
except OSError as e:
    print(e.errno)
print(os.stat("/proc/sys/net/ipv4/ip_forward").st_uid, os.stat("/proc/net/dev").st_uid)
"""
    r = d.post("/v1/run", {"command": ["/usr/bin/python3", "-c", code]}).json
    equal(r["stdout"].split(), ["1", "65534", "65534"], "EPERM, and files that belong to nobody inside")


main()
