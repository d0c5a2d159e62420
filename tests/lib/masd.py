# SPDX-License-Identifier: Apache-2.0
"""A real daemon in a temporary directory, an HTTP and WebSocket client for it, and TAP output.

Tests are scripts: they import this, call `test(name)` as a decorator and end with `main()`. One test
runs by name: `tests/api/test-run.py NAME`. BUILD (environment) is the build directory.
"""
import atexit
import base64
import contextlib
import glob
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import traceback

from processes import *

BUILD = os.environ.get("BUILD", os.path.join(os.path.dirname(__file__), "../../build"))
BUILD = os.path.abspath(BUILD)
SANITIZED = "-asan" in BUILD  # by `make asan`
SANDBOXD = os.path.join(BUILD, "mas-sandboxd")
FIXTURES = os.path.join(BUILD, "mas-sandboxd-fixtures")  # the same, with what MCP's conformance suite asks for
SBX = os.path.join(BUILD, "sbx")
PATIENCE_S = 60  # for what has no deadline of its own: a busy host is slow, and a test that passes is quick
# The leak checker needs /proc, which the control plane has given up: its exit status would be about that.
os.environ["ASAN_OPTIONS"] = "detect_leaks=0"


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


_daemons = []


class Daemon:
    """with Daemon("--debug-endpoints") as d: d.get("/healthz")"""

    def __init__(self, *flags, env=None, runtime=None, command=None, config=None):
        self.dir = tempfile.mkdtemp(prefix="mas-test-")
        _daemons.append(self)
        os.chmod(self.dir, 0o755)
        self.log_path = os.path.join(self.dir, "log")
        self.flags = list(flags)
        runtime = runtime or os.environ.get("MAS_RUNTIME")  # a suite over another default
        if runtime:
            self.flags += ["-runtime", runtime]
        if os.environ.get("MAS_MICROVM_DIR"):
            self.flags += ["--microvm-dir", os.environ["MAS_MICROVM_DIR"]]
        # A boot by software emulation takes its time on a busy host.
        if runtime == "microvm" and "--config" not in self.flags and "create_ready_timeout:" not in (config or ""):
            config = (config or "") + "create_ready_timeout: 240s\n"
        if config is not None:
            path = os.path.join(self.dir, "config.yaml")
            with open(path, "w") as f:
                f.write(config)
            self.flags += ["--config", path]
        self.env = dict(os.environ, **(env or {}))
        self.command = command or [SANDBOXD]
        self.port = None
        self.process = None
        self.token = None
        self.image = None  # MAS_IMAGE=1: a suite with an image in place of the host's programs
        # A create that takes longer than it may is answered after that, and the answer is waited for.
        ready = re.search(r"^create_ready_timeout: (\d+)s$", config or "", re.M)
        self.patience_s = int(ready[1]) + 60 if ready else 60

    def start(self):
        for _ in range(3):  # a port that was free may be another's by the time the daemon binds it
            if self.launch():
                return self.use_image()
            if "Address already in use" not in self.log_text():
                break
        raise RuntimeError("the daemon did not start:\n" + self.log_text())

    def launch(self):
        probe = socket.socket()
        probe.bind(("127.0.0.1", 0))
        self.port = probe.getsockname()[1]
        probe.close()
        self.state = os.path.join(self.dir, "state")
        argv = self.command + ["-listen", f"127.0.0.1:{self.port}", "--state-dir", self.state]
        self.log = open(self.log_path, "ab")
        self.process = subprocess.Popen(argv + self.flags, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=self.log, env=self.env)
        end = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < end:
            try:
                if self.get("/healthz").status == 200:
                    return True
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.02)
        # A daemon that is refused its start ends. One that neither serves nor ends is not what any test waits for.
        if self.process.poll() is None:
            raise AssertionError("the daemon neither serves nor ends:\n" + self.log_text())
        return False

    def use_image(self):
        if os.environ.get("MAS_IMAGE") and not self.image:
            from images import host_like, put_cached
            self.image = "sha256:" + put_cached(self, host_like)
        return self

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise RuntimeError("the daemon did not stop on SIGTERM:\n" + self.log_text())
        if self.process:
            self.log.close()
        return self.process.returncode if self.process else None

    def __enter__(self):
        return self.start()

    def __exit__(self, *exc):
        try:
            self.stop()
        finally:
            self.clear()

    def places(self):
        """Where the daemon mounts things that others can see: below its directory, and for engines in /run."""
        try:
            with open(os.path.join(self.dir, "state/warden/engine/instance")) as f:
                return [self.dir + "/state/", f"/run/mas-sandbox-{f.read()[:8]}-"]
        except OSError:
            return [self.dir + "/state/"]

    def clear(self):
        """Its directory goes. What an orderly end has left mounted is an error; what a kill has, goes too."""
        places = self.places()
        try:
            if self.process and self.process.returncode == 0:
                wait_for(lambda: not mounts_at(places), lambda: f"still mounted after the end: {mounts_at(places)}", 20)
        finally:
            for path in mounts_at(places, ["self"])[::-1]:
                subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL)
            for path in glob.glob(places[-1] + "*") if len(places) > 1 else []:
                shutil.rmtree(path, ignore_errors=True)
            shutil.rmtree(self.dir, ignore_errors=True)

    def log_text(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()[-4000:]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def request(self, method, path, body=None, headers=None, timeout=None):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout or self.patience_s)
        headers = dict(headers or {})
        if self.image and isinstance(body, dict) and (method, path) in (("POST", "/v1/sandboxes"), ("POST", "/v1/run")):
            body = dict({"image": self.image}, **body)
        if self.token:
            headers.setdefault("Authorization", "Bearer " + self.token)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        try:
            conn.request(method, path, body, headers)
            r = conn.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            conn.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body=None, **kw):
        return self.request("POST", path, {} if body is None else body, **kw)

    def put(self, path, body, **kw):
        return self.request("PUT", path, body, **kw)

    def delete(self, path, **kw):
        return self.request("DELETE", path, **kw)

    def raw(self, data, silence=5, patience=PATIENCE_S):
        """Sends bytes, returns everything until the daemon closes, is silent after it has said something, or
        has said nothing for as long as patience lasts."""
        s = self.connect()
        s.settimeout(patience)
        out = b""
        try:
            s.sendall(data)
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                out += piece
                s.settimeout(silence)
        except (socket.timeout, ConnectionError):
            pass
        s.close()
        return out

    def run(self, *argv, **spec):
        """POST /v1/run; the parsed answer."""
        a = self.post("/v1/run", dict(command=list(argv), **spec))
        if a.status != 200:
            raise AssertionError(f"/v1/run: {a}")
        return a.json

    def sandbox(self, **spec):
        a = self.post("/v1/sandboxes", spec)
        if a.status != 201:
            raise AssertionError(f"create: {a}")
        return Sandbox(self, a.json)

    def kill_control(self, **kw):
        """kill -9 of the control plane; returns once another one serves."""
        old = self.get("/v1/status", **kw).json["pid"]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: self.get("/v1/status", **kw).json["pid"] != old, "another control plane")

    def wait_recorded(self, exec_id):
        """Until the end of a command is on record: its answer may come before."""
        uri = f"file:{self.state}/control/state.db?mode=ro"

        def written():
            with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
                return db.execute("SELECT 1 FROM exec WHERE key = ? AND instr(body, ?)", (exec_id, b'"finished_ns"')).fetchone()
        wait_for(written, f"the record of {exec_id}")

    def ws(self, path, headers=None):
        return WebSocket(self, path, headers or {})


