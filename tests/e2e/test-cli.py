#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sbx and sandbox_agent against a real daemon, as TAP.

usage: BUILD=dir test-cli.py [NAME]   (only tests whose name contains NAME)

Each test is a function test_*(t); t.sbx() runs sbx against the daemon, t.ok() states a fact.
"""
import base64
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

# The leak checker needs /proc, which the control plane has given up: its exit status would be about that.
os.environ["ASAN_OPTIONS"] = "detect_leaks=0"
BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
ONLY = sys.argv[1] if len(sys.argv) > 1 else ""
WAIT_S = 60


class Tap:
    def __init__(self):
        self.count = self.failed = 0
        self.name = ""

    def ok(self, good, what, detail=""):
        self.count += 1
        self.failed += not good
        print(f"{'' if good else 'not '}ok {self.count} - {self.name}: {what}", flush=True)
        if not good and detail:
            for line in str(detail).splitlines():
                print(f"# {line}")
        return good


class Bench(Tap):
    def __init__(self):
        super().__init__()
        self.dir = tempfile.mkdtemp(prefix="test-cli-")
        self.address = f"unix:{self.dir}/sock"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MAS_", "SANDBOX_"))}
        self.log = open(f"{self.dir}/log", "w+")
        os.mkdir(f"{self.dir}/state")
        self.daemon = subprocess.Popen(
            [f"{BUILD}/mas-sandboxd", "--listen", self.address, "--state-dir", f"{self.dir}/state"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=self.env)
        deadline = time.time() + WAIT_S
        while self.sbx("version").returncode and time.time() < deadline and self.daemon.poll() is None:
            time.sleep(0.05)

    def close(self):
        self.daemon.send_signal(signal.SIGTERM)
        try:
            self.daemon.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.ok(False, "the daemon ends on SIGTERM")
            self.daemon.kill()
        self.log.seek(0)
        log = self.log.read()
        self.ok(self.daemon.returncode == 0, "the daemon ends well", self.daemon.returncode)
        self.ok(not re.search(r"died|Sanitizer|runtime error", log), "and nothing of it died before")
        if self.failed:
            first = re.search(r"[^\n]*(Sanitizer|runtime error)|\Z", log).start()
            for line in (log[first:] or log[-4000:]).splitlines()[:60]:
                print(f"# daemon: {line}")
        shutil.rmtree(self.dir, ignore_errors=True)

    def sbx(self, verb, *args, stdin=b"", env=None, addr=True, timeout=WAIT_S):
        where = ["-addr", self.address] if addr else []
        if isinstance(stdin, str):
            stdin = stdin.encode()
        return subprocess.run([f"{BUILD}/sbx", verb, *where, *args], input=stdin, capture_output=True,
                              env={**self.env, **(env or {})}, timeout=timeout, check=False)

    def is_(self, p, what, code=0, out=None, err=None):
        """Checks a finished process: exit code, and exact output or a pattern of it."""
        def fits(got, want):
            if want is None:
                return True
            if isinstance(want, re.Pattern):
                return want.search(got) is not None
            return got == want
        good = p.returncode == code and fits(p.stdout, out) and fits(p.stderr, err)
        return self.ok(good, what, f"exit {p.returncode}\nstdout {p.stdout!r}\nstderr {p.stderr!r}")

    def create(self, *args):
        m = re.match(rb"id=(\S+) namespace=(\S+) pod=(\S+)\n$", self.sbx("create", *args).stdout)
        return m.group(1).decode() if m else "none"


def test_contract(t):
    p = t.sbx("create", "-id", "abc", "--env", "A=from create", "-volume=emptydir")
    t.is_(p, "create prints id, namespace, pod", out=re.compile(rb"^id=sbx-abc namespace=sbx-abc pod=\S+\n$"))
    t.is_(t.sbx("create", "-id", "abc"), "an id that is taken is a conflict", 123, b"", re.compile(b"^sbx: "))
    t.is_(t.sbx("create", "-id", "Not_DNS"), "a bad id is a bad request", 2, b"", re.compile(b"^sbx: "))
    limited = t.create("-limit", "memory_mb=64", "-limit", "max_processes=50")
    p = t.sbx("exec", "-id", limited, "-sync", "--", "python3", "-c", "x = [b'x' * (1 << 20) for i in range(500)]")
    t.ok(p.returncode == 137, "create -limit holds in the sandbox", p)
    t.sbx("delete", "-id", limited)
    t.is_(t.sbx("create", "-limit", "memory=64"), "create -limit names the limits", 2, b"", re.compile(b"memory_mb"))
    i = ["-id", "sbx-abc"]
    t.is_(t.sbx("status", *i), "status of one", out=re.compile(rb"^id=sbx-abc namespace=sbx-abc pod=\S+ phase=\S+\n$"))
    t.is_(t.sbx("exec", *i, "-sync", "--", "sh", "-c", "echo out; echo err >&2; echo $A; exit 7"),
          "exec -sync: output and code", 7, b"out\nfrom create\n", b"err\n")
    t.is_(t.sbx("exec", *i, "-sync", "-cmd", "echo  a b"), "exec -cmd splits at spaces", 0, b"a b\n")
    p = t.sbx("exec", *i, "sh", "-c", "echo one; sleep 0.3; echo two; exit 5")
    m = re.match(rb"^exec_id=(\S+) status=running\n$", p.stdout)
    if not t.ok(m and p.returncode == 0, "exec prints exec_id and status", p):
        return
    e = ["-exec-id", m.group(1).decode()]
    t.is_(t.sbx("logs", "-f", *i, *e), "logs -f follows to the end", 0, b"one\ntwo\n")
    p = t.sbx("exec-status", *i, *e)
    t.is_(p, "exec-status is key=value lines", 0, re.compile(
        rb"^sandbox_id=sbx-abc\nexec_id=\S+\nstatus=completed\nexit_code=5\nstarted_at=\S+\nfinished_at=\S+\n(timeout_seconds=\d+\n)?$"))
    t.is_(t.sbx("exec-cancel", *i, *e), "cancel of an ended exec is a conflict", 123, b"", re.compile(b"^sbx: "))
    t.is_(t.sbx("exec", *i, "-stream", "--", "sh", "-c", "echo o; sleep 0.1; echo e >&2; exit 9"),
          "exec -stream", 9, b"o\n", b"e\n")
    p = t.sbx("exec", *i, "-stream-raw", "--", "echo", "hi")
    lines = [json.loads(x) for x in p.stdout.splitlines()]
    t.ok(p.returncode == 0 and [x["type"] for x in lines] == ["start", "output", "exit"] and
         lines[1]["data"] == "hi\n", "exec -stream-raw prints events", p)
    p = t.sbx("exec", *i, "--", "sleep", "100")
    e = ["-exec-id", re.search(rb"exec_id=(\S+)", p.stdout).group(1).decode()]
    t.is_(t.sbx("exec-cancel", *i, *e), "exec-cancel", 0, re.compile(rb"^exec_id=\S+ status=cancel\w+\n$"))
    t.is_(t.sbx("logs", "-f", *i, *e), "and it ends", 0, b"")
    t.is_(t.sbx("exec", *i, "-sync", "-timeout", "1", "--", "sleep", "100"), "exec -timeout", 124)
    t.is_(t.sbx("status"), "status table", 0, re.compile(
        rb"^ID +AGE +STATE +ALLOCATED +LAST_EXEC_TIME\n(.*\n)*sbx-abc +\S+ +\S+ +\S+ +\S+"))
    t.is_(t.sbx("delete", *i), "delete", 0, b"deleted\n")
    t.is_(t.sbx("delete", *i), "twice", 123, b"", re.compile(b"^sbx: "))
    t.is_(t.sbx("exec", *i, "-sync", "--", "true"), "exec in a deleted sandbox", 123, b"")


def test_usage(t):
    t.is_(t.sbx("exec", "-sync", "--", "true"), "exec without -id", 2)
    t.is_(t.sbx("exec", "-id", "x"), "exec without a command", 2)
    t.is_(t.sbx("nonsense", addr=False), "an unknown command", 2)
    t.is_(t.sbx("status", "-nonsense"), "an unknown flag", 2)
    t.is_(t.sbx("delete", "-id", ""), "an id that is empty", 2, b"", re.compile(b"the option -id is empty"))
    t.is_(t.sbx("status", "-id", "sbx-none"), "an unknown sandbox", 123, b"")
    t.is_(t.sbx("status", "-id", "../v1/status"), "an id with slashes", 123, b"")
    t.is_(t.sbx("status", "-addr", "http://127.0.0.1:1", addr=False), "no daemon", 121, b"")
    t.is_(t.sbx("help", addr=False), "help", 0, re.compile(b"^Usage: sbx"))
    for verb in ("run", "cp", "create", "doctor"):
        t.is_(t.sbx("help", verb, addr=False), f"help {verb}", 0, re.compile(b"^Usage: sbx " + verb.encode()))
    t.is_(t.sbx("imag", addr=False), "a verb that is nearly one", 2, b"", re.compile(b"'imag'; did you mean 'image'"))


def test_subcommands(t):
    t.is_(t.sbx("image", addr=False), "a verb alone", 2, b"", re.compile(b"sbx help image"))
    t.is_(t.sbx("keys", "lst", addr=False), "a sub-command that is nearly one", 2, b"", re.compile(b"did you mean 'ls'"))
    for args in (["image", "ls", "-format", "x"], ["image", "-format", "x", "ls"], ["image", "ls", "--nonsense"],
                 ["keys", "ls", "-roles", "admin"], ["audit", "query", "-checkpoint", "x"], ["policy", "status", "-line", "x"],
                 ["policy", "check", "-addr", "x", "y"], ["approvals", "list", "-session", "1,1h"], ["mcp", "install", "-json"],
                 ["hook", "pre-tool-use", "-nonsense"]):
        p = t.sbx(*args, addr=False)
        t.is_(p, f"refused by name: {' '.join(args)}", 2, b"", re.compile(rb"there is no option '--?[a-z]+'; (did you mean|there are)"))
    t.is_(t.sbx("image", "ls", "-jsn", addr=False), "an option that is nearly one", 2, b"", re.compile(b"did you mean '-json'"))
    t.is_(t.sbx("image", "-json", "ls"), "options may come before the sub-command", 0, re.compile(rb'"images"'))
    for args in (["help", "image"], ["image", "--help"], ["image", "-h"]):
        t.is_(t.sbx(*args, addr=False), f"{' '.join(args)} lists the sub-commands", 0,
              re.compile(rb"(?s)^Usage: sbx image COMMAND.*\n  pull .*\n  build-from-tar "))
    for args in (["help", "image", "build-from-tar"], ["image", "build-from-tar", "--help"]):
        p = t.sbx(*args, addr=False)
        t.ok(p.returncode == 0 and p.stdout.startswith(b"Usage: sbx image build-from-tar [options] NAME FILE\n") and
             b"-format" in p.stdout, f"{' '.join(args)}: its own options", p)
    t.ok(b"-format" not in t.sbx("help", "image", "ls", addr=False).stdout, "and no other's")
    t.is_(t.sbx("help", "image", "frob", addr=False), "help on nothing", 2, b"")


def complete(t, *words):
    """What bash offers for the last word."""
    script = 'source "$0"; COMP_WORDS=(sbx "$@"); COMP_CWORD=$#; _sbx; printf "%s\\n" "${COMPREPLY[@]}"; complete -p sbx >/dev/null'
    p = subprocess.run(["bash", "--norc", "-uc", script, f"{t.dir}/completion", *words], capture_output=True, text=True,
                       timeout=WAIT_S, check=False)
    return p.stderr or f"exit {p.returncode}" if p.returncode or p.stderr else p.stdout.split()


def complete_in_fish(t, line):
    p = subprocess.run(["fish", "--no-config", "-c", f"source {t.dir}/completion.fish; complete -C '{line}'"],
                       capture_output=True, text=True, timeout=WAIT_S, check=False)
    # From version 4 on fish also offers, behind these, what has the typed letters somewhere else.
    typed = line.rsplit(" ", 1)[1]
    return p.stderr or [offer.split("\t")[0] for offer in p.stdout.splitlines() if offer.startswith(typed)]


def complete_in_zsh(t, line):
    os.makedirs(f"{t.dir}/zsh", exist_ok=True)
    shutil.copy(f"{t.dir}/completion.zsh", f"{t.dir}/zsh/_sbx")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "complete.zsh")
    p = subprocess.run(["zsh", "-f", script, f"{t.dir}/zsh", line], capture_output=True, text=True, timeout=WAIT_S, check=False)
    return p.stderr or p.stdout.splitlines()


def test_completion_elsewhere(t):
    """The same in shells that not everybody has: each loads its script and completes what is typed."""
    image = ["build-from-tar", "inspect", "ls", "pull", "rm"]
    for shell, complete_in in (("fish", complete_in_fish), ("zsh", complete_in_zsh)):
        if not shutil.which(shell):
            print(f"# skipped: there is no {shell} here")
            continue
        with open(f"{t.dir}/completion.{shell}", "wb") as f:
            f.write(t.sbx("completion", shell, addr=False).stdout)
        for line, want in (("sbx im", ["image"]), ("sbx image ", image), ("sbx help image ", image),
                           ("sbx image ls -", ["-addr", "-ca-file", "-help", "-json", "-token"]),
                           ("sbx image build-from-tar -f", ["-format"]), ("sbx image -addr ls ", image),
                           ("sbx run -keep -lim", ["-limit"]), ("sbx completion ", ["bash", "fish", "zsh"])):
            got = complete_in(t, line)
            t.ok(got == want, f"{shell} completes '{line}'", got)


def test_completion(t):
    for shell in ("bash", "zsh", "fish"):
        p = t.sbx("completion", shell, addr=False)
        with open(f"{t.dir}/completion.{shell}", "wb") as f:
            f.write(p.stdout)
        t.ok(p.returncode == 0 and all(w in p.stdout for w in (b"image build-from-tar", b"accept-weaker", b"exec-cancel")),
             f"{shell}: commands and options", p.stderr)
        if shutil.which(shell):
            p = subprocess.run([shell, "-n", f"{t.dir}/completion.{shell}"], capture_output=True, check=False, timeout=WAIT_S)
            t.ok(p.returncode == 0 and not p.stderr, f"{shell} can read it", p.stderr)
    os.rename(f"{t.dir}/completion.bash", f"{t.dir}/completion")
    image = ["pull", "ls", "inspect", "rm", "build-from-tar"]
    for words, want in ((["im"], ["image"]), (["image", ""], image), (["help", "image", ""], image), (["image", "p"], ["pull"]),
                        (["image", "ls", "-"], ["-addr", "-token", "-ca-file", "-json", "-help"]),
                        (["image", "ls", "--j"], ["--json"]), (["image", "-addr", "ls", ""], image),
                        (["image", "build-from-tar", "-f"], ["-format"]), (["image", "ls", "-f"], []),
                        (["image", "build-from-tar", "-format", ""], []), (["run", "--", "-"], []), (["run", "image", ""], []),
                        (["run", "-keep", "-lim"], ["-limit"]), (["create", "-lim"], ["-limit"]), (["completion", ""], ["bash", "zsh", "fish"])):
        got = complete(t, *words)
        t.ok(got == want, f"bash completes {words}", got)


def test_run(t):
    sh = ["--", "sh", "-c"]
    t.is_(t.sbx("run", *sh, "echo out; echo err >&2; exit 3"), "output and code", 3, b"out\n", b"err\n")
    data = os.urandom(300_000) * 10
    t.is_(t.sbx("run", "--", "cat", stdin=data), "3 MB of binary stdin come back", 0, data)
    t.is_(t.sbx("run", "--", "wc", "-c", stdin=b""), "empty stdin ends", 0, b"0\n")
    t.is_(t.sbx("run", "--", "head", "-c", "10", stdin=data), "a command that stops reading", 0, data[:10])
    t.is_(t.sbx("run", "-env", "X=a b", "-cwd", "/tmp", *sh, "echo $X; pwd"), "-env and -cwd", 0, b"a b\n/tmp\n")
    t.is_(t.sbx("run", "-timeout", "1", *sh, "echo early; sleep 60"), "-timeout", 124, b"early\n")
    t.is_(t.sbx("run", *sh, "kill -9 $$"), "a signal is 128+n", 137)
    t.is_(t.sbx("run", "--", "/no/such/program"), "no such program", 127, b"", re.compile(b"sbx: "))
    t.is_(t.sbx("run", "-limit", "memory_mb=64", "--", "python3", "-c",
                "x = [b'x' * (1 << 20) for i in range(500)]"), "out of memory is said", 137, b"",
          re.compile(b"memory"))
    t.is_(t.sbx("run", "-runtime", "nonsense", "--", "true"), "an unknown runtime", 2, b"")
    with open(f"{t.dir}/in.txt", "w") as f:
        f.write("content\n")
    os.chmod(f"{t.dir}/in.txt", 0o750)
    t.is_(t.sbx("run", "-file", f"{t.dir}/in.txt:sub/dir/f", *sh, "cat sub/dir/f; stat -c %a /workspace/sub/dir/f"),
          "-file", 0, b"content\n750\n")
    t.is_(t.sbx("run", "-file", f"{t.dir}/nothing:f", "--", "true"), "-file that is not there", 2, b"")
    listed = t.sbx("ls", "-json")
    t.ok(json.loads(listed.stdout) == [], "no sandbox is left", listed)
    p = t.sbx("run", "-keep", "--", "true")
    m = re.search(rb"sandbox (\S+) is kept", p.stderr)
    t.ok(m and t.sbx("delete", "-id", m.group(1).decode()).returncode == 0, "-keep keeps it", p)


def test_run_live(t):
    p = subprocess.Popen([f"{BUILD}/sbx", "run", "-addr", t.address, "--", "sh", "-c",
                          "while read x; do echo got $x; done; echo end"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=t.env)
    for word in (b"one", b"two"):
        p.stdin.write(word + b"\n")
        p.stdin.flush()
        t.ok(p.stdout.readline() == b"got " + word + b"\n", "stdin and stdout are live")
    p.stdin.close()
    t.ok(p.stdout.read() == b"end\n" and p.wait(WAIT_S) == 0, "end of input is passed on")
    p = subprocess.Popen([f"{BUILD}/sbx", "run", "-addr", t.address, "--", "sh", "-c",
                          "trap 'echo int; exit 42' INT; echo ready; while :; do sleep 0.05; done"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=t.env)
    p.stdout.readline()
    p.send_signal(signal.SIGINT)
    t.ok(p.stdout.read() == b"int\n" and p.wait(WAIT_S) == 42, "SIGINT is passed on")
    p = subprocess.Popen([f"{BUILD}/sbx", "run", "-addr", t.address, "--", "yes"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=t.env)
    p.stdout.read(100_000)
    p.stdout.close()
    t.ok(p.wait(WAIT_S) == 141 and p.stderr.read() == b"", "a reader that stops ends it quietly")
    deadline = time.time() + WAIT_S
    while json.loads(t.sbx("ls", "-json").stdout) and time.time() < deadline:
        time.sleep(0.1)
    t.ok(json.loads(t.sbx("ls", "-json").stdout) == [], "no sandbox is left")


def serve_in_one_piece(listener):
    """A daemon that answers the upgrade, the command's end included, in one piece and then is silent."""
    def answer(status, body):
        return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()

    def serve(c):
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                got = c.recv(65536)
                if not got:
                    return
                data += got
            head, data = data.split(b"\r\n\r\n", 1)
            length = re.search(rb"(?i)content-length: (\d+)", head)
            while length and len(data) < int(length[1]):
                data += c.recv(65536)
            data = data[int(length[1]) if length else 0:]
            key = re.search(rb"(?i)sec-websocket-key: (\S+)", head)
            if key:
                accept = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
                text = b'{"type":"exit","status":"completed","exit_code":7}'
                c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                          b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + bytes([0x81, len(text)]) + text)
            elif b"/exec " in head.split(b"\r\n")[0]:
                c.sendall(answer("200 OK", '{"exec_id":"ex-1","status":"running"}'))
            else:
                c.sendall(answer("200 OK", '{"id":"sbx-1","status":"running"}'))

    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def test_end_with_the_upgrade(t):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve_in_one_piece, args=(listener,), daemon=True).start()
        r = subprocess.run([f"{BUILD}/sbx", "run", "-addr", f"http://127.0.0.1:{listener.getsockname()[1]}", "--", "x"],
                           stdin=subprocess.DEVNULL, capture_output=True, env=t.env, timeout=WAIT_S)
        t.ok(r.returncode == 7, "a command's end that comes with the upgrade is not waited for", r)


