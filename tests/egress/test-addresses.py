#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network by address: what is allowed arrives, of everything else not one packet leaves, and nothing stays behind.

Commands in the sandbox try what they may try. What no command may (raw sockets, other sources) is tried by root in the
sandbox's network, as whoever broke out of everything but that would: the walls are outside of it. Of a virtual machine that
is who broke out of the guest: frames are written to the emulator's own end of the link.
"""
import ipaddress
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import world as w  # noqa: E402
import masd  # noqa: E402
from cases import OWN_KERNEL, RUNTIME, Net, allowed, denied, main, make_daemon, use  # noqa: E402
from guarded import Guarded  # noqa: E402
from masd import Daemon, check, equal, test, wait_for  # noqa: E402

CONFIG = """network_cidrs: ["0.0.0.0/0", "::/0"]
disallowed_hosts: ["11.0.0.54"]
gateway_allow_private: ["192.168.77.0/24", "169.254.0.0/16"]
network_connections: 40
network_connects_per_second: 1000
"""
OTHER_POOLS = "network_pool: 10.214.0.0/16\nnetwork_pool6: fd6d:6173:6e65:7401::/64\n"
NARROW = ["11.0.0.2", "11.0.0.4:80", "2600:11::2", "11.0.0.53:53"]
WIDE = ["0.0.0.0/0", "::/0"]


def forward(four, six=1):
    for path, value in (("ipv4/ip_forward", four), ("ipv6/conf/all/forwarding", six)):
        with open(f"/proc/sys/net/{path}", "w") as f:
            f.write(str(value))


world = w.World()
forward(1)
if RUNTIME not in ("local", "crun", "runc", "gvisor", "podman", "docker", "microvm"):
    d = Daemon(config=CONFIG).start()

    @test("a runtime without networks of ours refuses by name")
    def test_other_runtimes_refuse():
        a = d.post("/v1/sandboxes", {"network": {"cidrs": NARROW}})
        check(a.status in (400, 501) and "by address" in a.json["error"]["message"], a)
    masd.main()
    sys.exit(0)

if os.environ.get("MAS_EGRESS_USER"):
    d = make_daemon(config=CONFIG).start()

    @test("an ordinary user's daemon refuses by name")
    def test_an_ordinary_user_refuses():
        a = d.post("/v1/sandboxes", {"network": {"cidrs": NARROW}})
        check(a.status == 422 and "network cannot be enforced" in a.json["error"]["message"], a)
    masd.main()
    sys.exit(0)

net = use(Net(world, {"cidrs": NARROW}, config=CONFIG))
wide = net.sandbox({"cidrs": WIDE, "deny": [{"host": "11.0.0.3"}]})

# Tries every "how address port" of its arguments, and says what came of each.
TRY = """import json,socket,sys
out={}
for a in sys.argv[1:]:
    how,to,port=a.split()
    family=socket.AF_INET6 if ':' in to else socket.AF_INET
    try:
        s=socket.socket(family, socket.SOCK_STREAM if how=='tcp' else socket.SOCK_DGRAM); s.settimeout(4)
        s.connect((to,int(port)))
        if how=='udp':
            s.send(bytes.fromhex('12340100000100000000000007616c6c6f7765640474657374000001000100') if port=='53' else b'x'*4000)
            s.settimeout(4 if port=='53' else 0.3)
            try: out[a]='answered' if s.recv(4096) else 'empty'
            except TimeoutError: out[a]='sent'
        else:
            out[a]='connected'
    except TimeoutError: out[a]='hung'
    except OSError as e: out[a]=e.strerror
print(json.dumps(out))
"""


def tries(*what, box=None):
    a = net.python(TRY, *what, box=box)
    equal(a["exit_code"], 0, a)
    return json.loads(a["stdout"])


def refused(*what, box=None):
    """None arrives, and none has to wait to learn it."""
    for one, came in tries(*what, box=box).items():
        check(came not in ("connected", "answered", "sent", "hung"), f"{one}: {came}")


def slot_of(box):
    """Which address of the pools a sandbox has, of its own /proc."""
    own = net.run("cat", "/proc/net/if_inet6", box=box)["stdout"]
    return int(next(part for part in own.splitlines() if part.startswith("fd6d")).split()[0][-8:], 16) - 16


def candidates():
    """Processes of the daemon, or of the engine that it uses, which are not below either: what they have mounted says so."""
    engine = os.environ.get("ENGINE_DIR")
    yield from masd.below(net.daemon.process.pid)
    for pid in masd.named("mas-toolrunner") if engine else ():
        if os.path.basename(engine) in masd.proc_text(pid, "mountinfo") or net.daemon.dir in masd.proc_text(pid, "mountinfo"):
            yield pid


def guest_pid(box):
    """A process in the network of a sandbox, by the hardware address that its link has."""
    want, seen = f"{slot_of(box):08x}", set()
    for pid in candidates():
        ns = masd.proc_link(pid, "ns/net")
        if not ns or ns in seen:
            continue
        seen.add(ns)
        p = subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "-o", "link", "show", "eth0"], capture_output=True, text=True)
        if f"link/ether {HARDWARE % (*(want[i:i + 2] for i in range(0, 8, 2)),)} " in p.stdout:
            return pid
    raise AssertionError("no process is in the network of the sandbox")


def emulator_of(box):
    """The emulator whose link has the hardware address of this sandbox."""
    want = f"{slot_of(box):08x}"
    want = "mac=" + HARDWARE % (*(want[i:i + 2] for i in range(0, 8, 2)),)
    return next(pid for pid in masd.below(net.daemon.process.pid) if want in masd.command_of(pid))


def as_root_inside(code, box=None):
    """Python as root in the sandbox's network, with all that it can do there."""
    raw = RAW
    if RUNTIME == "microvm":
        raw += f"PID={emulator_of(box)}; MAC=bytes.fromhex('0a01{slot_of(box):08x}')\n" + TAP
    if OWN_KERNEL:  # the addresses are the sandbox's kernel's, which leaves the namespace without
        four = ipaddress.ip_address("10.213.0.16") + slot_of(box)
        raw += f"OWN='{four}'; OWN6='{ipaddress.ip_address('fd6d:6173:6e65:7400::10') + slot_of(box)}'\n" + FRAMES
    enter = [] if RUNTIME == "microvm" else ["nsenter", "-t", str(guest_pid(box)), "-n"]
    p = subprocess.run([*enter, "/usr/bin/python3", "-c", raw + code], capture_output=True, text=True, timeout=30)
    equal(p.returncode, 0, p.stderr)


