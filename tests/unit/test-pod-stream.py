#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mas-stream, the program: files as a runner leaves them in a directory, and a control plane that takes what is pushed, and
ends connections in the middle of it. Usage: test-pod-stream.py MAS-STREAM"""
import base64
import hashlib
import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

PROGRAM = os.path.abspath(sys.argv.pop(1))
TOKEN = "a" * 40


class Pushed:
    """One connection of the program's, after its handshake."""

    def __init__(self, server):
        self.sock = server.accept()[0]
        self.sock.settimeout(PATIENCE_S)
        self.bytes = b""
        head = self.head().decode()
        self.request = head.splitlines()[0]
        key = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)["Sec-WebSocket-Key"]
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        self.sock.sendall(f"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())

    def head(self):
        while b"\r\n\r\n" not in self.bytes:
            self.more()
        head, self.bytes = self.bytes.split(b"\r\n\r\n", 1)
        return head

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.bytes += data

    def take(self, n):
        while len(self.bytes) < n:
            self.more()
        out, self.bytes = self.bytes[:n], self.bytes[n:]
        return out

    def frame(self):
        first, second = self.take(2)
        check(first & 0x80 and second & 0x80, "a whole frame, masked")
        n = second & 0x7f
        n = struct.unpack(">H", self.take(2))[0] if n == 126 else struct.unpack(">Q", self.take(8))[0] if n == 127 else n
        mask, data = self.take(4), self.take(n)
        return first & 0x0f, bytes(b ^ mask[i % 4] for i, b in enumerate(data))

    def event(self):
        kind, data = self.frame()
        equal(kind, 1, "a text frame")
        return json.loads(data)

    def close(self):
        self.sock.close()


class Stream:
    """The program with a directory and an endpoint of its own."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="mas-test-")
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(PATIENCE_S)
        self.endpoint = f"http://127.0.0.1:{self.server.getsockname()[1]}?token={TOKEN}"
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def start(self):
        env = {"SBX_STREAM_ENDPOINT": self.endpoint, "SBX_SANDBOX_ID": "sbx-a1", "SBX_EVENTS_DIR": self.dir}
        self.process = subprocess.Popen([PROGRAM], env=env, stderr=subprocess.PIPE)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def __exit__(self, *exc):
        self.kill()
        self.server.close()
        shutil.rmtree(self.dir)

    def accept(self):
        return Pushed(self.server)

    def add(self, name, data):
        with open(os.path.join(self.dir, name), "ab") as f:
            f.write(data)

    def exit(self, name, code):
        with open(os.path.join(self.dir, name + ".exit-new"), "w") as f:
            f.write(f"{code}\n")
        os.rename(os.path.join(self.dir, name + ".exit-new"), os.path.join(self.dir, name + ".exit"))


def data_of_event(e):
    return base64.b64decode(e["data_base64"]) if "data_base64" in e else e["data"].encode()


@test("what is there and what comes is pushed in order, the exit last")
def in_order():
    with Stream() as s:
        s.add("ex-1.stdout", b"early ")
        c = s.accept()
        equal(c.request, f"GET /sandboxes/sbx-a1/ingest?token={TOKEN} HTTP/1.1")
        e = c.event()
        equal((e["sandbox_id"], e["exec_id"], e["type"]), ("sbx-a1", "ex-1", "start"), e)
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", e["time"]), e)
        e = c.event()
        equal((e["type"], e["stream"], e["offset"], e["data"]), ("output", "stdout", 0, "early "), e)
        s.add("ex-1.stdout", b"later\n")
        e = c.event()
        equal((e["stream"], e["offset"], e["data"]), ("stdout", 6, "later\n"), e)
        s.add("ex-1.stderr", b"\xff\x00no text")
        e = c.event()
        equal((e["stream"], e["offset"], "data" in e, data_of_event(e)), ("stderr", 0, False, b"\xff\x00no text"), e)
        s.exit("ex-1", 7)
        e = c.event()
        equal((e["type"], e["exit_code"]), ("exit", 7), e)


@test("large output of several commands comes whole, and characters are not cut")
def large():
    with Stream() as s:
        text = {"ex-a": "äöü€" * 40000, "ex-b": "line\n" * 60000}
        for name, value in text.items():
            s.add(f"{name}.stdout", value.encode())
            s.add(f"{name}.stderr", b"")
            s.exit(name, 0)
        c, got, ends = s.accept(), dict.fromkeys(text, ""), set()
        while ends != set(text):
            e = c.event()
            if e["type"] == "output":
                check(e["exec_id"] not in ends, "nothing behind an exit")
                equal(e["offset"], len(got[e["exec_id"]].encode()), "it continues")
                got[e["exec_id"]] += e["data"]
            elif e["type"] == "exit":
                ends.add(e["exec_id"])
        check(got == text, "every character")


@test("a ping is answered, and a close is taken for the end")
def control_frames():
    with Stream() as s:
        c = s.accept()
        c.sock.sendall(b"\x89\x04ping")
        equal(c.frame(), (10, b"ping"), "the answer")
        c.sock.sendall(b"\x88\x02\x03\xe8")
        again = s.accept()
        check(again.request.startswith("GET /sandboxes/"), "it connects again")


def timer_of(local, remote):
    """Kind and hundredths of a second of a connection's timer, as the kernel has it."""
    with open("/proc/net/tcp") as f:
        for row in (line.split() for line in f.readlines()[1:]):
            if [int(row[i].split(":")[1], 16) for i in (1, 2)] == [local, remote]:
                kind, left = row[5].split(":")
                return int(kind, 16), int(left, 16)
    return None


@test("the kernel asks whether the other end of a silent connection is still there")
def silent():
    with Stream() as s:
        c = s.accept()
        ends = c.sock.getpeername()[1], c.sock.getsockname()[1]
        keepalive = 2
        wait_for(lambda: (timer_of(*ends) or (0, 0))[0] == keepalive, lambda: f"its timer: {timer_of(*ends)}")
        check(timer_of(*ends)[1] <= 1000, f"it is asked soon: {timer_of(*ends)}")


def collect(connection, known, until):
    """Adds what is new by its offset, as the control plane does; stops after so many events, or at the exit."""
    for _ in range(until):
        e = connection.event()
        if e["type"] == "exit":
            return True
        if e["type"] == "output":
            data = data_of_event(e)
            check(e["offset"] <= len(known), f"nothing is missing: {e['offset']} of {len(known)}")
            known += data[len(known) - e["offset"]:]
    return False


@test("connections end, the program is killed, and what was acknowledged is a hole: not a byte is lost or doubled")
def ends():
    whole = random.Random(5).randbytes(300000)
    with Stream() as s:
        known, at, ended, round_ = bytearray(), 0, False, 0
        path = os.path.join(s.dir, "ex-1.stdout")
        s.add("ex-1.stdout", b"")
        while not ended:
            c = s.accept()
            s.add("ex-1.stdout", whole[at:at + 60000])
            at = min(at + 60000, len(whole))
            if at == len(whole) and not os.path.exists(os.path.join(s.dir, "ex-1.exit")):
                s.exit("ex-1", 0)
            ended = collect(c, known, 3)
            if len(known) >= 4096:  # as the runner does with what the control plane has
                subprocess.run(["fallocate", "-p", "-o", "0", "-l", str(len(known) // 4096 * 4096), path], check=True)
            c.close()
            round_ += 1
            if round_ % 3 == 0 and not ended:
                s.kill()
                s.start()
        check(bytes(known) == whole, f"{len(known)} of {len(whole)} in {round_} connections")


@test("files that are gone are forgotten, and other files are nothing")
def gone():
    with Stream() as s:
        for name in ("ex-1.exit-new", "README", ".stdout", "x.log"):
            s.add(name, b"x")
        s.add("ex-1.stdout", b"first")
        c = s.accept()
        equal([c.event()["type"] for _ in range(2)], ["start", "output"])
        os.unlink(os.path.join(s.dir, "ex-1.stdout"))
        s.add("ex-2.stdout", b"second")
        equal([c.event()["exec_id"] for _ in range(2)], ["ex-2", "ex-2"])
        os.unlink(os.path.join(s.dir, "ex-2.stdout"))
        time.sleep(0.2)
        s.add("ex-1.stdout", b"again")
        equal([(e["type"], e.get("offset")) for e in (c.event(), c.event())], [("start", None), ("output", 0)], "a new one of the name")


@test("an environment that cannot work is refused by name, and a token is not logged")
def refused():
    good = {"SBX_STREAM_ENDPOINT": "http://127.0.0.1:1", "SBX_SANDBOX_ID": "sbx-1", "SBX_EVENTS_DIR": "/tmp"}
    for name, value in (("SBX_STREAM_ENDPOINT", ""), ("SBX_STREAM_ENDPOINT", "ws://127.0.0.1:1"), ("SBX_STREAM_ENDPOINT", "http://daemon:1"),
                        ("SBX_STREAM_ENDPOINT", "https://127.0.0.1:1"), ("SBX_SANDBOX_ID", ""), ("SBX_SANDBOX_ID", "a/../b"),
                        ("SBX_EVENTS_DIR", "/does/not/exist")):
        p = subprocess.run([PROGRAM], env=dict(good, **{name: value}), capture_output=True, text=True, timeout=PATIENCE_S)
        check(p.returncode == 2 and name in p.stderr, f"{name}={value}: {p}")
    with Stream() as s:
        s.server.close()
        p = subprocess.Popen([PROGRAM], env=dict(good, SBX_STREAM_ENDPOINT=f"http://127.0.0.1:1?token={TOKEN}"), stderr=subprocess.PIPE, text=True)
        line = p.stderr.readline()
        p.terminate()
        check("not reached" in line and TOKEN not in line, line)
        equal(p.wait(), 0, "SIGTERM ends it")
        p.stderr.close()


@test("--help and --version")
def options():
    check("SBX_STREAM_ENDPOINT" in subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout, "help")
    check(subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.startswith("mas-stream "), "version")
    equal(subprocess.run([PROGRAM, "--what"], capture_output=True).returncode, 2, "another option")


main()