def test_private_daemon(t):
    tmp = f"{t.dir}/tmp"
    os.mkdir(tmp)
    env = {"TMPDIR": tmp, "XDG_RUNTIME_DIR": ""}
    t.is_(t.sbx("run", "--", "sh", "-c", "cat; exit 4", stdin="hello", env=env, addr=False),
          "run without a daemon", 4, b"hello")
    t.ok(os.listdir(tmp) == [], "leaves nothing in its temporary directory", os.listdir(tmp))
    t.is_(t.sbx("run", "--", "true", env={**env, "MAS_SANDBOXD": "/bin/false"}, addr=False),
          "a daemon that does not start is explained", 121, b"", re.compile(b"does not start"))
    t.ok(os.listdir(tmp) == [], "and leaves nothing either", os.listdir(tmp))
    t.is_(t.sbx("run", "-addr", f"unix:{tmp}/none", "--", "true", addr=False),
          "a daemon that was named is not replaced", 121, b"")


class Terminal:
    """sbx on a pty, as a person would use it."""

    def __init__(self, t, *args):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.execve(f"{BUILD}/sbx", ["sbx", *args], {**t.env, "TERM": "xterm", "PS1": "$ "})
        self.pid, self.seen = pid, b""

    def resize(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def type(self, text):
        os.write(self.fd, text)

    def expect(self, pattern):
        deadline = time.time() + WAIT_S
        while not re.search(pattern, self.seen):
            left = deadline - time.time()
            if left < 0 or not select.select([self.fd], [], [], left)[0]:
                return False
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:
                return re.search(pattern, self.seen) is not None
        self.seen = self.seen[re.search(pattern, self.seen).end():]
        return True

    def end(self):
        while self.expect(rb"(?s).+"):
            if not select.select([self.fd], [], [], WAIT_S)[0]:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_shell(t):
    s = Terminal(t, "shell", "-addr", t.address)
    s.resize(33, 101)
    s.type(b"echo mark$((1+1))\r")
    t.ok(s.expect(rb"mark2\r\n"), "the shell answers", s.seen)
    s.type(b"test -t 0 && stty size\r")
    t.ok(s.expect(rb"\d+ \d+\r\n"), "it is a terminal", s.seen)
    s.resize(44, 122)
    s.type(b"until stty size | grep '44 122'; do sleep 0.1; done\r")
    t.ok(s.expect(rb"44 122\r\n"), "a new size arrives", s.seen)
    s.type(b"sleep 100\r")
    time.sleep(0.5)
    s.type(b"\x03")
    s.type(b"echo still $((2+2))\r")
    t.ok(s.expect(rb"still 4\r\n"), "Ctrl-C goes to the command", s.seen)
    s.type(b"exit 6\r")
    code = s.end()
    t.ok(code == 6, "exits as the shell did", code)
    p = t.sbx("ls", "-json")
    t.ok(json.loads(p.stdout) == [], "the sandbox is deleted", p)
    i = t.create()
    s = Terminal(t, "shell", "-addr", t.address, "-id", i, "--", "sh", "-c", "tty; echo kept > /workspace/f")
    t.ok(s.end() == 0, "a command in a sandbox that was there")
    t.is_(t.sbx("exec", "-id", i, "-sync", "--", "cat", "/workspace/f"), "which stays", 0, b"kept\n")
    t.sbx("delete", "-id", i)
    t.is_(t.sbx("shell"), "without a terminal it is refused", 2)


def test_cp(t):
    i = t.create()
    src, out = f"{t.dir}/src", f"{t.dir}/out"
    os.makedirs(f"{src}/deep/er")
    os.makedirs(out)
    blob = os.urandom(5_000_000)
    with open(f"{src}/blob", "wb") as f:
        f.write(blob)
    with open(f"{src}/deep/er/é file", "w") as f:
        f.write("text\n")
    open(f"{src}/empty", "w").close()
    os.chmod(f"{src}/empty", 0o751)
    os.symlink("deep/er", f"{src}/link")
    t.is_(t.sbx("cp", f"{src}/blob", f"{i}:b"), "a file in", 0, b"")
    t.is_(t.sbx("cp", f"{i}:/workspace/b", f"{out}/b"), "and out", 0, b"")
    t.ok(open(f"{out}/b", "rb").read() == blob, "is the same")
    t.is_(t.sbx("cp", f"{src}/empty", f"{i}:/tmp"), "into a directory", 0)
    t.is_(t.sbx("exec", "-id", i, "-sync", "--", "stat", "-c", "%a %s", "/tmp/empty"), "with its name and mode",
          0, b"751 0\n")
    t.is_(t.sbx("cp", src, f"{i}:tree"), "a tree in", 0, b"")
    t.is_(t.sbx("exec", "-id", i, "-sync", "--", "cat", "/workspace/tree/link/é file"), "is there", 0, b"text\n")
    t.is_(t.sbx("cp", src, f"{i}:tree"), "a tree into a directory", 0, b"")
    t.is_(t.sbx("exec", "-id", i, "-sync", "--", "cat", "/workspace/tree/src/deep/er/é file"), "goes below it",
          0, b"text\n")
    t.is_(t.sbx("cp", f"{i}:tree", f"{out}/tree"), "a tree out", 0, b"")
    t.ok(open(f"{out}/tree/blob", "rb").read() == blob and os.readlink(f"{out}/tree/link") == "deep/er" and
         os.path.getsize(f"{out}/tree/empty") == 0 and open(f"{out}/tree/src/deep/er/é file").read() == "text\n",
         "is the same", subprocess.run(["find", out], capture_output=True, check=False).stdout.decode())
    t.is_(t.sbx("cp", f"{i}:nothing", out), "a file that is not there", 123, b"")
    t.is_(t.sbx("cp", f"{t.dir}/nothing", f"{i}:x"), "a local one neither", 2, b"")
    t.is_(t.sbx("cp", "sbx-none:/tmp/x", out), "a sandbox that is not there", 123, b"")
    t.is_(t.sbx("cp", "a", "b"), "both local", 2, b"")
    t.sbx("exec", "-id", i, "-sync", "--", "sh", "-c",
          "mkdir /workspace/evil && cd /workspace/evil && ln -s /etc/passwd abs && ln -s ../../../x up && echo y > ok")
    t.is_(t.sbx("cp", f"{i}:evil", f"{out}/evil"), "links that lead out are left out and said", 1, b"",
          re.compile(b"leads out"))
    t.ok(os.listdir(f"{out}/evil") == ["ok"], "the rest is there", os.listdir(f"{out}/evil"))
    t.is_(t.sbx("ls", f"{i}:tree/deep"), "ls of a directory", 0, re.compile(rb"NAME\n.*\ber/\n"))
    t.is_(t.sbx("ls", "-r", f"{i}:tree"), "ls -r", 0, re.compile(rb"/workspace/tree/link -> deep/er\n"))
    t.is_(t.sbx("exec", "-id", i, "-sync", "--", "sh", "-c", r"touch '/tmp/a\033[31mb' /tmp/$(printf 'c\033d')"), "odd names")
    p = t.sbx("ls", f"{i}:/tmp")
    t.ok(b"\033" not in p.stdout and b"c\\x1bd" in p.stdout, "are printed without control bytes", p)
    t.sbx("delete", "-id", i)


def hostile_server(t, members):
    """Answers as a daemon would whose sandbox has a directory "tree", with whatever a tar can say."""
    import http.server
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, value in members:
            m = tarfile.TarInfo(name)
            m.type = kind
            data = b""
            if kind == tarfile.REGTYPE:
                data = value.encode()
                m.size = len(data)
            else:
                m.linkname = value
            tar.addfile(m, io.BytesIO(data))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            body = b'{"type":"file","workdir":"/workspace","state":"ready"}'
            if "files/tar" in self.path:
                body = out.getvalue()
            elif "files/content" in self.path:
                body = b"owned"
            elif "stat?path=" in self.path and "tree" in self.path:
                body = b'{"type":"directory","is_dir":true}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_cp_hostile(t):
    import tarfile

    victim, out = f"{t.dir}/victim", f"{t.dir}/hostile"
    with open(victim, "w") as f:
        f.write("mine")
    os.makedirs(out)
    server = hostile_server(t, [
        ("d", tarfile.DIRTYPE, ""), ("d/s", tarfile.SYMTYPE, "../victim"), ("h", tarfile.LNKTYPE, "d/s"),
        ("d/e/f", tarfile.REGTYPE, "deep"), ("f", tarfile.REGTYPE, "plain"), ("f2", tarfile.LNKTYPE, "f"),
        ("dirlink", tarfile.LNKTYPE, "d"), ("h", tarfile.REGTYPE, "owned")])
    addr = f"http://127.0.0.1:{server.server_port}"
    t.sbx("cp", "-addr", addr, "x:tree", f"{out}", addr=False)
    t.ok(not os.path.islink(f"{out}/tree/h"), "a second name of a symbolic link is not made", os.listdir(f"{out}/tree"))
    t.ok(open(f"{out}/tree/f2").read() == "plain", "one of a file is")
    for name in ("h", "d/s"):
        t.sbx("cp", "-addr", addr, "x:file", f"{out}/tree/{name}", addr=False)
    t.sbx("cp", "-addr", addr, "x:tree", f"{out}", addr=False)
    os.symlink(victim, f"{out}/link")
    t.is_(t.sbx("cp", "-addr", addr, "x:file", f"{out}/link", addr=False), "a copy onto a link", 0, b"")
    t.ok(open(victim).read() == "mine" and open(f"{out}/link").read() == "owned" and not os.path.islink(f"{out}/link"),
         "replaces the link and never writes through one", open(victim).read())
    t.ok(not [x for d in os.walk(out) for x in d[2] if x.startswith(".sbx-")], "no temporary file stays")
    t.is_(t.sbx("cp", "-addr", addr, "x:file", "/dev/stdout", addr=False), "a special file is written to", 0, b"owned")
    server.shutdown()


IMPOSTOR = """
import os, socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
os.setgid(65534); os.setuid(65534)
s2 = socket.socket(); s2.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s2.bind(("127.0.0.1", 8080)); s2.listen(8); print("up", flush=True)
while True:
    c, _ = s2.accept(); c.settimeout(2)
    try:
        print("got", c.recv(4096), flush=True)
    except OSError:
        print("got nothing", flush=True)
    c.close()
"""


def test_whose_port(t):
    """In a network and a /run of its own, because the default address is one for all."""
    if os.geteuid() != 0:
        t.ok(True, "skipped: needs root # SKIP")
        return
    with open(f"{t.dir}/impostor.py", "w") as f:
        f.write(IMPOSTOR)
    os.chmod(t.dir, 0o755)
    script = f"""
        set -u
        ip link set lo up; mount -t tmpfs run /run
        export PATH=/usr/sbin:/usr/bin:/sbin:/bin MAS_SANDBOX_TOKEN=s3cret
        /usr/bin/python3 {t.dir}/impostor.py > {t.dir}/seen & impostor=$!
        until grep -q up {t.dir}/seen; do sleep 0.05; done
        {BUILD}/sbx status; echo "status $?"
        {BUILD}/sbx ls; echo "ls $?"
        {BUILD}/sbx exec -id x -stream -- true; echo "stream $?"
        grep -c s3cret {t.dir}/seen
        {BUILD}/sbx run -- echo private; echo "run $?"
        grep -c s3cret {t.dir}/seen
        {BUILD}/sbx status -addr http://127.0.0.1:8080; echo "named $?"
        grep -c s3cret {t.dir}/seen
        kill $impostor; wait $impostor
        unset MAS_SANDBOX_TOKEN
        {BUILD}/mas-sandboxd -listen unix: -listen :8080 --state-dir {t.dir}/whose 2>{t.dir}/whose.log & daemon=$!
        until {BUILD}/sbx status -addr http://127.0.0.1:8080 >/dev/null 2>&1; do sleep 0.05; done
        {BUILD}/sbx ls; echo "socket $?"
        rm /run/mas-sandbox.sock
        {BUILD}/sbx ls; echo "port $?"
        kill $daemon; wait $daemon
    """
    p = subprocess.run(["unshare", "-n", "-m", "bash", "-c", script], env=t.env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT_S * 3)
    out = p.stdout.decode()
    seen = open(f"{t.dir}/seen").read()
    t.ok("status 0" not in out and "ls 0" not in out and "stream 0" not in out, "an impostor's port is not used", p)
    t.ok(b"belongs to user 65534" in p.stderr, "and it is said whose it is", p)
    counts = [x for x in out.splitlines() if x.isdigit()]
    t.ok(counts[:2] == ["0", "0"], "no token goes there", out + seen)
    t.ok("private\nrun 0" in out, "a command that may start a daemon does", p)
    t.ok(counts[2] == "1", "an address that was named is used as named", out + seen)
    t.ok("socket 0" in out and "port 0" in out, "a daemon of root's is found at its socket, then at its port", p)


def test_logs_and_ls(t):
    i = t.create()
    t.is_(t.sbx("logs", "-id", i), "no execs yet", 123)
    t.sbx("exec", "-id", i, "-sync", "--", "echo", "first")
    t.sbx("exec", "-id", i, "-sync", "--", "printf", "\\377\\000x")
    t.is_(t.sbx("logs", "-id", i), "logs of the newest, byte for byte", 0, b"\xff\0x")
    p = t.sbx("ls")
    t.is_(p, "ls lists it", 0, re.compile(rb"^ID +RUNTIME +STATE +CREATED\n" + i.encode() + rb" +local +\S+ +20"))
    t.sbx("delete", "-id", i)


def test_image(t):
    if not os.path.exists("/bin/busybox"):
        t.ok(True, "skipped: needs /bin/busybox # SKIP")
        return
    root, tar = f"{t.dir}/image", f"{t.dir}/image.tar"
    os.makedirs(root + "/bin")
    os.makedirs(root + "/etc")
    shutil.copy("/bin/busybox", root + "/bin/sh")
    subprocess.run(["tar", "-C", root, "-cf", tar, "bin", "etc"], check=True)
    with open(tar, "rb") as f:
        data = f.read()
    digest = hashlib.sha256(data).hexdigest()
    t.is_(t.sbx("image", "ls"), "an empty table", 0, re.compile(rb"^NAME +DIGEST +SIZE +FILES +LAST USED +IN USE\n$"))
    line = re.compile(rb"^sha256:" + digest.encode() + rb" \(\d+\.\d MB\)\n$")
    t.is_(t.sbx("image", "build-from-tar", "tiny", tar), "build-from-tar prints the digest", 0, line, b"upload\nunpack\n")
    t.is_(t.sbx("image", "build-from-tar", "-format", "rootfs-tar", "again", "-", stdin=data), "from standard input", 0, line)
    p = t.sbx("image", "build-from-tar", "-json", "third", tar)
    t.ok(json.loads(p.stdout)["names"] == ["again", "third", "tiny"] and p.stderr == b"", "-json, and no progress", p)
    t.is_(t.sbx("run", "-image", "tiny", "--", "sh", "-c", "echo in it; test -e /usr/bin/env || echo alone"),
          "run -image", 0, b"in it\nalone\n")
    p = t.sbx("create", "-id", "img", "-image", "tiny")
    t.is_(p, "create -image", 0, re.compile(rb"^id=sbx-img "))
    t.is_(t.sbx("image", "rm", "sha256:" + digest), "one in use is not removed", 123, b"", re.compile(b"in use"))
    t.sbx("delete", "-id", "sbx-img")
    t.is_(t.sbx("image", "ls"), "a row a name", 0, re.compile(rb"\nagain +" + digest[:12].encode() + rb" .*\nthird .*\ntiny "))
    t.is_(t.sbx("image", "rm", "third"), "rm of one name", 0, re.compile(rb"^untagged third; "))
    p = t.sbx("image", "inspect", "tiny")
    t.ok(json.loads(p.stdout)["digest"] == digest, "inspect", p)
    s = Terminal(t, "image", "build-from-tar", "-addr", t.address, "bar", tar)
    t.ok(s.expect(rb"upload +\[[#.]+\] +\d+%") and s.expect(digest.encode()), "a bar on a terminal", s.seen)
    t.ok(s.end() == 0, "and it ends well")
    wait = time.time() + WAIT_S
    while t.sbx("image", "rm", digest).returncode and time.time() < wait:
        time.sleep(0.1)  # of a run that has just ended
    t.is_(t.sbx("image", "inspect", "tiny"), "by digest it goes with all its names", 123, b"", re.compile(b"build-from-tar"))
    t.is_(t.sbx("image", "pull", "localhost/x"), "a registry that is not listed", 122, b"", re.compile(b"images_registries"))
    t.is_(t.sbx("image", "build-from-tar", "x", "/etc/passwd"), "no tar", 2, b"", re.compile(b"sbx: "))
    for args in (["frob"], ["pull"], ["ls", "x"], ["build-from-tar", "x"]):
        t.is_(t.sbx("image", *args), f"usage: image {' '.join(args)}", 2, b"", re.compile(b"image"))


def test_doctor(t):
    p = t.sbx("doctor")
    t.is_(p, "says what the host has and the runtimes enforce", 0,
          re.compile(rb"(?s)^This host\n.*Landlock.*Runtime local: available .*memory"))
    t.ok(b"\033" not in p.stdout, "without colours where there is no terminal")
    t.ok(re.search(rb"(?s)image fetching.*skopeo.*image roots.*\nImages\n  yes kept", p.stdout), "and about images", p)
    t.ok(b"yes Landlock" not in p.stdout or b"lsm=" not in p.stdout, "and asks for nothing that the host has", p)
    limit = int(open("/proc/sys/fs/file-max").read())
    row = re.search(rb"(?s)A full house: 1000 sandboxes .*?\n  (no |yes) open files +(\d+) for all, (\d+) each; the host has (\d+)"
                    rb" \(fs.file-max\)(: enough for (\d+))?", p.stdout)
    t.ok(row and (int(row[2]), int(row[3]), int(row[4])) == (1000 * 256 * 4096, 256 * 4096, limit),
         "what a full house may take, and what the host has", p)
    t.ok(row and (row[1] == b"yes") == (limit >= int(row[2])) and
         (row[1] == b"yes" or int(row[6]) == limit // int(row[3])), "and how many it is enough for", p)
    t.ok(all(word in p.stdout for word in (b"memory (MiB) ", b"kernel.pid_max", b"kernel.pty.max",
                                           b"fs.inotify.max_user_instances", b"fs.inotify.max_user_watches")), "all pools", p)
    p = t.sbx("doctor", "-json")
    t.ok(any(r["name"] == "local" for r in json.loads(p.stdout)), "-json", p)
    p = t.sbx("doctor", addr=False, env={"TMPDIR": t.dir, "XDG_RUNTIME_DIR": ""})
    t.is_(p, "needs no daemon", 0, re.compile(b"Runtime local"))


def tree(root):
    """Every path below root with its mode and content."""
    found = {}
    for top, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(top, name)
            st = os.lstat(path)
            content = os.readlink(path) if os.path.islink(path) else open(path, "rb").read() if name in files else None
            found[path] = (st.st_mode, content)
    return found


def make_root(t, name):
    root = f"{t.dir}/{name}"
    for path, content in (("usr/bin/apt-get", "#!/bin/sh\ntouch /must-not-be-run\n"), ("usr/sbin/dockerd", ""),
                          ("usr/lib/systemd/systemd", ""), ("etc/subuid", "bob:100000:65536"), ("etc/subgid", "x:5:7\n"),
                          ("etc/docker/daemon.json", '{"log-driver":"json-file"}\n')):
        os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        with open(f"{root}/{path}", "w", encoding="utf-8") as f:
            f.write(content)
    os.chmod(f"{root}/etc/subuid", 0o640)
    os.makedirs(f"{root}/var/lib")
    return root


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def test_setup(t):
    root = make_root(t, "root")
    before = tree(root)

    def setup(*args):
        return t.sbx("setup", "-root", root, *args, addr=False)
    shown = re.compile(rb"(?s)apt-get install uidmap skopeo ca-certificates\n.*left out.*/etc/subuid:\n +alice:165536:65536\n.*alice:100000:65536.*Delegate=.*"
                       rb"systemctl daemon-reload.*apt-get install runsc.*runtimes.runsc.*config.yaml")
    t.is_(setup("-user", "alice", "-print"), "-print shows all of it", 0, shown)
    t.is_(setup("-user", "alice"), "without a terminal it wants -yes, and shows all the same", 2, shown, re.compile(b"-yes"))
    s = Terminal(t, "setup", "-root", root, "-user", "alice")
    s.expect(rb"Go on")
    s.type(b"n\n")
    t.ok(s.end() == 1 and tree(root) == before, "who says no has nothing changed")
    t.is_(setup("-user", "alice", "-yes"), "-yes", 0, shown)
    t.ok(read(f"{root}/etc/subuid") == "bob:100000:65536\nalice:165536:65536\n", "a free range", read(f"{root}/etc/subuid"))
    t.ok(os.stat(f"{root}/etc/subuid").st_mode & 0o777 == 0o640, "a file keeps its mode")
    docker = json.loads(read(f"{root}/etc/docker/daemon.json"))
    t.ok(docker == {"log-driver": "json-file", "runtimes": {"runsc": {
        "path": "/usr/bin/runsc", "runtimeArgs": ["--network=none", "--host-uds=open"]}}}, "docker's entry", docker)
    t.ok("Delegate=cpu" in read(f"{root}/etc/systemd/system/user@.service.d/mas-sandbox.conf"), "delegation")
    p = subprocess.run([f"{BUILD}/mas-sandboxd", "--config", f"{root}/etc/mas-sandbox/config.yaml", "--check-config"],
                       capture_output=True, env=t.env, check=False, timeout=WAIT_S)
    t.ok(p.returncode == 0, "the daemon takes the configuration", p)
    after = tree(root)
    p = setup("-user", "alice", "-yes", "-skip", "packages", "-skip", "gvisor")
    t.is_(p, "a second time there is nothing to do", 0, b"There is nothing to do.\n")
    t.ok(tree(root) == after, "and nothing is done")
    t.is_(setup("-undo"), "-undo asks as well", 2, re.compile(rb"remove /etc/mas-sandbox/config.yaml"))
    t.ok(tree(root) == after, "before it does anything")
    t.is_(setup("-undo", "-yes"), "-undo", 0)
    t.ok(tree(root) == before, "all is as it was, byte for byte", set(tree(root)) ^ set(before))
    t.is_(setup("-undo", "-yes"), "-undo twice", 0, b"There is nothing to take back.\n")
    t.ok(not os.path.exists("/must-not-be-run"), "no program of the root was run")


def test_setup_with_others(t):
    """What others changed meanwhile stays, and links lead nowhere."""
    root, outside = make_root(t, "shared"), f"{t.dir}/outside"
    args = ["-root", root, "-yes"]
    t.is_(t.sbx("setup", *args, "-user", "alice", addr=False), "setup", 0)
    with open(f"{root}/etc/subuid", "a", encoding="utf-8") as f:
        f.write("carol:900000:65536\n")
    with open(f"{root}/etc/mas-sandbox/config.yaml", "a", encoding="utf-8") as f:
        f.write("require_keys: true\n")
    docker = json.loads(read(f"{root}/etc/docker/daemon.json"))
    docker["runtimes"]["kata"] = {"path": "/usr/bin/kata"}
    with open(f"{root}/etc/docker/daemon.json", "w", encoding="utf-8") as f:
        json.dump(docker, f)
    t.is_(t.sbx("setup", *args, "-undo", addr=False), "undo says what it leaves", 0, None, re.compile(rb"config.yaml' was changed"))
    t.ok(read(f"{root}/etc/subuid") == "bob:100000:65536\ncarol:900000:65536\n", "only our line goes")
    docker = json.loads(read(f"{root}/etc/docker/daemon.json"))
    t.ok(docker == {"log-driver": "json-file", "runtimes": {"kata": {"path": "/usr/bin/kata"}}}, "only our member goes", docker)
    t.ok("require_keys" in read(f"{root}/etc/mas-sandbox/config.yaml"), "a file with another's work stays")

    root = make_root(t, "links")
    args = ["-root", root, "-yes"]
    os.mkdir(outside)
    with open(f"{outside}/subuid", "w", encoding="utf-8") as f:
        f.write("host:1:1\n")
    os.remove(f"{root}/etc/subuid")
    os.symlink(f"{outside}/subuid", f"{root}/etc/subuid")
    os.symlink(outside, f"{root}/etc/mas-sandbox")
    seen = tree(outside)
    p = t.sbx("setup", *args, "-user", "alice", addr=False)
    t.is_(p, "a file that is a link is left alone", 125, None, re.compile(rb"not an ordinary file.*\n.*-undo"))
    t.is_(t.sbx("setup", *args, "-user", "alice", "-skip", "subids", addr=False), "a directory that leads out", 125, None,
          re.compile(rb"config.yaml"))
    t.ok(tree(outside) == seen, "nothing outside of the root was touched", tree(outside))
    t.is_(t.sbx("setup", *args, "-undo", addr=False), "undo of half a setup", 0)
    t.ok(json.loads(read(f"{root}/etc/docker/daemon.json")) == {"log-driver": "json-file"}, "takes back what was done")
    with open(f"{root}/etc/docker/daemon.json", "w", encoding="utf-8") as f:
        f.write("{ not json")
    t.is_(t.sbx("setup", *args, addr=False), "a file that is not understood", 125, None, re.compile(rb"daemon.json.*-skip"))
    t.ok(read(f"{root}/etc/docker/daemon.json") == "{ not json", "is left alone")
    for bad in (["-skip", "nonsense"], ["-user", "a:b"], ["-root", f"{root}/none"]):
        t.is_(t.sbx("setup", "-root", root, *bad, addr=False), f"refused: {bad}", 2, b"")


def test_setup_host(t):
    """The host itself, with other directories in the place of its own and no programs but ours."""
    root, fake = make_root(t, "host"), f"{t.dir}/fake"
    os.mkdir(fake)
    for name in ("apt-get", "systemctl"):
        with open(f"{fake}/{name}", "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\n[ ! -e {t.dir}/broken ] || exit 1\necho "{name} $*" >>{t.dir}/called\n')
        os.chmod(f"{fake}/{name}", 0o755)
    with open(f"{root}/etc/passwd", "w", encoding="utf-8") as f:
        f.write("root:x:0:0::/:/bin/sh\nalice:x:1000:1000::/:/bin/sh\n")
    before = tree(root)

    def setup(*args):
        script = (f'set -e; mount --bind {root}/etc /etc; mount --bind {root}/var/lib /var/lib; PATH={fake}; export PATH; '
                  f'exec {BUILD}/sbx setup "$@"')
        return subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", "-skip", "gvisor", *args], capture_output=True,
                              stdin=subprocess.DEVNULL, env=t.env, timeout=WAIT_S, check=False)
    p = setup("-user", "alice", "-print")
    if p.returncode and b"sbx" not in p.stderr:
        t.ok(True, f"skipped: needs mounts # SKIP {p.stderr!r}")
        return
    t.ok(not os.path.exists(f"{t.dir}/called") and tree(root) == before, "-print runs nothing")
    t.is_(setup("-user", "mallory", "-yes"), "a user that does not exist", 2, b"")
    open(f"{t.dir}/broken", "wb").close()
    t.is_(setup("-user", "alice", "-yes"), "a package that cannot be installed ends it", 125, None, re.compile(rb"apt-get install failed\n.*-undo"))
    os.remove(f"{t.dir}/broken")
    t.ok(read(f"{root}/etc/subuid") == "bob:100000:65536", "before the next change")
    t.is_(setup("-user", "alice", "-yes"), "on the host", 0)
    t.is_(setup("-undo", "-yes"), "undo on the host", 0)
    called = read(f"{t.dir}/called").splitlines()
    install = [c for c in called if c.startswith("apt-get install -y --no-install-recommends -- ") and "ca-certificates" in c]
    remove = [c for c in called if c.startswith("apt-get remove -y -- ") and "ca-certificates" in c]
    t.ok(len(install) == 1 and remove and called.index(install[0]) < called.index(remove[0]), "packages came and went", called)
    t.ok(not os.path.exists(f"/usr/lib/systemd/systemd") or called.count("systemctl daemon-reload") == 2, "systemd heard of both", called)
    t.ok(tree(root) == before, "all is as it was", set(tree(root)) ^ set(before))


def test_agent(t):
    def agent(**env):
        return subprocess.run([f"{BUILD}/sandbox_agent"], capture_output=True, env={**t.env, **env}, check=False,
                              timeout=WAIT_S)
    want = re.compile(rb"(?s)^question: +Compute 15 \* 8 \+ 7\ntool call: calculator .*\nresult: .*127.*\n")
    t.is_(agent(), "stdin/stdout mode", 0, want)
    t.is_(agent(MAS_SANDBOX_MODE="http", MAS_SANDBOX_URL=t.address), "http mode", 0, want)
    t.is_(agent(MAS_SANDBOX_MODE="http", MAS_SANDBOX_URL="http://127.0.0.1:1"), "no daemon", 1)
    t.is_(agent(MAS_SANDBOXD="/bin/false"), "a daemon that says nothing", 1)


def main():
    t = Bench()
    for name, fn in list(globals().items()):
        if name.startswith("test_") and ONLY in name:
            t.name = name[5:]
            try:
                fn(t)
            except (Exception,) as e:  # a test that breaks is a failed one, and the daemon still ends
                t.ok(False, f"broke: {type(e).__name__}: {e}")
    t.name = "end"
    t.close()
    print(f"1..{t.count}")
    sys.exit(1 if t.failed else 0)


main()