HARDWARE = "0a:01:%s:%s:%s:%s"  # net_hardware_address()
# The emulator's end of a machine's link: what is written to it is what the router sees coming from the machine.
TAP = """
import ctypes,os
libc=ctypes.CDLL(None,use_errno=True)
number=next(int(n) for n in os.listdir(f'/proc/{PID}/fd') if os.readlink(f'/proc/{PID}/fd/{n}')=='/dev/net/tun')
tap=libc.syscall(438,libc.syscall(434,PID,0),number,0)
assert tap>=0, os.strerror(ctypes.get_errno())
def frame(packet,kind=0x800): os.write(tap,MAC[:1]+b'\\0'+MAC[2:]+MAC+struct.pack('!H',kind)+packet)
"""
# All of it as frames, where the namespace has no address and no route.
FRAMES = """
def own(): return OWN
def send4(packet,to): frame(packet)
def echo(to,six=False):
    m=struct.pack('!BBHHH',128 if six else 8,0,0,1,1)+b'p'*16
    if not six: return frame(ip4(to,1,m[:2]+struct.pack('!H',total(m))+m[4:]))
    a,b=(socket.inet_pton(socket.AF_INET6,x) for x in (OWN6,to))
    c=total(a+b+struct.pack('!II',len(m),58)+m)
    frame(struct.pack('!IHBB',6<<28,len(m),58,64)+a+b+m[:2]+struct.pack('!H',c)+m[4:],0x86dd)
"""
RAW = """import socket,struct
def total(b):
    b+=b'\\0'*(len(b)%2); s=sum(struct.unpack('!%dH'%(len(b)//2),b))
    while s>>16: s=(s&65535)+(s>>16)
    return ~s&65535
def own():
    s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.connect(('11.0.0.2',9)); return s.getsockname()[0]
def ip4(to,proto,data,source=None,off=0,ident=7):
    h=struct.pack('!BBHHHBBH4s4s',0x45,0,20+len(data),ident,off,64,proto,0,socket.inet_aton(source or own()),socket.inet_aton(to))
    return h[:10]+struct.pack('!H',total(h))+h[12:]+data
def send4(packet,to):
    s=socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_RAW); s.sendto(packet,(to,0))
def frame(packet,kind=0x800):
    s=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); s.bind(('eth0',kind))
    mac=bytes.fromhex(open('/sys/class/net/eth0/address').read().replace(':','')) if 0 else s.getsockname()[4]
    s.send(mac[:1]+b'\\0'+mac[2:]+mac+struct.pack('!H',kind)+packet)
def udp(port,n=64): return struct.pack('!HHHH',999,port,8+n,0)+b'y'*n
def echo(to,six=False):
    s=socket.socket(socket.AF_INET6 if six else socket.AF_INET,socket.SOCK_RAW,58 if six else 1)
    m=struct.pack('!BBHHH',128 if six else 8,0,0,1,1)+b'p'*16
    s.sendto(m if six else m[:2]+struct.pack('!H',total(m))+m[4:],(to,0))
"""

# --- what arrives

CLOSED4 = ["10.9.9.9", "172.16.7.7", "100.64.0.7", "169.254.169.254", "168.63.129.16", "100.100.100.200", "198.51.100.7"]
CLOSED6 = ["fd00:ec2::254", "fc00::7", "64:ff9b::a09:909", "2002:a09:909::1", "::ffff:11.0.0.3", "fe80::1"]


@test("the report says that nftables enforces it, by address")
def test_effective():
    for box in (net.box, wide):
        got = net.daemon.get(f"/v1/sandboxes/{box.id}").json["effective"]["network"]
        equal(got, {"by": "nftables", "mode": "addresses"})


@allowed("tcp", "TCP to an allowed address and port arrives, of IPv4 and of IPv6")
def test_tcp_arrives(_):
    what = ["tcp 11.0.0.2 80", "tcp 11.0.0.2 8080", "tcp 11.0.0.4 80", "tcp 2600:11::2 443"]
    equal(tries(*what), {one: "connected" for one in what})


@allowed("udp", "UDP to an allowed address arrives and is answered; a large one in fragments")
def test_udp_arrives(_):
    equal(tries("udp 11.0.0.53 53"), {"udp 11.0.0.53 53": "answered"})
    equal(tries("udp 11.0.0.2 25"), {"udp 11.0.0.2 25": "Connection refused"})


@allowed("wide", "all of the Internet is what is public of it")
def test_wide_arrives(_):
    what = ["tcp 11.0.0.2 80", "tcp 2600:11::3 80", "tcp 11.0.0.4 8080"]
    equal(tries(*what, box=wide), {one: "connected" for one in what})


@allowed("raw", "packets that root makes in the sandbox's network arrive where they may")
def test_raw_arrives(_):
    as_root_inside("send4(ip4('11.0.0.2',17,udp(9)),'11.0.0.2')")


@allowed("frame", "and frames")
def test_frames_arrive(_):
    as_root_inside("frame(ip4('11.0.0.2',17,udp(9)))")


@allowed("icmp", "and echo requests, of IPv4 and of IPv6")
def test_echo_arrives(n):
    as_root_inside("echo('11.0.0.2'); echo('2600:11::2',True)")
    equal(sorted(set(n.capture.seen()) & {"icmp 11.0.0.2", "icmp6 2600:11::2"}), ["icmp 11.0.0.2", "icmp6 2600:11::2"])


@allowed("private", "a private network that the operator named is reached")
def test_named_private(n):
    with n.sandbox({"cidrs": ["192.168.77.7"]}) as box:
        equal(tries("tcp 192.168.77.7 80", box=box), {"tcp 192.168.77.7 80": "connected"})


# --- what does not