_shared = {}


def shared_daemon(*flags, **kw):
    """One daemon for all tests of a script that ask with the same flags; stopped when it exits."""
    key = (flags, repr(kw))
    if key not in _shared:
        _shared[key] = Daemon(*flags, **kw).start()
        atexit.register(_shared[key].__exit__)
    return _shared[key]


class Sandbox:
    def __init__(self, daemon, created):
        self.daemon, self.created, self.id = daemon, created, created["id"]
        self.path = "/v1/sandboxes/" + self.id

    def exec(self, *argv, **spec):
        # The answer to a command that runs into its limit comes after that.
        patience = max(60, spec.get("timeout_ms", 0) // 1000 + 60)
        a = self.daemon.post(self.path + "/exec", dict(command=list(argv), **spec), timeout=patience)
        if a.status != 200:
            raise AssertionError(f"exec: {a}")
        return a.json

    def sh(self, script, **spec):
        return self.exec("/bin/sh", "-c", script, **spec)

    def delete(self):
        return self.daemon.delete(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.delete()


class WebSocket:
    """A client of RFC 6455, enough for tests: messages() yields str or bytes until the close."""

    def __init__(self, daemon, path, headers):
        self.sock = daemon.connect()
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{daemon.port}", "Upgrade: websocket",
                 "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}"]
        if daemon.token:
            lines.append("Authorization: Bearer " + daemon.token)
        lines += [f"{k}: {v}" for k, v in headers.items()]
        self.sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            piece = self.sock.recv(65536)
            if not piece:
                raise AssertionError(f"no upgrade: {self.buffer!r}")
            self.buffer += piece
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        self.status = int(head.split()[1])
        self.head = head.decode()
        self.close_code = None

    def _take(self, n):
        while len(self.buffer) < n:
            piece = self.sock.recv(65536)
            if not piece:
                raise EOFError
            self.buffer += piece
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def frame(self):
        first, second = self._take(2)
        n = second & 127
        if n == 126:
            n = struct.unpack(">H", self._take(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self._take(8))[0]
        return first & 0x80, first & 15, self._take(n)

    def messages(self):
        parts, kind = [], None
        while True:
            try:
                fin, opcode, payload = self.frame()
            except EOFError:
                return
            if opcode == 8:
                self.close_code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else 1005
                self.send_frame(8, payload[:2])
                return
            if opcode == 9:
                self.send_frame(10, payload)
                continue
            if opcode == 10:
                continue
            kind = opcode or kind
            parts.append(payload)
            if fin:
                whole = b"".join(parts)
                parts = []
                yield whole.decode() if kind == 1 else whole

    def send_frame(self, opcode, payload, mask=True, fin=True):
        head = bytes([(0x80 if fin else 0) | opcode])
        bit = 0x80 if mask else 0
        n = len(payload)
        if n < 126:
            head += bytes([bit | n])
        elif n < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", n)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", n)
        if mask:
            key = os.urandom(4)
            payload = bytes(b ^ key[i & 3] for i, b in enumerate(payload))
            head += key
        self.sock.sendall(head + payload)

    def send(self, message):
        if isinstance(message, str):
            self.send_frame(1, message.encode())
        else:
            self.send_frame(2, message)

    def events(self):
        return [json.loads(m) for m in self.messages() if isinstance(m, str)]

    def close(self):
        self.sock.close()


def mounts_at(places, among=None):
    """Mount points that begin with one of these, in every mount namespace that has a process, or of these processes."""
    seen, found = set(), []
    for pid in among or all_pids():
        namespace = proc_link(pid, "ns/mnt")
        mountinfo = proc_text(pid, "mountinfo") if namespace and namespace not in seen else ""
        if mountinfo:  # it has not ended, and is ours to see
            seen.add(namespace)
            found += [p for line in mountinfo.splitlines() if (p := line.split()[4]).startswith(tuple(places))]
    return found


def host_mounts(d):
    """Mounts of this host, but those in temporary directories of other tests, which run at the same time."""
    with open("/proc/self/mountinfo") as f:
        return sorted(line.split(" ", 1)[1] for line in f
                      if d.dir in line or f" {tempfile.gettempdir()}/" not in line)


# --- tests

_tests = []


def test(name):
    def add(fn):
        _tests.append((name, fn))
        return fn
    return add


class Skip(Exception):
    pass


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def check(condition, what):
    if not condition:
        raise AssertionError(what)


BROKEN = (OSError, http.client.HTTPException)  # nobody answers, or what was looked at has gone


def wait_for(condition, what, seconds=PATIENCE_S):
    """Until it holds. What breaks on the way is not yet: a control plane that is killed, a process that ends."""
    end = time.monotonic() + seconds
    while True:
        try:
            problem = None
            if condition():
                return
        except BROKEN as e:
            problem = e
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}") from problem
        time.sleep(0.02)


