#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How a connection is carried: who has its descriptors, how it ends, and what is left when processes die."""
import contextlib
import json
import os
import re
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
import masd  # noqa: E402
from cases import OWN_KERNEL, Net, status  # noqa: E402
from masd import Skip, check, equal, main, test, wait_for  # noqa: E402

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
    return [p for p in masd.named(name) if masd.proc_link(p, "ns/net") == own_net]


def sockets(pid):
    return {m[1] for link in masd.descriptors_of(pid).values() if (m := re.fullmatch(r"socket:\[(\d+)\]", link))}


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
    wait_for(lambda: not any(inodes & sockets(pid) for pid in masd.all_pids() if pid not in gateways),
             "and no other process")
    box.delete()


@test("a program that ends its own side still gets all of its answer")
def test_half_close():
    if OWN_KERNEL:
        raise Skip("frames do not carry the end of one side; the other has some seconds")
    a = net.python(TUNNEL + "s,h=tunnel(b'allowed.test:8000')\ns.sendall(b'no end of a head'); s.shutdown(socket.SHUT_WR)\n"
                   "out=b''\n"
                   "while True:\n"
                   "    more=s.recv(65536)\n"
                   "    if not more: break\n"
                   "    out+=more\n"
                   "print(h.split()[1], out.endswith(b'hello\\n'))")
    equal(a["stdout"], "200 True\n", a)
    check(any(e["data"] == "no end of a head" for e in net.world.recorded()), "the server has what was sent")


@test("a program that resets its connection resets its server's, which has got all of what was sent")
def test_a_program_that_resets():
    ends = []

    def serve(listener):
        conn = listener.accept()[0]
        conn.settimeout(60)
        got = b""
        try:
            while more := conn.recv(65536):
                got += more
                conn.sendall(b"got it")
            ends.append((got, "ended"))
        except OSError as e:
            ends.append((got, type(e).__name__))

    box = net.sandbox({"allow": [{"host": "allowed.test", "ports": [8444]}]})
    with contextlib.closing(net.world.in_outer(lambda: socket.create_server((w.ALLOWED, 8444)))) as listener:
        for how, want in (("s.setsockopt(socket.SOL_SOCKET,socket.SO_LINGER,struct.pack('ii',1,0)); s.close()", "ConnectionResetError"),
                          ("s.shutdown(socket.SHUT_RDWR); s.close()", "ended")):
            server = threading.Thread(target=serve, args=(listener,), daemon=True)
            server.start()
            # Nothing of the answer is left to be read, so that only its own word says how it went.
            a = net.python(TUNNEL + "import struct\ns,h=tunnel(b'allowed.test:8444'); s.sendall(b'sent'); print(s.recv(6))\n" + how, box=box)
            equal(a["stdout"], "b'got it'\n", a)
            server.join(60)
            equal(ends, [(b"sent", want)])
            ends.clear()
    box.delete()


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
        return masd.resident_kib(processes("mas-gateway")[0])
    before = resident()
    net.run("sh", "-c", "/usr/bin/python3 -c \"$0\" >/dev/null 2>&1 & while ! [ -s /tmp/heads ]; do sleep 0.05; done", code, box=box)
    grown = resident() - before
    check(grown < 8 << 10, f"the gateway has grown by {grown} KiB for 16 answers of 8 MiB that are not read")
    equal(status(net.get("http://allowed.test/")[0]), 200)
    out = net.run("sh", "-c", "touch /tmp/go; while ! [ -s /tmp/total ]; do sleep 0.05; done; cat /tmp/total", box=box)["stdout"]
    check(16 * (8 << 20) < int(out) < 16 * ((8 << 20) + 1000), out)
    box.delete()


# One connection to the proxy by SOCKS: the methods, what else is sent at once, and then a request; prints what came as hex.
SOCKS = """import socket,sys
s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(25)
parts=[bytes.fromhex(a) for a in sys.argv[1:]]
out=[]
for part in parts:
    s.sendall(part)
    try: out.append(s.recv(65536).hex())
    except OSError as e: out.append(type(e).__name__)
print(' '.join(out))
"""


def socks(*parts):
    return net.python(SOCKS, *(p.hex() for p in parts))["stdout"].split()


def by_name(host, port, command=1, version=5):
    return bytes([version, command, 0, 3, len(host)]) + host + port.to_bytes(2, "big")


@test("SOCKS: names and addresses that are allowed are reached on the same port")
def test_socks_allowed():
    request = b"GET / HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n"
    out = socks(b"\5\1\0", by_name(b"ALLOWED.test.", 80), request)
    equal(out[:2], ["0500", "05000001" + "00" * 6], out)
    check(bytes.fromhex(out[2]).startswith(b"HTTP/1.1 200"), out)
    out = socks(b"\5\2\0\2" + by_name(b"allowed.test", 80) + request)  # all at once
    check(out[0].startswith("0500"), out)
    for url in ("http://allowed.test/", "https://allowed.test/"):
        net.put("/tmp/ca.pem", open(net.world.ca).read())
        a = net.run("curl", "-sS", "-m", "20", "--cacert", "/tmp/ca.pem", "-x", "socks5h://127.0.0.1:3128", url)
        equal((a["exit_code"], a["stdout"]), (0, "hello\n"), (url, a))