@denied("tcp", "TCP to other addresses and ports is refused at once")
def test_tcp_denied(_):
    refused("tcp 11.0.0.3 80", "tcp 11.0.0.4 443", "tcp 2600:11::3 80", "tcp 11.0.0.53 80", "tcp 11.0.0.53 22")


@denied("udp", "UDP likewise, and in fragments")
def test_udp_denied(_):
    for one, came in tries("udp 11.0.0.3 9", "udp 11.0.0.4 81", "udp 2600:11::3 9", "udp 11.0.0.54 53").items():
        check(came not in ("answered", "hung"), f"{one}: {came}")


@denied("wide", "metadata, private and reserved addresses are closed to who may reach everything")
def test_closed(_):
    refused(*(f"tcp {a} 80" for a in CLOSED4 + CLOSED6), box=wide)


@denied("wide", "what the sandbox or the operator denies is closed although everything is allowed")
def test_deny_wins(_):
    refused("tcp 11.0.0.3 80", "tcp 11.0.0.54 53", box=wide)
    as_root_inside("echo('11.0.0.3'); echo('11.0.0.54')", box=wide)


@denied("wide", "metadata is closed where the operator opened the network around it")
def test_metadata_by_network(_):
    refused("tcp 169.254.169.254 80", box=wide)
    a = net.daemon.post("/v1/sandboxes", {"network": {"cidrs": ["169.254.169.254"]}})
    check(a.status == 403 and "metadata" in a.json["error"]["message"], a)


@denied("icmp", "echo requests to others do not leave")
def test_echo_denied(_):
    as_root_inside("echo('11.0.0.3'); echo('2600:11::3',True)\nfor a in ('10.9.9.9','169.254.169.254'): echo(a)")


@denied("icmp", "nor other messages of ICMP to an allowed address")
def test_other_icmp(_):
    as_root_inside("for t in (13,17,5,3): send4(ip4('11.0.0.2',1,bytes([t,0])+struct.pack('!HI',65535-(t<<8),0)),'11.0.0.2')")


@denied("raw", "other protocols, sources and fragments do not leave")
def test_raw_denied(_):
    as_root_inside("""
for proto in (2,4,41,47,50,89,132,136,255): send4(ip4('11.0.0.2',proto,b'z'*64),'11.0.0.2')
for source in ('11.0.0.1','11.0.0.77','10.213.0.1','10.213.0.2','10.213.0.99','127.0.0.1','8.8.8.8'):
    send4(ip4('11.0.0.2',17,udp(9),source),'11.0.0.2')
send4(ip4('11.0.0.3',17,udp(9,1472)[:1480],off=0x2000),'11.0.0.3')
send4(ip4('11.0.0.3',17,b'q'*100,off=185),'11.0.0.3')
send4(ip4('11.0.0.2',17,b'q'*100,off=185,ident=9),'11.0.0.2')
send4(ip4('224.0.0.1',17,udp(9)),'224.0.0.1')
""")


@denied("frame", "nor do frames of other kinds, or to other destinations")
def test_frames_denied(_):
    as_root_inside("""
for kind in (0x88cc,0x8100,0x8847,0x8863): frame(b'f'*100,kind)
frame(ip4('11.0.0.3',17,udp(9))); frame(ip4('11.0.0.2',17,udp(9),'11.0.0.1')); frame(ip4('11.0.0.2',17,udp(9),'0.0.0.0')); frame(ip4('255.255.255.255',17,udp(67)))
""")


@allowed("raw", "a fragment that claims another sandbox's address is not put into that one's datagram")
def test_spoofed_fragment(_):
    def open_socket():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("11.0.0.2", 7004))
        s.settimeout(20)
        return s

    def dropped():
        rules = in_router(net.daemon, "nft", "list", "chain", "inet", "mas", f"s{slot_of(net.box)}_from")
        return int(next(line for line in rules.splitlines() if "ip saddr" in line).split("packets ")[1].split()[0])
    outside, before = world.in_outer(open_socket), dropped()
    victim = ipaddress.ip_address("10.213.0.16") + slot_of(wide)
    as_root_inside(f"send4(ip4('11.0.0.2',17,b'of other',source='{victim}',off=2,ident=4242),'11.0.0.2')")
    as_root_inside("""
send4(ip4('11.0.0.2',17,struct.pack('!HHHH',999,7004,24,0)+b'the head',off=0x2000,ident=4242),'11.0.0.2')
send4(ip4('11.0.0.2',17,b'and tail',off=2,ident=4242),'11.0.0.2')
""", box=wide)
    equal(outside.recv(100), b"the headand tail")
    equal(dropped(), before + 1)
    outside.close()


@allowed("frame", "messages of ARP make no entry in the table of neighbours, which all of the host shares")
def test_arp(_):
    neighbours = lambda: sorted(line.split()[0] for line in in_router(net.daemon, "cat", "/proc/net/arp").splitlines()[1:])
    before = neighbours()
    as_root_inside("""
for kind in (1,2):
    for i in range(20):
        frame(struct.pack('!HHBBH6s4s6s4s',1,0x800,6,4,kind,b'\\x0a\\1\\0\\0\\0\\0',bytes([203,0,113,i+1]),b'\\0'*6,socket.inet_aton('10.213.0.2')),0x806)
""")
    equal(tries("tcp 11.0.0.2 80"), {"tcp 11.0.0.2 80": "connected"})  # which is on the same link after them
    equal(neighbours(), before)


@test("the router has settings of its own, not the host's")
def test_router_settings():
    names = ("rp_filter", "accept_source_route", "arp_accept", "proxy_arp")
    for place in ("all", "default", "up", f"b{slot_of(net.box)}"):
        got = in_router(net.daemon, "cat", *(f"/proc/sys/net/ipv4/conf/{place}/{name}" for name in names))
        equal(got.split(), ["0"] * len(names), place)


