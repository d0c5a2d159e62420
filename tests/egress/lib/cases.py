# SPDX-License-Identifier: Apache-2.0
"""Cases of what a sandbox reaches and what it does not, over the runtime of MAS_RUNTIME.

    @allowed("http", "an allowed name answers")      # something must have come over the wire
    @denied("http", "a denied name is refused")      # nothing may have, not even a lookup
    @denied("http", "a name that leads inside is refused", lookups=["meta.test"])      # but lookups of these names
    @denied("http", "a redirect elsewhere", reaches=["tcp 11.0.0.2 80"])       # but these lines of the capture

The first word is the class of the probe: how it tries. A class with a denied case and without an allowed one that has
passed fails the script, because a probe that never arrives anywhere shows nothing. A case is given a Net, on which it calls
what it tries. What has been looked at cannot be forgotten: the capture is the harness's, not the case's.
"""
import atexit
import base64
import json
import os
import sys

import capture
import masd
import world as w
from masd import check, equal

RUNTIME = os.environ.get("MAS_RUNTIME", "local")
PROXY = ("127.0.0.1", 3128)
OWN_KERNEL = RUNTIME.endswith("gvisor") or RUNTIME == "microvm"  # whose errors may be others

# Sends requests to the proxy, one connection each, and prints a JSON list of the answers.
ASK = """import base64,json,socket,sys
out=[]
for item in json.load(sys.stdin):
    got=b''
    try:
        s=socket.create_connection(('127.0.0.1',3128),20); s.settimeout(25)
        s.sendall(base64.b64decode(item))
        while True:
            more=s.recv(65536)
            if not more: break
            got+=more
            if len(got)>1<<20: break
    except OSError as e:
        if not got: got=('error: %s'%e).encode()
    out.append(got.decode('latin1'))
json.dump(out,sys.stdout)
"""


def status(answer):
    """The status of an answer of HTTP, or the text where it is none."""
    return int(answer.split(" ")[1]) if answer.startswith("HTTP/1.1 ") else answer


def make_daemon(*flags, **how):
    """Root's, or with MAS_EGRESS_USER an ordinary user's: `ids` has a range of subordinate ids, `alone` has none."""
    daemon, kind = masd.Daemon(*flags, **how), os.environ.get("MAS_EGRESS_USER")
    if kind:
        import unprivileged
        uid = unprivileged.make_user() if kind == "ids" else unprivileged.STRANGER
        daemon.command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all", unprivileged.PROGRAM]
        os.chown(daemon.dir, uid, uid)
    return daemon


def end_daemon(daemon):
    """Where the script was ended before its cases were."""
    if daemon.process.poll() is None:
        daemon.process.kill()


class Net:
    """A daemon between the namespaces and one sandbox of it, and ways to try things there."""

    def __init__(self, world, network, *flags, config=None, **spec):
        self.world = world
        self.capture = capture.Capture(world)
        self.daemon = make_daemon(*flags, config=config).start()
        atexit.register(end_daemon, self.daemon)
        self.box = self.sandbox(network, **spec)
        self.late = None  # the denied case before this one
        self.controls = set()  # probes that have arrived

    def sandbox(self, network, **spec):
        return self.daemon.sandbox(network=network, **spec)

    def run(self, *argv, box=None, **more):
        """A command in the sandbox: its answer, with exit_code, stdout and stderr."""
        # A machine without KVM is slow, and slower yet on a busy host.
        more.setdefault("timeout_ms", 300000 if RUNTIME == "microvm" else 60000)
        return (box or self.box).exec(*argv, **more)

    def python(self, code, *args, **more):
        return self.run("/usr/bin/python3", "-c", code, *args, **more)

    def ask(self, *requests, box=None):
        """Bytes to the proxy, one connection for each request: the list of answers."""
        a = self.python(ASK, box=box, stdin=json.dumps([base64.b64encode(r).decode() for r in requests]))
        equal(a["exit_code"], 0, a)
        return json.loads(a["stdout"])

    def get(self, *urls, box=None):
        """Absolute-form requests: the list of answers."""
        return self.ask(*(b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (u.encode("latin1"), u.split("/")[2].encode("latin1")) for u in urls), box=box)

    def connect(self, *authorities, box=None):
        return self.ask(*(b"CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (a.encode("latin1"), a.encode("latin1")) for a in authorities), box=box)

    def put(self, path, text, mode="600", box=None):
        """A file in the sandbox."""
        a = self.run("sh", "-c", f'mkdir -p "$(dirname "$0")" && cat >"$0" && chmod {mode} "$0"', path, stdin=text, box=box)
        equal(a["exit_code"], 0, a)

    def processes(self, name):
        """Of the daemons in this namespace, by the name that ps shows."""
        return [p for p in masd.named(name) if masd.proc_link(p, "ns/net") == masd.proc_link("self", "ns/net")]

    def begin(self):
        late, before = self.capture.mark(0 if self.late else capture.GRACE_S), self.late
        self.late = None
        check(not (before and late), f"packets that came after '{before}': {late}")


    def check_silence(self, but=()):
        """Nothing but these lines has come over a wire since the last look."""
        equal([line for line in self.capture.mark() if line not in but], [], "came over the wire")


_net = None
_probes = {}


def use(net):
    """The Net that the cases of this script are given."""
    global _net
    _net = net
    return net


def allowed(probe, title, wire=True):
    """wire: what it reaches is across the wire; without it, the case looks by itself that it arrived."""
    def add(fn):
        @masd.test(title)
        def run_allowed():
            _net.begin()
            fn(_net)
            check(not wire or _net.capture.seen(), "nothing came over the wire")
            _net.controls.add(probe)
        return fn
    return add


def denied(probe, title, lookups=(), reaches=()):
    but = [f"dns {name}" for name in lookups] + list(reaches)
    _probes.setdefault(probe, title)

    def add(fn):
        @masd.test(title)
        def run_denied():
            _net.begin()
            fn(_net)
            _net.check_silence(but)
            _net.late = title
        return fn
    return add


def main():
    """Runs them all. The last case is that every probe of a denied one has arrived somewhere when it was allowed to."""
    if not sys.argv[1:]:
        @masd.test("every way that was denied has been seen to arrive when it was allowed")
        def every_probe_has_a_control():
            equal(sorted(set(_probes) - _net.controls), [], "probes that have never arrived")
    masd.main()
