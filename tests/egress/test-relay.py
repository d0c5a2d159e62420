#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a connection is carried: who has its descriptors, how it ends, and what is left when processes die."""
import os
import re
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
from cases import OWN_KERNEL, Net, status  # noqa: E402
from masd import check, equal, main, test, wait_for  # noqa: E402

net = Net(w.World(), {"allow": [{"host": "allowed.test", "ports": [80, 443, 8000, 22]}]})
own_net = os.readlink("/proc/self/ns/net")

# Opens a tunnel, says so in a file, and then does what the rest of the code says.
TUNNEL = """import socket,sys,time
def tunnel(to):
    s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(60)
    s.sendall(b'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (to,to))
    head=b''
    while not head.endswith(b'\\r\\n\\r\\n'):
        more=s.recv(1)
        if not more: break
        head+=more
    return s,head.decode()
"""


def processes(name):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as f:
                if f.read().strip() == name and os.readlink(f"/proc/{pid}/ns/net") == own_net:
                    found.append(int(pid))
        except OSError:
            pass
    return found


def sockets(pid):
    inodes = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            inodes |= set(re.findall(r"^socket:\[(\d+)\]$", os.readlink(f"/proc/{pid}/fd/{fd}")))
    except OSError:
        pass
    return inodes


def start_tunnels(box, n=1, to="allowed.test:22"):
    """Tunnels that stay open until the sandbox ends or theirs do; returns when they are there."""
    code = TUNNEL + (f"all=[tunnel(b'{to}') for _ in range({n})]\n"
                     "open('/tmp/heads','w').write(''.join(h for s,h in all))\n"
                     "for s,h in all:\n"
                     "    try:\n"
                     "        while s.recv(65536): pass\n"
                     "    except OSError: pass\n"
                     "open('/tmp/ended','w').write('ended')\n")
    a = net.run("sh", "-c", "rm -f /tmp/heads /tmp/ended; /usr/bin/python3 -c \"$0\" >/dev/null 2>&1 & "
                "while ! [ -s /tmp/heads ]; do sleep 0.05; done; cat /tmp/heads", code, box=box)
    equal(a["stdout"].count("HTTP/1.1 200 "), n, a)


def tunnels_ended(box):
    return net.run("cat", "/tmp/ended", box=box)["stdout"] == "ended"


def holds(condition):
    """Also while a daemon that starts again refuses what it is asked."""
    try:
        return condition()
    except AssertionError:
        return False


@test("the gateway has the program's own socket, and nobody else has")
def test_the_gateway_has_the_socket():
    if OWN_KERNEL:
        return
    box = net.sandbox({"allow": [{"host": "allowed.test"}]})
    start_tunnels(box)
    out = net.run("cat", "/proc/net/tcp", box=box)["stdout"]
    # The end that was accepted on 127.0.0.1:3128 and is established.
    inodes = {line.split()[9] for line in out.splitlines()[1:] if line.split()[1] == "0100007F:0C38" and line.split()[3] == "01"}
    equal(len(inodes), 1, out)
    wait_for(lambda: all(inodes <= sockets(pid) for pid in processes("mas-gateway")), "the gateway has it")
    gateways = processes("mas-gateway")
    wait_for(lambda: not any(inodes & sockets(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid not in gateways),
             "and no other process")
    box.delete()


@test("a program that ends its own side still gets all of its answer")
def test_half_close():
    a = net.python(TUNNEL + "s,h=tunnel(b'allowed.test:8000')\ns.sendall(b'no end of a head'); s.shutdown(socket.SHUT_WR)\n"
                   "out=b''\n"
                   "while True:\n"
                   "    more=s.recv(65536)\n"
                   "    if not more: break\n"
                   "    out+=more\n"
                   "print(h.split()[1], out.endswith(b'hello\\n'))")
    equal(a["stdout"], "200 True\n", a)
    check(any(e["data"] == "no end of a head" for e in net.world.recorded()), "the server has what was sent")


@test("a reader that stops holds up its own connection and nobody's memory")
def test_a_reader_that_stops():
    box = net.sandbox({"allow": [{"host": "allowed.test"}]})
    code = TUNNEL + ("all=[]\n"
                     "for i in range(16):\n"
                     "    s,h=tunnel(b'allowed.test:80')\n"
                     "    s.sendall(b'GET /big HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: close\\r\\n\\r\\n'); all.append(s)\n"
                     "time.sleep(1.5)\n"
                     "open('/tmp/heads','w').write('waiting')\n"
                     "while not __import__('os').path.exists('/tmp/go'): time.sleep(0.05)\n"
                     "total=0\n"
                     "for s in all:\n"
                     "    while True:\n"
                     "        more=s.recv(1<<20)\n"
                     "        if not more: break\n"
                     "        total+=len(more)\n"
                     "open('/tmp/total','w').write(str(total))\n")

    def resident():
        with open(f"/proc/{processes('mas-gateway')[0]}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])
    before = resident()
    net.run("sh", "-c", "/usr/bin/python3 -c \"$0\" >/dev/null 2>&1 & while ! [ -s /tmp/heads ]; do sleep 0.05; done", code, box=box)
    grown = resident() - before
    check(grown < 8 << 10, f"the gateway has grown by {grown} KiB for 16 answers of 8 MiB that are not read")
    equal(status(net.get("http://allowed.test/")[0]), 200)
    out = net.run("sh", "-c", "touch /tmp/go; while ! [ -s /tmp/total ]; do sleep 0.05; done; cat /tmp/total", box=box)["stdout"]
    check(16 * (8 << 20) < int(out) < 16 * ((8 << 20) + 1000), out)
    box.delete()


@test("connections end with their sandbox, at both ends")
def test_connections_end_with_their_sandbox():
    gateway = processes("mas-gateway")[0]
    before = len(sockets(gateway))
    box = net.sandbox({"allow": [{"host": "allowed.test"}]})
    start_tunnels(box, 5)
    check(len(sockets(gateway)) >= before + 10, "the gateway has their sockets")
    box.delete()
    wait_for(lambda: len(sockets(gateway)) <= before, "the gateway has closed all of them")


@test("the death of the gateway or of the control plane ends open connections, and the next one works")
def test_deaths():
    for name in ("mas-gateway", "mas-control"):
        box = net.sandbox({"allow": [{"host": "allowed.test"}]})
        start_tunnels(box, 3)
        for pid in processes(name):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: holds(lambda: tunnels_ended(box)), f"the programs are told of the death of {name}", 60)
        wait_for(lambda: holds(lambda: status(net.get("http://allowed.test/", box=box)[0]) == 200), f"the network is there again after {name}", 60)
        equal(status(net.get("http://denied.test/", box=box)[0]), 403)
        box.delete()


main()