@test("SOCKS: what is not allowed or not spoken gets the reply that says so")
def test_socks_refused():
    for part, reply in ((by_name(b"denied.test", 80), 2), (by_name(b"allowed.test", 81), 2), (by_name(b"127.1", 80), 2),
                        (b"\5\1\0\1" + bytes([127, 0, 0, 1, 0, 80]), 2), (b"\5\1\0\4" + bytes(15) + b"\1\0\120", 2),
                        (by_name(b"allowed.test", 80, command=2), 7), (by_name(b"allowed.test", 80, command=3), 7),
                        (b"\5\1\0\2" + bytes(6), 8), (by_name(b"a\0b", 80), 1), (by_name(b"allowed.test", 0), 1)):
        out = socks(b"\5\1\0", part)
        equal(out, ["0500", f"05{reply:02x}0001" + "00" * 6], part)
    equal(socks(b"\5\1\2"), ["05ff"])
    a = net.run("curl", "-sS", "-m", "20", "-x", "socks5h://127.0.0.1:3128", "http://denied.test/")
    check(a["exit_code"] == 97 and "denied.test" in a["stderr"], a)


@test("a name inside TLS that is not the tunnel's is cut off before it leaves, with a reason and a record")
def test_the_name_inside_tls():
    net.put("/tmp/ca.pem", open(net.world.ca).read())
    curl = ["curl", "-sS", "-m", "20", "--cacert", "/tmp/ca.pem"]
    before = len(net.world.requests())
    a = net.run(*curl, "--connect-to", "other.test:443:allowed.test:443", "https://other.test/")
    check(a["exit_code"] == 35 and "unrecognized name" in a["stderr"], a)
    a = net.run(*curl, "-x", "socks5h://127.0.0.1:3128", "--connect-to", "other.test:443:allowed.test:443", "https://other.test/")
    check(a["exit_code"] == 35 and "unrecognized name" in a["stderr"], a)
    equal(len(net.world.requests()), before, "requests that came")
    for url in ("https://allowed.test/", "https://ALLOWED.test/"):
        equal(net.run(*curl, url)["stdout"], "hello\n", url)
    equal(net.world.requests()[-1]["sni"].lower(), "allowed.test")
    box = net.sandbox({"allow": [{"host": w.ALLOWED, "ports": [443]}], "deny": [{"host": "bad.wild.test"}]})
    net.put("/tmp/ca.pem", open(net.world.ca).read(), box=box)
    for host, want in (("one.wild.test", 0), ("bad.wild.test", 35)):
        a = net.run(*curl, "--connect-to", f"{host}:443:{w.ALLOWED}:443", f"https://{host}/", box=box)
        equal(a["exit_code"], want, (host, a))
    box.delete()
    wait_for(lambda: "ERR name_mismatch allowed.test port 443" in net.daemon.get("/v1/audit?kind=network&limit=1000").body.decode(), "it is recorded")


@test("a TLS client that comes in pieces is compared like any other, and what is no TLS passes")
def test_the_name_in_pieces():
    code = TUNNEL + ("import ssl\n"
                     "def hello(name):\n"
                     "    o=ssl.MemoryBIO(); c=ssl.create_default_context(); c.check_hostname=False\n"
                     "    t=c.wrap_bio(ssl.MemoryBIO(),o,server_hostname=name)\n"
                     "    try: t.do_handshake()\n"
                     "    except ssl.SSLError: pass\n"
                     "    return o.read()\n"
                     "def records(data,size):\n"
                     "    body=data[5:]\n"
                     "    return b''.join(data[:3]+len(body[i:i+size]).to_bytes(2,'big')+body[i:i+size] for i in range(0,len(body),size))\n"
                     "for name in ('allowed.test','other.test'):\n"
                     "    for data in (hello(name), records(hello(name),10)):\n"
                     "        s,h=tunnel(b'allowed.test:443')\n"
                     "        for i in range(0,len(data),64):\n"
                     "            try: s.sendall(data[i:i+64])\n"
                     "            except OSError: break\n"
                     "            time.sleep(0.001)\n"
                     "        try: print(name, s.recv(3).hex())\n"
                     "        except OSError: print(name, 'reset')\n"
                     "s,h=tunnel(b'allowed.test:22'); print(s.recv(4).decode())\n")
    lines = net.python(code)["stdout"].split("\n")
    equal(lines, ["allowed.test 160303"] * 2 + ["other.test 150301"] * 2 + ["SSH-", ""])


