# SPDX-License-Identifier: Apache-2.0
"""mas-kube as a program of its own, and the control plane's end of its socket. The records are those of src/proto/kube.h,
with C's alignment."""
import ctypes
import hashlib
import itertools
import json
import os
import select
import signal
import socket
import subprocess
import time

from cluster import HOME, IMAGE, LINK_IMAGE, PORT, read, write
from masd import BUILD, PATIENCE_S, check, equal, wait_for

PROGRAM = os.path.join(BUILD, "mas-kube")
MIB = 1 << 20
PROBE, CREATE, DELETE, LIST, CONNECT, TAKE, MARK, READ, PROVE, HOLD, CLAIM_POD = range(1, 12)
ANSWERED, LISTED, TOLD, BEGUN, OFFERED, HELD = range(1, 7)
WRITABLE_ROOT, POOL_MEMBER, OWN_USERS = 1, 2, 4
MEMORY, NODE, CLAIM = range(3)
NONE, PENDING, RUNNING, ENDING, ENDED = range(5)
# enum error_code, src/base/error.h
INVALID, UNAUTHORIZED, FORBIDDEN, CONFLICT, LIMIT, TIMEOUT, UNAVAILABLE = 1, 2, 3, 8, 13, 16, 18


class Range(ctypes.Structure):
    _fields_ = [("family", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("deny", ctypes.c_uint8), ("reserved", ctypes.c_uint8),
                ("port_first", ctypes.c_uint16), ("port_last", ctypes.c_uint16), ("address", ctypes.c_uint8 * 16)]


class Volume(ctypes.Structure):
    _fields_ = [("volume", ctypes.c_uint32), ("access", ctypes.c_uint32), ("bytes", ctypes.c_uint64),
                ("storage_class", ctypes.c_char * 64)]


class Order(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("op", ctypes.c_uint32), ("tag", ctypes.c_uint64), ("flags", ctypes.c_uint32),
                ("cpu_millicores", ctypes.c_uint32), ("cpu_request_millicores", ctypes.c_uint32), ("n_ranges", ctypes.c_uint32),
                ("memory_bytes", ctypes.c_uint64), ("memory_request_bytes", ctypes.c_uint64), ("tmp_bytes", ctypes.c_uint64),
                ("home_bytes", ctypes.c_uint64), ("generation", ctypes.c_uint64), ("slot", ctypes.c_uint32),
                ("epoch", ctypes.c_uint32), ("nonce", ctypes.c_uint64), ("processes", ctypes.c_uint32),
                ("state", ctypes.c_uint32), ("last_exec_s", ctypes.c_uint64), ("workspace", Volume), ("cache", Volume),
                ("id", ctypes.c_char * 60),
                ("image", ctypes.c_char * 256), ("runtime_class", ctypes.c_char * 64), ("owner", ctypes.c_char * 64),
                ("home", ctypes.c_char * 64), ("spec_hash", ctypes.c_char * 64), ("uid", ctypes.c_char * 64), ("stream_token", ctypes.c_char * 44),
                ("spec", ctypes.c_char * 32768),
                ("ranges", Range * 64)]


class Reply(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("tag", ctypes.c_uint64), ("error", ctypes.c_uint32),
                ("phase", ctypes.c_uint32), ("generation", ctypes.c_uint64), ("retry_after_s", ctypes.c_uint32),
                ("epoch", ctypes.c_uint32), ("id", ctypes.c_char * 60), ("uid", ctypes.c_char * 64),
                ("reason", ctypes.c_char * 64), ("home", ctypes.c_char * 64), ("last_exec_s", ctypes.c_uint64),
                ("message", ctypes.c_char * 400)]

    @property
    def text(self):
        return self.message.decode()

    @property
    def name(self):
        return self.id.decode()

    def __repr__(self):
        return f"<{self.name} error={self.error} phase={self.phase} reason={self.reason.decode()} {self.text!r}>"


CEILING = {"prefix": "sbx-", "instance": "test", "home": "here", "images": ["docker.example/base:"], "runtime_classes": ["gvisor", "missing"],
           "storage_classes": ["default", "fast"], "link_image": LINK_IMAGE, "uid_first": 100000, "uid_count": 2000,
           "cpu_millicores": 4000, "memory_bytes": 1 << 30, "disk_bytes": 2 << 30, "own_users": True, "writable_root": True,
           "node_disk": True, "networks": ["192.0.2.0/24", "2001:db8::/32"]}
_numbers = itertools.count()


def order(op, name="", **members):
    """What an operation does not use is zero: only a create says what its pod is."""
    made = dict(cpu_millicores=500, memory_bytes=256 * MIB, tmp_bytes=16 * MIB, home_bytes=16 * MIB, generation=1,
                image=IMAGE.encode(), workspace=Volume(bytes=64 * MIB), cache=Volume(bytes=32 * MIB)) if op == CREATE else {}
    o = Order(version=1, op=op, id=name.encode(), home=b"here" if op in (CREATE, TAKE, PROVE) else b"", **made)
    for key, value in members.items():
        if key == "ranges":
            for i, r in enumerate(value):
                o.ranges[i] = r
            o.n_ranges = len(value)
        else:
            setattr(o, key, value.encode() if isinstance(value, str) else value)
    return o


def order_sum(o):
    """What objects of this order carry: its bytes, but for what differs when it is sent again."""
    same = Order.from_buffer_copy(bytes(o))
    same.tag = same.epoch = same.slot = 0
    return hashlib.sha256(bytes(same)).hexdigest()


class Broker:
    """with Broker(kubeconfig=path) as b: b.ask(order(PROBE))"""

    def __init__(self, env=None, ceiling=None, **settings):
        self.dir = f"{HOME}/broker-{next(_numbers)}"
        os.mkdir(self.dir)
        self.settings = dict(settings, ceiling=dict(CEILING, **(ceiling or {})))
        self.env = dict(os.environ, **(env or {}))
        self.process = self.sock = None
        self.tags = itertools.count(1)
        self.told, self.answers, self.listed, self.held = [], {}, {}, None

    def __enter__(self):
        path = write(os.path.join(self.dir, "settings.json"), json.dumps(self.settings), 0o600)
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen([PROGRAM, "--settings", path, "--listen", os.path.join(self.dir, "socket")],
                                            stdin=subprocess.DEVNULL, stderr=log, env=self.env)
        self.connect()
        return self

    def connect(self):
        """As a control plane that comes, or comes again: what was told to the one before is of no use to it."""
        if self.sock:
            self.sock.close()
        self.told, self.answers, self.listed, self.held = [], {}, {}, None
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def connected():
            check(self.process.poll() is None, "mas-kube ended: " + self.log())
            self.sock.connect(os.path.join(self.dir, "socket"))
            return True
        wait_for(connected, "mas-kube listens")

    def __exit__(self, *exc):
        self.sock.close()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def log(self):
        return read(os.path.join(self.dir, "log"))

    def take(self, seconds):
        """One reply, if there is one within that time."""
        if not select.select([self.sock], [], [], seconds)[0]:
            return False
        data, fds, _, _ = socket.recv_fds(self.sock, ctypes.sizeof(Reply), 4)
        check(data, "mas-kube has closed the socket: " + self.log())
        equal(len(data), ctypes.sizeof(Reply), "bytes of a reply")
        reply = Reply.from_buffer_copy(data)
        reply.fds = fds
        check(reply.epoch, "a reply has its broker's epoch")
        if reply.kind == TOLD:
            self.told.append(reply)
        elif reply.kind == BEGUN:
            self.epoch = reply.epoch
        elif reply.kind == HELD:
            self.held = reply
        elif reply.kind in (LISTED, OFFERED):
            self.listed.setdefault(reply.tag, []).append(reply)
        else:
            self.answers[reply.tag] = reply
        return True

    def send(self, o):
        o.tag = next(self.tags)
        self.sock.send(bytes(o))
        return o.tag

    def answer(self, tag, seconds=2 * PATIENCE_S):
        end = time.monotonic() + seconds
        while tag not in self.answers:
            check(self.take(0.2) or time.monotonic() < end, f"no answer to order {tag}: {self.log()}")
        return self.answers.pop(tag)

    def ask(self, o):
        return self.answer(self.send(o))

    def each(self, orders, at_once=100):
        """Answers to many, some of which are under way at the same time."""
        answers = []
        for i in range(0, len(orders), at_once):
            answers += [self.answer(tag) for tag in [self.send(o) for o in orders[i:i + at_once]]]
        return answers

    def do(self, o):
        r = self.ask(o)
        equal(r.error, 0, f"{r}\n{self.log()}")
        return r

    def hold(self, home):
        """Asks for the home; returns what is said of it first."""
        self.held = None
        self.do(order(HOLD, home=home))
        return self.wait_held(lambda r: True)

    def wait_held(self, fits):
        end = time.monotonic() + PATIENCE_S
        while not (self.held and fits(self.held)):
            check(self.take(0.2) or time.monotonic() < end, f"the Lease: {self.held}: {self.log()}")
        return self.held

    def list(self):
        """Ids to what is known of them, once the broker knows."""
        end = time.monotonic() + PATIENCE_S
        while True:
            tag = self.send(order(LIST))
            r = self.answer(tag)
            if r.error == 0:
                return {x.name: x for x in self.listed.pop(tag, [])}
            check(time.monotonic() < end, f"the list does not come: {r}: {self.log()}")
            time.sleep(0.1)

    def wait_told(self, fits, what):
        """The first that was told of itself and fits; all before it are taken away."""
        end = time.monotonic() + PATIENCE_S
        while True:
            while self.told:
                reply = self.told.pop(0)
                if fits(reply):
                    return reply
            check(self.take(0.2) or time.monotonic() < end, f"never told: {what}: {self.log()}")


def kubeconfig(cluster, user, name="kubeconfig", contexts=None, **more):
    """A kubeconfig as JSON, which is YAML. cluster and user are its members beside the server and its authority."""
    own = dict({"server": f"https://127.0.0.1:{PORT}", "certificate-authority": "ca.crt"}, **cluster)
    own = {key: value for key, value in own.items() if value is not None}
    return write(f"{HOME}/{name}", json.dumps(dict({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "contexts": contexts or [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": own}], "users": [{"name": "u", "user": user}]}, **more)), 0o600)