@test("the host itself and the router are closed, whatever is allowed")
def test_host_is_closed():
    listeners = []
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        s = socket.socket(family)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((address, 0))
        s.listen(8)
        s.setblocking(False)
        listeners.append(s)
    four, six = (s.getsockname()[1] for s in listeners)
    what = [f"tcp {a} {four}" for a in ("11.0.0.1", "11.0.0.9", "127.0.0.1", "10.213.0.1", "10.213.0.2")] + \
        [f"tcp {a} {six}" for a in ("2600:11::1", "fd6d:6173:6e65:7400::1")] + [f"tcp 11.0.0.1 {net.daemon.port}"]
    for one, came in tries(*what, box=wide).items():
        check(came != "connected", f"{one}: {came}")
    for s in listeners:
        try:
            s.accept()
            check(False, "a connection came to the host")
        except BlockingIOError:
            pass


@test("sandboxes do not reach each other")
def test_sandboxes_apart():
    code = "import socket; s=socket.socket(); s.bind(('',7777)); s.listen(1); print('up',flush=True); s.settimeout(3)\ntry: s.accept(); print('reached')\nexcept TimeoutError: print('quiet')"
    first = net.daemon.post(f"/v1/sandboxes/{net.box.id}/exec", {"command": ["/usr/bin/python3", "-c", code], "async": True})
    check(first.status in (200, 202), first)
    addresses = [part for part in net.run("cat", "/proc/net/fib_trie")["stdout"].split() if part.startswith("10.213.") and part != "10.213.0.2"]
    for one, came in tries(*(f"tcp {a} 7777" for a in set(addresses)), box=wide).items():
        check(came != "connected", f"{one}: {came}")


# --- what may be asked for

@allowed("tcp", "what a caller asks for is within the operator's ceiling, or refused by name")
def test_ceiling(_):
    with Daemon(config=OTHER_POOLS + 'network_cidrs: ["11.0.0.0/24:80", "2600:11::/64", "10.9.9.0/24"]\n') as d:
        for cidrs, status, word in ((["11.0.0.0/16:80"], 403, "network_cidrs"), (["11.0.0.2"], 403, "network_cidrs"), (["11.0.0.2:81"], 403, "network_cidrs"),
                                    (["10.9.9.9"], 403, "gateway_allow_private"), (["11.0.0.2:80", "0.0.0.0/0"], 403, "network_cidrs"),
                                    (["11.0.0.2/33"], 400, "cidrs"), (["allowed.test"], 400, "cidrs"), (["11.0.0.2:0"], 400, "cidrs"), ([7], 400, "cidrs"),
                                    (["011.0.0.2"], 400, "cidrs"), (["11.0.0.0/8; flush ruleset"], 400, "cidrs"), (["11.0.0.2:80"] * 65, 400, "cidrs")):
            a = d.post("/v1/sandboxes", {"network": {"cidrs": cidrs}})
            equal(a.status, status, (cidrs, a))
            check(word in a.json["error"]["message"] + a.json["error"].get("field", ""), a)
        with d.sandbox(network={"cidrs": ["11.0.0.2:80"]}) as box:
            equal(tries("tcp 11.0.0.2 80", box=box), {"tcp 11.0.0.2 80": "connected"})
        a = d.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.2:80"], "deny": [{"host": "denied.test"}]}})
        check(a.status in (400, 501) and "deny" in a.json["error"]["message"] + str(a.json), a)


# --- what changes while it runs

def patch(box, daemon=None, **body):
    return (daemon or net.daemon).request("PATCH", f"/v1/sandboxes/{box.id}/network", body)


def listen_outside(*places):
    """Servers on the outer side that only do what the case does with them."""
    def open_all():
        return [socket.create_server(place, family=socket.AF_INET6 if ":" in place[0] else socket.AF_INET) for place in places]
    servers = world.in_outer(open_all)
    for s in servers:
        s.settimeout(60)
    return servers


# Two connections: what comes over the first is waited for, and then the second is looked at.
HOLD = """import json,socket,sys
kept,lost=(socket.create_connection((a,int(p)),20) for a,p in zip(sys.argv[1::2],sys.argv[2::2]))
kept.settimeout(60); out={'kept':kept.recv(100).decode()}
lost.settimeout(1)
try: out['came']=lost.recv(100).decode()
except TimeoutError: out['came']=None
except OSError as e: out['came']=e.strerror
try:
    lost.settimeout(20); lost.sendall(b'more'); lost.recv(100); out['sent']='yes'
except TimeoutError: out['sent']='hung'
except OSError as e: out['sent']=e.strerror
kept.sendall(b'still here'); print(json.dumps(out))
"""