@test("ssh, and git over ssh, find the proxy by themselves, and say why where it refuses")
def test_ssh_by_default():
    for name, path in (("ssh-user", "/tmp/ssh-user"), ("ssh-host.pub", "/tmp/host-key")):
        with open(f"{net.world.dir}/{name}") as f:
            net.put(path, f.read())
    options = ["-i", "/tmp/ssh-user", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    a = net.run("ssh", *options, "root@allowed.test")
    equal((a["exit_code"], a["stdout"]), (0, "hello by ssh\n"), a)
    a = net.run("ssh", *options, "root@denied.test")
    check(a["exit_code"] == 255 and "host_not_allowed: denied.test port 22 is not an allowed host" in a["stderr"], a)
    a = net.run("sh", "-c", 'GIT_SSH_COMMAND="$GIT_SSH_COMMAND $0" git ls-remote ssh://root@allowed.test/x.git', " ".join(options))
    check("bad line length character: hell" in a["stderr"], a)  # of "hello by ssh"
    a = net.run("git", "ls-remote", "ssh://root@denied.test/x.git")
    check("host_not_allowed" in a["stderr"], a)
    out = net.python("import subprocess,sys;p=subprocess.run(['/.mas/mas-toolrunner','--through-proxy','allowed.test','80'],"
                     "input=b'GET / HTTP/1.0\\r\\nHost: allowed.test\\r\\n\\r\\n',stdout=-1);sys.stdout.write(p.stdout.decode()[-6:])")["stdout"]
    equal(out, "hello\n")
    offline = net.daemon.sandbox()
    a = offline.exec("/.mas/mas-toolrunner", "--through-proxy", "allowed.test", "80")
    check(a["exit_code"] == 1 and "this sandbox has no network" in a["stderr"], a)
    offline.delete()


@test("connections end with their sandbox, at both ends")
def test_connections_end_with_their_sandbox():
    gateway = processes("mas-gateway")[0]
    before = len(sockets(gateway))
    box = net.sandbox({"allow": [{"host": "allowed.test"}]})
    start_tunnels(box, 5)
    check(len(sockets(gateway)) >= before + 10, "the gateway has their sockets")
    box.delete()
    wait_for(lambda: len(sockets(gateway)) <= before, "the gateway has closed all of them")


FLOOD_SIZE, ROUNDS = 1500, 7 if os.environ.get("MAS_EGRESS_FULL") else 1

# So many connections as fast as they can be made, all kept for a moment; prints how each ended: 200, 503, or an end.
FLOOD = """import collections,json,resource,select,socket,sys
n,keep=int(sys.argv[1]),200
resource.setrlimit(resource.RLIMIT_NOFILE,(min(1024,resource.getrlimit(resource.RLIMIT_NOFILE)[1]),)*2)
ends=collections.Counter(); held=collections.deque()
def end(s):
    s.settimeout(30)
    try: got=s.recv(200)
    except socket.timeout: got=b'x hang'
    except OSError: got=b'x end'
    ends[(got.split(b' ')+[b'end'])[1 if got else -1].decode()]+=1
    s.close()
for i in range(n):
    s=socket.socket(); s.settimeout(30)
    try:
        s.connect(('127.0.0.1',3128)); s.sendall(b'CONNECT allowed.test:80 HTTP/1.1\\r\\nHost: allowed.test:80\\r\\n\\r\\n')
    except OSError as e:
        ends['end']+=1; s.close(); continue
    held.append(s)
    if len(held)>keep: end(held.popleft())
while held: end(held.popleft())
print(json.dumps(ends))
"""


@test("a flood of connections gets errors, its limit holds, and others are served meanwhile")
def test_a_flood():
    flooder = net.sandbox({"allow": [{"host": "allowed.test"}]})
    gateway = processes("mas-gateway")

    def resident():
        return masd.resident_kib(gateway[0])
    before, ends = resident(), {}

    def run_flood():
        for _ in range(ROUNDS):
            out = net.python(FLOOD, str(FLOOD_SIZE), box=flooder, timeout_ms=55000)["stdout"]
            for how, n in json.loads(out).items():
                ends[how] = ends.get(how, 0) + n
    flood = threading.Thread(target=run_flood)
    flood.start()
    served = 0
    while flood.is_alive() or not served:
        equal([status(a) for a in net.get("http://allowed.test/", "http://denied.test/")], [200, 403])
        served += 1
    flood.join()
    check(ends.get("200", 0) >= 32 and ends.get("hang", 0) == 0 and sum(ends.values()) == ROUNDS * FLOOD_SIZE, ends)
    equal(processes("mas-gateway"), gateway, "it is the same process")
    check(resident() - before < 16 << 10, f"the gateway has grown by {resident() - before} KiB")
    wait_for(lambda: status(net.get("http://allowed.test/", box=flooder)[0]) == 200, "the flooder itself is served again")
    flooder.delete()


@test("a gateway that stands still for a while loses nothing that it was asked")
def test_a_slow_gateway():
    pid = processes("mas-gateway")[0]
    os.kill(pid, signal.SIGSTOP)
    answers = []
    asks = threading.Thread(target=lambda: answers.extend(net.get("http://allowed.test/", "http://denied.test/")))
    asks.start()
    time.sleep(0.5)
    os.kill(pid, signal.SIGCONT)
    asks.join()
    equal([status(a) for a in answers], [200, 403])


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