def settled(look, seconds=0.4):
    """What look() says once it has said the same for so long."""
    end, last, since = time.monotonic() + PATIENCE_S, look(), time.monotonic()
    while time.monotonic() - since < seconds:
        check(time.monotonic() < end, f"still changing after {PATIENCE_S} s: {last!r}")
        time.sleep(0.05)
        now = look()
        if now != last:
            last, since = now, time.monotonic()
    return last


def with_time(run, far_enough):
    """What run(timeout_ms) says, of the first timeout that let a command get far enough before it struck."""
    for ms in (300, 3000, 30000):
        answer = run(ms)
        if far_enough(answer):
            break
    return answer


def end_daemons(number):
    """Those that no test has ended: shared ones, ones that were killed or did not start. The number of problems."""
    problems = []
    for d in _daemons:
        try:
            if os.path.exists(d.dir):
                d.__exit__()
        except Exception as e:
            problems.append(f"{d.dir}: {e}")
    if problems:
        print(f"not ok {number} - daemons leave nothing\n# " + "\n# ".join(problems).replace("\n", "\n# "), flush=True)
        print("\n".join(problems), file=sys.stderr, flush=True)
    return len(problems)


def tell_failure(name):
    """The failure that is being handled, for a reader of TAP and for a harness that shows only what is on stderr."""
    for line in traceback.format_exc().splitlines():
        print("# " + line, flush=True)
    print(f"{name}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    for d in list(_shared.values()):
        died = [x for x in d.log_text().splitlines() if "died" in x or "Sanitizer" in x]
        for line in died:
            print("# " + line, flush=True)
        if d.process.poll() is not None:
            print("# a shared daemon has ended:\n# " + d.log_text().replace("\n", "\n# "))
            d.start()


def run_case(fn, name):
    """What TAP says of a case: "ok", "not ok" or a reason to skip it. With MAS_TRY_AGAIN a case that failed has a second
    try, and one that then passes is named as unsteady; `.ci/run` counts these and bears few of them."""
    tries = 2 if os.environ.get("MAS_TRY_AGAIN") else 1
    for number in range(1, tries + 1):
        try:
            fn()
            if number > 1:
                print(f"# unsteady: {os.path.basename(sys.argv[0])}: {name}", flush=True)
            return "ok", ""
        except Skip as why:
            return "ok", f" # SKIP {why}"
        except BaseException as problem:
            tell_failure(name)
            if not isinstance(problem, Exception):
                raise
    return "not ok", ""


def main():
    chosen = [t for t in _tests if not sys.argv[1:] or any(a in t[0] for a in sys.argv[1:])]
    failed = 0
    signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))
    for number, (name, fn) in enumerate(chosen, 1):
        begin = time.monotonic()
        word, why = run_case(fn, name)
        print(f"{word} {number} - {name}{why}", flush=True)
        failed += word != "ok"
        if time.monotonic() - begin >= 1:  # for scripts/count-tests.py
            print(f"# took {time.monotonic() - begin:.1f} s: {name}", flush=True)
    failed += end_daemons(len(chosen) + 1)
    print(f"1..{len(chosen)}", flush=True)
    sys.exit(1 if failed else 0)
