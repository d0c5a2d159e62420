#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `sbx image pull` shows: a bar on a terminal of any width, lines elsewhere, and a clean end when
somebody presses Ctrl-C in the middle. The registry is a small one of our own."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from masd import *
from lying_registry import Registry
from registry import Layout, tar

NOISE = os.urandom(3 << 20)
layout = Layout(tar({"opt/noise": NOISE}))
registry = Registry(layout)
REF = registry.host + "/noise:1"


def daemon():
    return shared_daemon("-images-registries", registry.host, "-images-insecure-registries", registry.host)


def argv(d, *more):
    return [SBX, "image", "pull", REF, "-addr", f"http://127.0.0.1:{d.port}", *more]


def forget(d):
    if d.get("/v1/images?image=" + REF).status == 200:
        equal(d.delete("/v1/images?image=" + REF).status, 200)
    wait_for(lambda: os.listdir(d.state + "/images/tmp") == [], "an empty tmp")


class Terminal:
    """The program on a terminal of so many columns; output is what it wrote."""

    def __init__(self, columns, args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it
            os.execve(args[0], args, {**os.environ, "TERM": "xterm"})
        self.output = b""

    def read(self, until=None, timeout=60):
        end = time.monotonic() + timeout
        while until is None or until not in self.output:
            check(time.monotonic() < end, f"{until!r} in {self.output!r}")
            if not select.select([self.fd], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                break
            self.output += data
        return self.output

    def wait(self):
        self.read()
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def screen(output):
    """The lines that are left to see, and the longest that ever was there."""
    lines, at, widest = [""], 0, 0
    for part in re.split(r"(\r\n|\r|\n|\033\[[0-9;?]*[A-Za-z])", output.decode()):
        if part in ("\r\n", "\n"):
            lines.append("")
            at = 0
        elif part == "\r":
            at = 0
        elif part == "\033[K":
            lines[-1] = lines[-1][:at]
        elif part:
            check(not part.startswith("\033"), part)
            lines[-1] = lines[-1][:at] + part + lines[-1][at + len(part):]
            at += len(part)
            widest = max(widest, len(lines[-1]) if not part.startswith("sha256:") else 0)
    return lines, widest


for columns in (40, 200):
    @test(f"a terminal of {columns} columns: one line that changes and goes, then the digest")
    def test_a_terminal_of_columns_one_line_that_changes(columns=columns):
        d = daemon()
        forget(d)
        registry.hold = True
        t = Terminal(columns, argv(d))
        t.read(b"fetch")
        registry.hold = False
        equal(t.wait(), 0, t.output)
        lines, widest = screen(t.output)
        check(widest < columns, f"{widest} of {columns}: {t.output!r}")
        check(b"[" in t.output.replace(b"\033[", b"") and b"%" in t.output, "a bar")
        check(lines[0].startswith("sha256:" + layout.digest), lines)
        equal(lines[1:], [""], t.output)


@test("no terminal: a line a step on stderr, nothing to redraw; the digest alone on stdout")
def test_no_terminal_a_line_a_step_on_stderr_nothing():
    d = daemon()
    forget(d)
    p = subprocess.run(argv(d), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True)
    check(re.fullmatch(rb"sha256:%s \([\d.]+ MB\)\n" % layout.digest.encode(), p.stdout), p.stdout)
    check(b"fetch" in p.stderr and b"unpack" in p.stderr, p.stderr)
    check(b"\r" not in p.stderr and b"\033" not in p.stderr, p.stderr)
    p = subprocess.run(argv(d, "-json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True)
    equal((json.loads(p.stdout)["digest"], p.stderr), (layout.digest, b""))


@test("Ctrl-C in the middle: the pull ends with it, the line is whole, and nothing of the image is there")
def test_ctrl_c_in_the_middle_the_pull_ends():
    d = daemon()
    forget(d)
    registry.hold = True
    t = Terminal(80, argv(d))
    t.read(b"fetch")
    check(os.listdir(d.state + "/images/tmp"), "half of it is there")
    os.write(t.fd, b"\x03")
    code = t.wait()
    check(code in (-signal.SIGINT, 130), code)
    wait_for(lambda: os.listdir(d.state + "/images/tmp") == [], "an empty tmp")
    registry.hold = False
    equal((d.get("/v1/images").json["images"], os.listdir(d.state + "/images/store")), ([], []))
    equal(screen(t.output)[0], ["interrupted", ""], t.output)
    equal(subprocess.run(argv(d), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode, 0)


main()
