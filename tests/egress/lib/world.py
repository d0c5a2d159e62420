# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces of the test's own: the inner one has the daemon, the outer one all servers.

One wire (a veth pair) joins them, with addresses of the public range, so that nothing leaves the machine. The
resolver is a dnsmasq of the outer side: a lookup is a packet on the wire like any other. Private and metadata addresses
are there, too, with the same servers: what closes them is the daemon alone.

A script begins with `import world`, which starts it again inside the inner namespace, and then makes one World. Needs root;
the script is skipped without.
"""
import atexit
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../lib"))

INNER = ["11.0.0.1/24", "11.0.0.9/24", "2600:11::1/64"]
ALLOWED, DENIED, OTHER = "11.0.0.2", "11.0.0.3", "11.0.0.4"  # the same servers at each
ALLOWED6, DENIED6 = "2600:11::2", "2600:11::3"
DNS, TRICKS = "11.0.0.53", "11.0.0.54"
CLOSED = ["10.9.9.9", "172.16.7.7", "192.168.77.7", "100.64.0.7", "169.254.169.254", "169.254.7.7", "168.63.129.16",
          "100.100.100.200", "198.51.100.7", "fd00:ec2::254", "fc00::7"]
OUTER = [f"{a}/24" for a in (ALLOWED, DENIED, OTHER, DNS, TRICKS)] + [f"{a}/64" for a in (ALLOWED6, DENIED6)] + \
        [a + ("/128" if ":" in a else "/32") for a in CLOSED]
NAMES = {
    "allowed.test": [ALLOWED], "www.allowed.test": [ALLOWED], "wild.test": [ALLOWED], "one.wild.test": [ALLOWED],
    "deep.sub.wild.test": [ALLOWED], "bad.wild.test": [ALLOWED], "xn--bcher-kva.test": [ALLOWED], "far.test": [ALLOWED],
    "both.test": [ALLOWED, ALLOWED6], "six.test": [ALLOWED6], "denied.test": [DENIED], "denied-six.test": [DENIED6],
    "denied-address.wild.test": [DENIED], "self.test": ["11.0.0.1"], "second.test": ["11.0.0.9"], "meta.test": ["169.254.169.254"],
    "meta-six.test": ["fd00:ec2::254"], "azure.test": ["168.63.129.16"], "private.test": ["10.9.9.9"], "private-six.test": ["fc00::7"],
    "loopback.test": ["127.0.0.1"], "loopback-six.test": ["::1"], "zero.test": ["0.0.0.0"], "mapped.test": ["::ffff:127.0.0.1"],
    "cgnat.test": ["100.64.0.7"], "link.test": ["169.254.7.7"],
}
NEEDS = {"ip": "iproute2", "openssl": "openssl", "nginx": "nginx-light", "dnsmasq": "dnsmasq-base", "/usr/sbin/sshd": "openssh-server",
         "unshare": "util-linux"}
CLONE_NEWNET = 0x40000000


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(77)


def enter():
    """The script goes on in a network and a mount namespace of its own."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.geteuid() != 0:
        skip("needs root")
    missing = [package for program, package in NEEDS.items() if not shutil.which(program)]
    if missing:
        skip("needs " + ", ".join(missing))
    if os.environ.get("MAS_EGRESS_INSIDE") != "1":
        os.environ["MAS_EGRESS_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable] + sys.argv)


def ip(*lines):
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def add_addresses(device, addresses):
    ip(f"link set {device} up", *(f"addr add {a} dev {device}" + (" nodad" if ":" in a else "") for a in addresses))


class World:
    """names: more of NAMES, name to addresses. tricks: name below tricks.test to a list of answers, each the next lookup's:
    a list of addresses, "cname NAME", or "silent". locations: lines of nginx's configuration for every server. resolver: more
    lines of resolv.conf."""

    def __init__(self, names=None, tricks=None, locations="", resolver=""):
        self.dir = tempfile.mkdtemp(prefix="mas-egress-")
        os.chmod(self.dir, 0o755)
        atexit.register(shutil.rmtree, self.dir, True)
        with open(f"{self.dir}/world.json", "w") as f:
            json.dump({"names": dict(NAMES, **(names or {})), "tricks": tricks or {}, "locations": locations}, f)
        self._cover("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")
        self._cover("/etc/resolv.conf", f"nameserver {DNS}\noptions timeout:1 attempts:1\n{resolver}")
        self.outer = subprocess.Popen(["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", sys.executable, f"{HERE}/servers.py",
                                       self.dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._end)
        self._say("namespace")
        ip("link set lo up", "link add veth0 type veth peer name veth1", f"link set veth1 netns {self.outer.pid}")
        add_addresses("veth0", INNER)
        ip(f"route add default via {ALLOWED}", f"route add ::/0 via {ALLOWED6}")
        self.outer.stdin.write("wired\n")
        self.outer.stdin.flush()
        self._say("ready")
        self.ca = f"{self.dir}/ca.pem"

    def _end(self):
        self.outer.stdin.close()  # the first process of the servers' pid namespace ends, and with it all of them
        try:
            self.outer.wait(10)
        except subprocess.TimeoutExpired:
            self.outer.kill()

    def _say(self, word):
        line = self.outer.stdout.readline().strip()
        if line != word:
            raise RuntimeError(f"the servers did not start: {line!r} in place of {word!r}\n" + self.read("errors"))

    def _cover(self, path, text):
        copy = f"{self.dir}/{os.path.basename(path)}"
        with open(copy, "w") as f:
            f.write(text)
        subprocess.run(["mount", "--bind", copy, os.path.realpath(path)], check=True)

    def read(self, name):
        """What a server has written: `requests` (nginx), `recorded`, `dns`, `errors`."""
        try:
            with open(f"{self.dir}/{name}", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def lines(self, name):
        """Of such a file. splitlines() would also end one at a byte of TLS that nginx took for a request and that looks like
        U+0085."""
        return [line for line in self.read(name).split("\n") if line]

    def recorded(self):
        """What came to the recorders: one dict per connection with `to`, `data` and `closed`."""
        return [json.loads(line) for line in self.lines("recorded")]

    def requests(self):
        """What nginx was asked: dicts with `to` (address:port), `host`, `line`, `sni`."""
        return [json.loads(line) for line in self.lines("requests")]

    def in_outer(self, act):
        """Calls it with this thread in the outer network namespace: sockets that it makes belong there."""
        libc = ctypes.CDLL(None, use_errno=True)
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        theirs = os.open(f"/proc/{self.outer.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(theirs, CLONE_NEWNET) < 0:
                raise OSError(ctypes.get_errno(), "setns")
            return act()
        finally:
            if libc.setns(own, CLONE_NEWNET) < 0:
                os._exit(1)
            os.close(own)
            os.close(theirs)


enter()