def begin_python(box, code, *args):
    """Runs while the case goes on; call what this returns for what it printed."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(net.python(code, *args, box=box, timeout_ms=100000)), daemon=True)
    thread.start()

    def end():
        thread.join(120)
        check(answers, "the command has not ended")
        equal(answers[0]["exit_code"], 0, answers[0])
        return answers[0]["stdout"]
    return end


def held(box, kept, lost, narrow):
    """Two connections of one command, what narrow() left of them, and what the outer side got of the first."""
    servers = listen_outside(kept, lost)
    command = begin_python(box, HOLD, kept[0], str(kept[1]), lost[0], str(lost[1]))
    ends = [s.accept()[0] for s in servers]
    net.capture.mark()
    narrow()
    ends[1].sendall(b"late")
    ends[0].sendall(b"late")
    ends[0].settimeout(60)
    equal(ends[0].recv(100), b"still here")
    return json.loads(command()), ends


@allowed("tcp", "narrowing is free: what is denied or dropped ends at once, connections that are there included, and others go on")
def test_narrow(n):
    for allowed_at, lost_at, how in (("11.0.0.2", "11.0.0.3", {"deny": [{"host": "11.0.0.3"}]}), ("11.0.0.2", "11.0.0.3", {"drop": ["11.0.0.3"]}),
                                     ("2600:11::2", "2600:11::3", {"drop": ["2600:11::3"]}), ("11.0.0.2", "11.0.0.4", {"drop": ["11.0.0.0/24"]})):
        cidrs = ["11.0.0.0/24", "11.0.0.2:7001"] if how == {"drop": ["11.0.0.0/24"]} else [allowed_at, lost_at]
        with n.sandbox({"cidrs": cidrs}) as box:
            def narrow():
                a = patch(box, **how)
                equal(a.status, 200, (how, a))
            got, ends = held(box, (allowed_at, 7001), (lost_at, 7002), narrow)
            equal((got["kept"], got["came"]), ("late", None), how)
            check(got["sent"] not in ("yes", "hung"), (how, got))
            refused(f"tcp {lost_at} 80", f"tcp {lost_at} 7002", box=box)
            n.check_silence()
            equal(tries(f"tcp {allowed_at} 7001", box=box), {f"tcp {allowed_at} 7001": "Connection refused"})


@allowed("udp", "nothing more comes in of what was asked for before")
def test_narrow_datagrams(n):
    def open_socket():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind(("11.0.0.3", 7003))
        s.settimeout(60)
        return s
    code = ("import socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.connect(('11.0.0.3',7003)); s.send(b'x'); s.settimeout(60)\n"
            "got=[s.recv(10).decode()]; s.settimeout(2)\n"
            "try:\n    got.append(s.recv(10).decode())\nexcept OSError as e: got.append(type(e).__name__)\nprint(*got)")
    with n.sandbox({"cidrs": ["11.0.0.2", "11.0.0.3"]}) as box:
        outside = world.in_outer(open_socket)
        command = begin_python(box, code)
        source = outside.recvfrom(10)[1]
        outside.sendto(b"first", source)
        equal(patch(box, drop=["11.0.0.3"]).status, 200)
        for _ in range(10):
            outside.sendto(b"second", source)
        equal(command().split(), ["first", "TimeoutError"])


@denied("tcp", "a network by address that is taken away altogether is gone, and what cannot be meant is refused by name")
def test_take_away(n):
    with n.sandbox({"cidrs": ["11.0.0.3", "11.0.0.4:80"]}) as box:
        for body, field in (({"drop": ["11.0.0.9"]}, "drop"), ({"deny": [{"host": "denied.test"}]}, "deny"), ({"deny": [{"host": f"11.0.{i}.1"} for i in range(80)]}, "deny"),
                            ({"allow": [{"host": "denied.test", "ports": [80], "for": "1m"}]}, "allow"), ({"allow": [{"host": "11.0.0.2"}]}, "allow"),
                            ({"allow": [{"host": "11.0.0.2", "ports": [80]}]}, "for"), ({"allow": [{"cidr": "11.0.0.0/28", "ports": [80], "for": "1m"}]}, "allow"),
                            ({"allow": [{"host": "11.0.0.2", "ports": [80], "for": "1m", "methods": ["GET"]}]}, "address")):
            a = patch(box, **body)
            check(a.status in (400, 501) and field in a.json["error"]["message"] + str(a.json["error"].get("field")), (body, a))
        equal(n.daemon.get(f"/v1/sandboxes/{box.id}/network").json["cidrs"], ["11.0.0.3", "11.0.0.4:80"])
        a = patch(box, mode="none")
        equal((a.status, a.json), (200, {"mode": "none", "allow": [], "deny": []}))
        refused("tcp 11.0.0.3 80", "tcp 11.0.0.4 80", box=box)
        n.daemon.kill_control()
        refused("tcp 11.0.0.3 80", box=box)


@allowed("tcp", "every widening is a call through the gate, within the operator's ceiling, and ends by itself")
def test_widen(n):
    policy = "version: 1\ndefault: allow\nrules:\n  - {id: not-there, verdict: deny, tool: network, host: 11.0.0.4}\n  - {id: any, verdict: allow, command: \"*\"}\n"
    with Guarded(policy, config=OTHER_POOLS + 'network_cidrs: ["11.0.0.0/30", "11.0.0.4"]\n') as d, d.sandbox(network={"cidrs": ["11.0.0.2:80"]}) as box:
        def widen(host, port=80, how_long="1m"):
            return patch(box, d, allow=[{"host": host, "ports": [port], "for": how_long}])
        a = widen("11.0.0.4")
        check(a.status == 403 and "not-there" in a.body.decode(), a)
        a = widen("11.0.0.53", 53)
        check(a.status == 403 and "network_cidrs" in a.json["error"]["message"], a)
        refused("tcp 11.0.0.3 80", "tcp 11.0.0.4 80", "tcp 11.0.0.53 53", box=box)
        a = widen("11.0.0.3")
        equal((a.status, a.json["allow"][0]["host"], a.json["allow"][0]["ports"]), (200, "11.0.0.3", [80]), a)
        equal(tries("tcp 11.0.0.3 80", "tcp 11.0.0.2 80", box=box), {"tcp 11.0.0.3 80": "connected", "tcp 11.0.0.2 80": "connected"})
        refused("tcp 11.0.0.3 8080", box=box)
        equal(patch(box, d, drop=["11.0.0.3:80"]).json["allow"], [])
        refused("tcp 11.0.0.3 80", box=box)
        equal(widen("11.0.0.3", how_long="2s").status, 200)
        d.kill_control()
        wait_for(lambda: d.get(f"/v1/sandboxes/{box.id}/network").json["allow"] == [], "its end")
        refused("tcp 11.0.0.3 80", box=box)
        equal(tries("tcp 11.0.0.2 80", box=box), {"tcp 11.0.0.2 80": "connected"})
        check("network" in d.get("/v1/audit?limit=200").body.decode(), "the audit has it")


@test("a control plane that dies between a change and its record leaves what the record says")
def test_change_and_death():
    with Daemon("--debug-endpoints", config=OTHER_POOLS + CONFIG, env={"MAS_FAULT": "network.replaced"}) as d:
        box = d.sandbox(network={"cidrs": ["11.0.0.2"]})
        pid = d.get("/v1/status").json["pid"]
        try:
            a = patch(box, d, allow=[{"host": "11.0.0.3", "ports": [80], "for": "10m"}])
            check(False, f"an answer: {a}")
        except masd.BROKEN:
            pass
        wait_for(lambda: d.get("/v1/status").json["pid"] != pid, "another control plane")
        wait_for(lambda: d.get(f"/v1/sandboxes/{box.id}").json["state"] == "ready", "the sandbox again")

        def closed():
            try:
                refused("tcp 11.0.0.3 80", box=box)
                return True
            except AssertionError:
                return False
        wait_for(closed, "the address is closed again")
        equal(tries("tcp 11.0.0.2 80", box=box), {"tcp 11.0.0.2 80": "connected"})


@denied("tcp", "while mas-net is away a change is refused and nothing changes; then it holds")
def test_change_without_net(n):
    with n.sandbox({"cidrs": ["11.0.0.2", "11.0.0.3"]}) as box:
        os.kill(net_pid(n.daemon), signal.SIGKILL)
        answers = []

        def changed():
            answers.append(patch(box, drop=["11.0.0.3"]))
            return answers[-1].status != 503
        wait_for(changed, "a change")
        equal((answers[-1].status, answers[-1].json.get("cidrs")), (200, ["11.0.0.2"]), answers[-1])
        refused("tcp 11.0.0.3 80", box=box)


@allowed("tcp", "an answer that comes after its daemon's end goes nowhere")
def test_late_answers(n):
    [server] = listen_outside(("11.0.0.2", 7777))
    with Daemon(config=OTHER_POOLS + CONFIG) as d:
        box = d.sandbox(network={"cidrs": ["11.0.0.2"]})
        code = "import socket,time; s=socket.create_connection(('11.0.0.2',7777)); time.sleep(600)"
        d.post(box.path + "/exec", {"command": ["/usr/bin/python3", "-c", code], "async": True})
        conn = server.accept()[0]
    check(n.capture.seen(), "it was there")
    n.capture.mark()
    conn.settimeout(10)
    try:
        conn.send(b"late")
        check(conn.recv(1) == b"", "the host knows of no such connection")
    except ConnectionResetError:
        pass
    n.check_silence()
    equal(tries("tcp 11.0.0.2 80"), {"tcp 11.0.0.2 80": "connected"})


@allowed("tcp", "networks may overlap and touch, with and without a port")
def test_overlap(n):
    with n.sandbox({"cidrs": ["11.0.0.0/24:80", "11.0.0.2", "11.0.0.0/25:80", "11.0.0.2:443", "11.0.0.4", "11.0.0.5", "11.0.0.6/31"]}) as box:
        equal(tries("tcp 11.0.0.2 8080", "tcp 11.0.0.3 80", box=box), {"tcp 11.0.0.2 8080": "connected", "tcp 11.0.0.3 80": "connected"})
        refused("tcp 11.0.0.3 8080", box=box)


@test("no person is asked about an address beyond the operator's ceiling, or about one network more than a sandbox may have")
def test_ask_for_nothing_in_vain():
    policy = "version: 1\ndefault: allow\nrules:\n  - {id: person, verdict: ask, tool: network, host: [11.0.0.3, 12.0.0.3]}\n"
    with Guarded(policy, config=OTHER_POOLS + 'network_cidrs: ["11.0.0.0/8"]\n') as d:
        with d.sandbox(network={"cidrs": [f"11.1.{i}.0/24" for i in range(64)]}) as box:
            a = patch(box, d, allow=[{"host": "11.0.0.3", "ports": [80], "for": "1m"}])
            check(a.status == 400 and "64 networks" in a.json["error"]["message"], a)
            equal(patch(box, d, drop=["11.1.0.0/24"]).status, 200)
            a = patch(box, d, allow=[{"host": "12.0.0.3", "ports": [80], "for": "1m"}])
            check(a.status == 403 and "network_cidrs" in a.json["error"]["message"], a)
            equal(d.get("/v1/approvals").json["approvals"], [])
            equal(patch(box, d, allow=[{"host": "11.0.0.3", "ports": [80], "for": "1m"}]).status, 202)


@test("without network_cidrs there is no network by address")
def test_off_by_default():
    with Daemon() as d:
        a = d.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.2"]}})
        check(a.status == 403 and "network_cidrs" in a.json["error"]["message"], a)
        equal(subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout.count("mas_net_"), 1, "of the other daemon")


@test("on a host that does not forward, a network by address is refused by name")
def test_no_forwarding():
    forward(0)
    try:
        a = net.daemon.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.2"]}})
        check(a.status >= 400 and "net.ipv4.ip_forward" in a.json["error"]["message"], a)
    finally:
        forward(1)


@allowed("tcp", "one sandbox has so many connections and no more")
def test_connections(_):
    code = ("import socket\nheld=[]\n"
            "for i in range(60):\n"
            "    s=socket.socket(); s.settimeout(5)\n"
            "    try: s.connect(('11.0.0.2',80)); held.append(s)\n"
            "    except OSError: pass\n"
            "print(len(held))")
    with net.sandbox({"cidrs": ["11.0.0.2"]}) as box:
        a = net.python(code, box=box)
        check(30 <= int(a["stdout"]) <= 41, a)


@allowed("tcp", "new connections each second have a limit; what leaves, comes in, is refused or limited is counted, in a zone of its own")
def test_rate_and_counters(_):
    code = ("import socket\n"
            "for i in range(60):\n"
            "    s=socket.socket(); s.settimeout(5)\n"
            "    try: s.connect(('11.0.0.2',80))\n"
            "    except OSError: pass\n"
            "    s.close()\n"
            "try: socket.create_connection(('11.0.0.3',80),5)\n"
            "except OSError: pass")
    with Daemon(config=OTHER_POOLS + CONFIG.replace("network_connects_per_second: 1000", "network_connects_per_second: 2")) as d:
        with d.sandbox(network={"cidrs": ["11.0.0.2"]}) as box:
            equal(box.exec("/usr/bin/python3", "-c", code, timeout_ms=60000)["exit_code"], 0)
            rules = in_router(d, "nft", "list", "table", "inet", "mas")
            for name in ("out", "in", "refused", "limited"):
                count = rules.split(f"counter s0_{name} {{")[1].split("packets ")[1].split()[0]
                check(int(count) > 0, f"{name}: {count}")
            check("ct zone set 1 accept" in rules, "the zone of the first sandbox")


# --- what is left of it

def net_pid(daemon):
    """mas-net of a daemon."""
    return next(iter(masd.named("mas-net", masd.below(daemon.process.pid))), None)


def in_router(daemon, *argv):
    p = subprocess.run(["nsenter", "-t", str(net_pid(daemon)), "-n", *argv], capture_output=True, text=True)
    return p.stdout


def host_tables():
    return sorted(part for part in subprocess.run(["nft", "list", "tables"], capture_output=True, text=True).stdout.split() if part.startswith("mas_net_"))


def host_links():
    lines = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True).stdout.splitlines()
    return sorted(line.split(":")[1].split("@")[0].strip() for line in lines if ": masn" in line)


@test("mas-net has a user of its own, one capability and a filter")
def test_rights():
    status = masd.status_of(net_pid(net.daemon))
    equal(status["Uid"].split(), ["64224"] * 4)
    equal(status["Gid"].split(), ["64224"] * 4)
    for name in ("CapPrm", "CapEff", "CapBnd"):
        equal(int(status[name], 16), 1 << 12, name)
    equal(int(status["CapInh"], 16) | int(status["CapAmb"], 16), 0)
    equal((status["Seccomp"].strip(), status["NoNewPrivs"].strip()), ("2", "1"))


@test("rules and links of a sandbox vanish with it")
def test_deleted():
    box = net.sandbox({"cidrs": ["11.0.0.77"]})
    line = next(part for part in in_router(net.daemon, "nft", "list", "table", "inet", "mas").splitlines() if "_allow_p4 {" in part and
                "11.0.0.77" in in_router(net.daemon, "nft", "list", "set", "inet", "mas", part.split()[1]))
    slot = line.split()[1].split("_")[0][1:]
    has_link = lambda: {f"b{slot}:", f"b{slot}@"} & {part[:len(slot) + 2] for part in in_router(net.daemon, "ip", "-o", "link").split()}
    check(has_link(), "there is a link")
    box.delete()
    wait_for(lambda: f"s{slot}_" not in in_router(net.daemon, "nft", "list", "table", "inet", "mas"), "no rules of it")
    wait_for(lambda: not has_link(), "no link of it")


def net_is_back():
    """mas-net is started some time after its end, and has made its table."""
    return net_pid(net.daemon) and "inet mas" in in_router(net.daemon, "nft", "list", "tables")


@test("a removal that mas-net died over is asked for again")
def test_lost_removal():
    wait_for(net_is_back, "mas-net is there")
    box = net.sandbox({"cidrs": ["11.0.0.79"]})
    slot, pid = slot_of(box), net_pid(net.daemon)
    os.kill(pid, signal.SIGSTOP)
    try:
        box.delete()
        wait_for(lambda: f" b{slot}@" not in in_router(net.daemon, "ip", "-o", "link") or RUNTIME == "microvm", "its end")
    finally:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: net_pid(net.daemon) not in (None, pid), "another mas-net")
    wait_for(lambda: "inet mas" in in_router(net.daemon, "nft", "list", "tables") and
             f"s{slot}_" not in in_router(net.daemon, "nft", "list", "table", "inet", "mas"), "no rules of it")


@test("rules that are there already refuse a link that would be held to them")
def test_rules_that_stayed():
    wait_for(net_is_back, "mas-net is there")
    with net.sandbox({"cidrs": ["11.0.0.2"]}) as box:
        chain = f"s{slot_of(box) + 1}_from"
        in_router(net.daemon, "nft", "add", "chain", "inet", "mas", chain)
        try:
            a = net.daemon.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.2"]}})
            check(a.status >= 400 and "nftables" in a.json["error"]["message"], a)
        finally:
            in_router(net.daemon, "nft", "delete", "chain", "inet", "mas", chain)
        net.sandbox({"cidrs": ["11.0.0.2"]}).delete()


@allowed("tcp", "a second daemon with the same pool leaves the first alone, and refuses by name")
def test_same_pool(_):
    with Daemon(config=CONFIG) as d:
        def refusal():
            a = d.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.2"]}})
            return a.status >= 400 and "network_pool" in a.json["error"]["message"]
        wait_for(refusal, "a refusal")
        equal(tries("tcp 11.0.0.2 80"), {"tcp 11.0.0.2 80": "connected"})
    equal(tries("tcp 11.0.0.2 80"), {"tcp 11.0.0.2 80": "connected"})


@denied("tcp", "a killed mas-net changes nothing for sandboxes that live, and comes back for others")
def test_kill_net(n):
    pid = net_pid(n.daemon)
    os.kill(pid, signal.SIGKILL)
    refused("tcp 11.0.0.3 80", "tcp 10.9.9.9 80")
    wait_for(lambda: net_pid(n.daemon) not in (None, pid), "another mas-net")
    wait_for(lambda: n.daemon.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.3"]}}).status == 201, "and it serves")
    refused("tcp 11.0.0.3 80", "tcp 11.0.0.4 443")


@test("a mas-net that cannot be started is tried again")
def test_start_again():
    pid, warden = net_pid(net.daemon), net.daemon.get("/v1/status").json["warden_pid"]
    limits = resource.prlimit(warden, resource.RLIMIT_NOFILE)
    before = net.daemon.log_text().count("mas-net cannot be started")
    resource.prlimit(warden, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: net.daemon.log_text().count("mas-net cannot be started") > before, "a start that fails")
    finally:
        resource.prlimit(warden, resource.RLIMIT_NOFILE, limits)
    wait_for(lambda: net.daemon.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.3"]}}).status == 201, "another mas-net, and it serves")


@allowed("tcp", "and what was allowed still is")
def test_after_kill(_):
    equal(tries("tcp 11.0.0.2 80", "tcp 11.0.0.2 8080"), {"tcp 11.0.0.2 80": "connected", "tcp 11.0.0.2 8080": "connected"})


@allowed("tcp", "a killed control plane changes nothing")
def test_kill_control(n):
    n.daemon.kill_control()
    equal(tries("tcp 11.0.0.2 80"), {"tcp 11.0.0.2 80": "connected"})
    equal(n.daemon.get(f"/v1/sandboxes/{n.box.id}").json["effective"]["network"]["mode"], "addresses")


@test("nothing is on the host after a daemon's end, or that of its warden; what both left is swept")
def test_deaths():
    def begin():
        d = Daemon(config=OTHER_POOLS + CONFIG).start()
        d.sandbox(network={"cidrs": ["11.0.0.2"]})
        return d, [t for t in host_tables() if t not in own]

    own = host_tables()
    d, tables = begin()
    equal(len(tables), 1)
    d.stop()
    equal(host_tables(), own)
    equal(len(host_links()), 1)
    d, tables = begin()
    os.kill(d.process.pid, signal.SIGKILL)
    wait_for(lambda: host_tables() == own and len(host_links()) == 1, "nothing of a warden that was killed")
    d, tables = begin()
    os.kill(net_pid(d), signal.SIGSTOP)
    stopped = net_pid(d)
    os.kill(d.process.pid, signal.SIGKILL)
    os.kill(stopped, signal.SIGKILL)
    wait_for(lambda: len(host_links()) == 1, "the router's namespace is gone")
    equal(len(host_tables()), 2, "the table is left")
    d, tables = begin()
    equal(len(tables), 1, "the next start has swept it")
    d.stop()


if RUNTIME == "microvm":
    @test("a machine with one boots, cannot be kept or copied, and rules and link go with an emulator that was killed")
    def test_machines():
        box = net.sandbox({"cidrs": ["11.0.0.78"]})
        equal(box.created["effective"]["machine"], "booted")
        for path, body in (("/snapshot", {"name": "x"}), ("/fork", {})):
            a = net.daemon.post(box.path + path, body)
            check(a.status == 400 and "network by address" in a.json["error"]["message"], (path, a))
        slot = slot_of(box)
        check(f" b{slot}: " in in_router(net.daemon, "ip", "-o", "link"), "there is a tap")
        # As a taken-over emulator could ask the kernel to, TUNSETPERSIST: the link is to stay without it.
        as_root_inside("import fcntl; fcntl.ioctl(tap,0x400454cb,1)", box=box)
        os.kill(emulator_of(box), signal.SIGKILL)
        wait_for(lambda: f" b{slot}: " not in in_router(net.daemon, "ip", "-o", "link"), "no tap of it")
        wait_for(lambda: f"s{slot}_" not in in_router(net.daemon, "nft", "list", "table", "inet", "mas"), "no rules of it")

    @test("what the machines' file allows limits what machines ask for and later get, and opens nothing to other runtimes")
    def test_machines_file():
        start = os.environ["MAS_MICROVM_DIR"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"vmm": "qemu", "kernel_image": f"{start}/vmlinux", "initramfs": f"{start}/initramfs", "rootfs": f"{start}/root.img",
                       "vsock": {"cid": 3, "uds_path": f"{file.name}-{{id}}.vsock"},
                       "network": {"enabled": True, "tap_device": "tap-{id}", "allowed_cidrs": ["11.0.0.2", "11.0.0.4:80"]}}, file)
            file.flush()
            with Daemon("--runtime-config", file.name, config=OTHER_POOLS) as d:
                a = d.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.3"]}})
                check(a.status == 403 and "network.allowed_cidrs" in a.json["error"]["message"], a)
                a = d.post("/v1/sandboxes", {"runtime": "local", "network": {"cidrs": ["11.0.0.2"]}})
                check(a.status == 403 and "network_cidrs is empty" in a.json["error"]["message"], a)
                box = d.sandbox(network={"cidrs": ["11.0.0.2"]})
                equal(tries("tcp 11.0.0.2 80", box=box), {"tcp 11.0.0.2 80": "connected"})
                refused("tcp 11.0.0.4 80", box=box)
                a = patch(box, d, allow=[{"host": "11.0.0.3", "ports": [80], "for": "1m"}])
                check(a.status == 403 and "network.allowed_cidrs" in a.json["error"]["message"], a)
            asks = "version: 1\ndefault: allow\nrules:\n  - {id: person, verdict: ask, tool: network, host: [11.0.0.3, 11.0.0.4]}\n"
            config = OTHER_POOLS + 'network_cidrs: ["11.0.0.0/24"]\n'
            with Guarded(asks, "--runtime-config", file.name, config=config) as d, d.sandbox(network={"cidrs": ["11.0.0.2"]}) as box:
                a = patch(box, d, allow=[{"host": "11.0.0.3", "ports": [80], "for": "1m"}])
                check(a.status == 403 and "network.allowed_cidrs" in a.json["error"]["message"], a)
                equal(d.get("/v1/approvals").json["approvals"], [], "no person is asked in vain")
                equal(patch(box, d, allow=[{"host": "11.0.0.4", "ports": [80], "for": "1m"}]).status, 202)

    @test("machines have no network by address where their file does not enable it, whatever others may have")
    def test_machines_file_closes():
        start = os.environ["MAS_MICROVM_DIR"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"vmm": "qemu", "kernel_image": f"{start}/vmlinux", "initramfs": f"{start}/initramfs", "rootfs": f"{start}/root.img",
                       "vsock": {"cid": 3, "uds_path": f"{file.name}-{{id}}.vsock"}, "network": {"enabled": False, "allowed_cidrs": ["11.0.0.2"]}}, file)
            file.flush()
            with Daemon("--runtime-config", file.name, config=OTHER_POOLS + CONFIG) as d:
                a = d.post("/v1/sandboxes", {"network": {"cidrs": ["11.0.0.2"]}})
                check(a.status == 403 and "network.enabled" in a.json["error"]["message"], a)


if RUNTIME in ("podman", "docker"):
    @test("a container with a network by address ends with the warden that gave it one; one without is taken over")
    def test_containers_after_a_warden():
        d = Daemon(config=OTHER_POOLS + CONFIG).start()
        with_link, without = d.sandbox(network={"cidrs": ["11.0.0.2"]}), d.sandbox()
        links = lambda box: {line.split(":")[0].strip() for line in box.sh("cat /proc/net/dev")["stdout"].splitlines()[2:]}
        equal(links(with_link), {"eth0", "lo"})
        os.kill(d.process.pid, signal.SIGKILL)
        d.process.wait()
        d.start()
        equal(links(without), {"lo"})
        a = d.get(with_link.path)
        check(a.status == 404 or a.json["state"].upper() != "READY", a)
        d.stop()

    @test("on a kernel of its own, an engine's sandbox has no network by address, and says so")
    def test_engines_with_another_kernel():
        a = net.daemon.post("/v1/sandboxes", {"runtime": RUNTIME + "-kata", "network": {"cidrs": ["11.0.0.2"]}})
        check(a.status in (400, 501) and "by address" in a.json["error"]["message"], a)


main()
