#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox's network costs, beside connections without any sandbox in the same run.

    network.py BUILD [PART...]    RUNS (5), MIB (256) and PAIRS (200) can be set; needs root. PART: by_name, by_server, by_frames, by_address, many_rules

Makes two network namespaces of its own: the daemon's, and one behind a pair of links with a server. Prints a row per
promise, as five.py does: its name, the median of the ratios, "<=" or ">=", what is expected, and all ratios. Things that
are compared take turns. Small requests do so every few milliseconds, so that another program's load is the same for both;
their rows have the ratio of the medians, and at the end that of the fastest. Run it on a quiet machine all the same."""
import atexit
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = int(os.environ.get("RUNS", 5))
BYTES = int(os.environ.get("MIB", 256)) << 20
PAIRS = int(os.environ.get("PAIRS", 200))
REQUESTS = 5  # of one turn, of which the fastest counts: the first finds nothing in a cache
if os.environ.get("BENCH_NET") != "1":
    os.environ["BENCH_NET"] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, os.path.abspath(__file__)] + sys.argv[1:])

build = os.path.abspath(sys.argv[1])
os.environ["BUILD"] = build
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib"))
from masd import Daemon  # noqa: E402

PEER = f"/usr/local/bin/mas-bench-peer.{os.getpid()}"  # where every sandbox sees it
HERE, ACROSS, PORT, PROXY = "127.0.0.2", "11.0.0.2", "9000", "9001"
OPEN = 'gateway_allow_private: ["127.0.0.2"]\nnetwork_cidrs: ["11.0.0.0/24"]\n'
ended = []


def sh(line):
    subprocess.run(line, shell=True, check=True)


def start(*argv):
    p = subprocess.Popen(argv)
    ended.append(p)
    return p


def make_world(place):
    shutil.copy(os.path.join(build, "bench/net-peer"), PEER)
    with open(f"{place}/hosts", "w") as f:
        f.write("127.0.0.1 localhost\n127.0.0.2 bench.test\n")
    sh(f"mount --bind {place}/hosts /etc/hosts")
    # resolved.test is no name of the hosts file: a name server has it.
    with open(f"{place}/resolv.conf", "w") as f:
        f.write("nameserver 127.0.0.1\n")
    sh(f"mount --bind {place}/resolv.conf /etc/resolv.conf")
    sh("ip link set lo up; sysctl -qw net.ipv4.ip_forward=1")
    other = start("unshare", "--net", "sleep", "1000000")
    time.sleep(0.3)
    sh(f"ip link add outer type veth peer name inner netns {other.pid}; ip addr add 11.0.0.1/24 dev outer; ip link set outer up")
    into = f"nsenter -t {other.pid} -n"
    sh(f"{into} ip addr add {ACROSS}/24 dev inner; {into} ip link set inner up; {into} ip link set lo up")
    if shutil.which("dnsmasq"):
        start("dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null", "--pid-file=", "--user=root",
              "--listen-address=127.0.0.1", "--bind-interfaces", "--local=/test/", "--host-record=resolved.test,127.0.0.2")
    start(PEER, "serve", HERE, PORT)
    start(PEER, "proxy", "127.0.0.1", PROXY)
    start("nsenter", "-t", str(other.pid), "-n", PEER, "serve", ACROSS, PORT)
    time.sleep(0.3)


def outside(times, size, *where):
    return int(subprocess.run([PEER, "fetch", str(times), str(size), *where], check=True, stdout=subprocess.PIPE).stdout)


def inside(box, times, size, *where):
    a = box.exec(PEER, "fetch", str(times), str(size), *where, timeout_ms=300000)
    if a["exit_code"] != 0:
        raise SystemExit(f"network.py: {a}")
    return int(a["stdout"])


def row(name, op, expected, one, other):
    """one and other are measured in turns; the ratio is one / other."""
    ratios = []
    for i in range(RUNS):
        found = [f() for f in ((one, other) if i % 2 else (other, one))]
        a, b = found if i % 2 else found[::-1]
        ratios.append(a / b)
    print(name, f"{statistics.median(ratios):.3f}", op, expected, *(f"{r:.2f}" for r in ratios), sep="\t", flush=True)


def pairs(name, op, expected, one, other):
    """Small requests of both kinds in turns: the ratio of the medians, and that of the fastest."""
    found = {one: [], other: []}
    for i in range(PAIRS):
        for f in (one, other) if i % 2 else (other, one):
            found[f].append(f())
    a, b = found[one], found[other]
    print(name, f"{statistics.median(a) / statistics.median(b):.3f}", op, expected,
          f"{statistics.median(a):.0f} / {statistics.median(b):.0f} us, fastest {min(a)} / {min(b)} us: {min(a) / min(b):.2f}", sep="\t", flush=True)


def speed(took_us):
    return BYTES / took_us


def by_name(d):
    allow = {"allow": [{"host": "bench.test"}]}
    box = d.sandbox(network=allow)
    row("throughput by name / a direct connection over loopback", ">=", 0.3,
        lambda: speed(inside(box, 1, BYTES, "bench.test", PORT, "3128")), lambda: speed(outside(1, BYTES, HERE, PORT)))
    pairs("a small request by name / through a bare CONNECT proxy", "<=", 2.0,
        lambda: inside(box, REQUESTS, 100, "bench.test", PORT, "3128"), lambda: outside(REQUESTS, 100, "bench.test", PORT, PROXY))
    many = d.sandbox(network={"allow": [{"host": f"h{i}.example"} for i in range(1000)] + [{"host": "bench.test"}]})
    pairs("a small request with 1,000 rules of its sandbox / with one", "<=", 1.1,
        lambda: inside(many, REQUESTS, 100, "bench.test", PORT, "3128"), lambda: inside(box, REQUESTS, 100, "bench.test", PORT, "3128"))


def by_server(d):
    """The proxy that it is compared with asks for addresses of IPv4 alone."""
    if not shutil.which("dnsmasq"):
        return
    box = d.sandbox(network={"allow": [{"host": "resolved.test"}]})
    pairs("a small request by a name of a name server / through a bare CONNECT proxy", "<=", 2.0,
        lambda: inside(box, REQUESTS, 100, "resolved.test", PORT, "3128"), lambda: outside(REQUESTS, 100, "resolved.test", PORT, PROXY))


def by_frames(d):
    if not shutil.which("runsc"):
        return
    box = d.sandbox(network={"allow": [{"host": "bench.test"}]}, runtime="gvisor")
    code = ("import subprocess,sys\np=subprocess.Popen([sys.argv[1],'serve','127.0.0.9','9'+'100'])\nimport time;time.sleep(1)\n"
            "print(subprocess.run([sys.argv[1],'fetch','1',sys.argv[2],'127.0.0.9','9100'],stdout=subprocess.PIPE,text=True).stdout)\np.kill()")

    def direct():
        a = box.exec("python3", "-c", code, PEER, str(BYTES), timeout_ms=300000)
        return speed(int(a["stdout"]))

    row("throughput by frames (gVisor) / a direct connection over gVisor's loopback", ">=", 0.1,
        lambda: speed(inside(box, 1, BYTES, "bench.test", PORT, "3128")), direct)


def by_address(d):
    a = d.post("/v1/sandboxes", {"network": {"cidrs": [f"{ACROSS}/32"]}})
    if a.status != 201:
        print(f"network.py: by address is left out: {a.json['error']['message']}", file=sys.stderr)
        return
    box = d.sandbox(network={"cidrs": [f"{ACROSS}/32"]})
    row("throughput by address / a direct connection over the same link", ">=", 0.8,
        lambda: speed(inside(box, 1, BYTES, ACROSS, PORT)), lambda: speed(outside(1, BYTES, ACROSS, PORT)))


def many_rules(d):
    """The operator's lists hold for every connection, however many they are."""
    denied = ", ".join(f'"h{i}.example"' for i in range(1000))
    with Daemon(config=OPEN.split("\n")[0] + f"\ndisallowed_hosts: [{denied}]\n") as other:
        box, full = (x.sandbox(network={"allow": [{"host": "bench.test"}]}) for x in (d, other))
        pairs("a small request with 1,000 rules of the operator / with none", "<=", 1.1,
            lambda: inside(full, REQUESTS, 100, "bench.test", PORT, "3128"), lambda: inside(box, REQUESTS, 100, "bench.test", PORT, "3128"))


def clean():
    for p in ended:
        p.kill()
        p.wait()
    if os.path.exists(PEER):
        os.unlink(PEER)


atexit.register(clean)
place = tempfile.mkdtemp(prefix="mas-bench-")
atexit.register(shutil.rmtree, place, True)
make_world(place)
with Daemon(config=OPEN) as daemon:
    for part in (by_name, by_server, by_frames, by_address, many_rules):
        if not sys.argv[2:] or part.__name__ in sys.argv[2:]:
            part(daemon)
