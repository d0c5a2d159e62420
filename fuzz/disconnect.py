#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that leave at any moment, against real daemons, plain and over TLS, while their keys are revoked.

    FUZZ_SECONDS=600 FUZZ_SEED=1 BUILD=build-fuzz fuzz/disconnect.py

Each connection sends one or more requests in random pieces, up to a random place, takes a random part of the answer
and ends in a random way: a close, a reset, the end of its own side, or a cut in the middle of a TLS record. The
control plane must be the same process at the end, say nothing of a sanitizer's, answer, and have let every
connection go.
"""
import os
import random
import shutil
import ssl
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/lib"))
from masd import *

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus-run")
SECONDS = float(os.environ.get("FUZZ_SECONDS", "600"))
SEED = int(os.environ.get("FUZZ_SEED", "0")) or random.randrange(1, 1 << 30)
CLIENTS = 6        # threads per daemon
KEYS = 4           # that live at once, per daemon
STEP_S = 0.3       # the longest wait for an answer before the client leaves
TOKEN = "the-operators-token"
TROUBLE = ("AddressSanitizer", "LeakSanitizer", "runtime error:", "Assertion")
WS = ("Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
      "Sec-WebSocket-Version: 13\r\n")
CONFIG = "max_connections: 60\nidle_timeout: 5s\nmax_keys: 100000\nkey_requests_per_minute: 0\nrefusals_per_minute: 0\n"


class TlsDaemon(Daemon):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def __init__(self, *flags, **kw):
        super().__init__(*flags, **kw)
        cert, key = os.path.join(self.dir, "cert.pem"), os.path.join(self.dir, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "1", "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.flags += ["-tls-cert", cert, "-tls-key", key]

    def request(self, method, path, body=None, headers=None, timeout=60):
        conn = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context)
        try:
            headers = dict({"Authorization": "Bearer " + self.token} if self.token else {}, **(headers or {}))
            conn.request(method, path, None if body is None else json.dumps(body), headers)
            r = conn.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            conn.close()


def head(method, path, secret, more="", body=b""):
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n{more}{length}\r\n".encode() + body


def requests(r, box, secret):
    """The bytes of a few requests; what runs is over soon by itself."""
    path = "/v1/sandboxes/" + box
    loud = ["sh", "-c", "i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done"]

    def post(where, body, more=""):
        return head("POST", where, secret, "Content-Type: application/json\r\n" + more, json.dumps(body).encode())
    one = [
        lambda: head("GET", r.choice(["/v1/status", "/metrics", "/v1/sandboxes", "/openapi.json", "/nothing"]), secret),
        lambda: post(path + "/exec", {"command": r.choice([["true"], loud, ["sleep", "0.2"]])}),
        lambda: post(path + "/exec", {"command": loud, "stream": True}),
        lambda: post(path + "/exec", {"command": loud}, "Accept: text/event-stream\r\n"),
        lambda: post("/v1/run", {"command": ["sleep", "0.1"]}, f"Idempotency-Key: k{r.randrange(50)}\r\n"),
        lambda: head("PUT", path + f"/files/content?path=f{r.randrange(4)}", secret, body=b"x" * r.randrange(1, 300000)),
        lambda: head("GET", path + "/files/content?path=f0", secret),
        lambda: head("GET", path + "/files/tar?path=.", secret),
        lambda: head("PUT", path + "/files/tar?path=t", secret, "Transfer-Encoding: chunked\r\n") + b"200\r\n" + bytes(512) + b"\r\n0\r\n\r\n",
        lambda: head("GET", "/v1/audit?follow=1", TOKEN, r.choice(["", "Accept: text/event-stream\r\n"])),
        lambda: head("GET", "/v1/approvals/events", secret, WS) + b"\x89\x80\1\1\1\1" * 20,
        lambda: head("GET", "/v1/debug/echo", secret, WS) + b"\x82\xfe\x10\x00\1\1\1\1" + bytes(4096) + b"\x88\x80\1\1\1\1",
        lambda: post("/v1/debug/echo", {"x": "y" * r.randrange(100000)}),
        lambda: post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "f", "version": "1"}}},
            "Accept: application/json, text/event-stream\r\n"),
        lambda: bytes(r.randrange(256) for _ in range(r.randrange(1, 200))),
    ]
    return b"".join(r.choice(one)() for _ in range(r.choice([1, 1, 1, 2, 5])))


def send_pieces(r, send, data):
    at = 0
    while at < len(data):
        n = r.choice([1, 7, 100, 4096, len(data)])
        send(data[at:at + n])
        at += n
        if r.random() < 0.05:
            time.sleep(r.random() * 0.02)


def end(r, s):
    how = r.choice(["close", "reset", "half", "half", "linger"])
    # Silence after the end of its own side is found out in a minute only: not in a short run.
    if how == "reset" or (how == "half" and (SECONDS < 60 or r.random() < 0.5)):
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half":
        s.shutdown(socket.SHUT_WR)
        s.settimeout(STEP_S)
        for _ in range(r.randrange(1, 200)):
            if not s.recv(r.choice([1, 1000, 65536])):
                break
    elif how == "linger":
        time.sleep(r.random() * STEP_S)


def plain_client(r, s, data):
    send_pieces(r, s.sendall, data[:r.randrange(len(data) + 1)] if r.random() < 0.6 else data)
    if r.random() < 0.7:
        s.settimeout(r.random() * STEP_S)
        s.recv(r.choice([1, 100, 65536]))


def tls_client(r, s, data):
    """TLS in memory, so that the ciphertext can be cut anywhere, the handshake's too."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = TlsDaemon.context.wrap_bio(incoming, outgoing)
    s.settimeout(5)
    while True:
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            flight = outgoing.read()
            if r.random() < 0.05:
                s.sendall(flight[:r.randrange(len(flight) + 1)])
                return
            s.sendall(flight)
            got = s.recv(65536)
            if not got:
                return
            incoming.write(got)
    for at in range(0, len(data), 3000):
        tls.write(data[at:at + 3000])
    if r.random() < 0.2:
        try:
            tls.unwrap()
        except ssl.SSLError:
            pass
    plain_client(r, s, outgoing.read())


class Target:
    def __init__(self, daemon, client):
        self.d, self.client = daemon, client
        self.d.token = TOKEN
        self.pid = self.d.get("/v1/status").json["pid"]
        self.box = self.d.post("/v1/sandboxes", {}).json["id"]
        self.keys = [self.new_key() for _ in range(KEYS)]

    def new_key(self):
        a = self.d.post("/v1/keys", {"name": f"fuzz-{random.randrange(1 << 60)}", "roles": ["agent", "operator", "approver", "auditor"]})
        equal(a.status, 201, a)
        return a.json

    def revoke_keys(self, r, until):
        while time.monotonic() < until:
            i = r.randrange(KEYS)
            try:
                old = self.keys[i]["id"]
                self.keys[i] = self.new_key()
                self.d.delete("/v1/keys/" + old)
            except (OSError, http.client.HTTPException, AssertionError):
                pass  # the clients' crowd was before us; the end of the run decides
            time.sleep(r.random() * 0.2)

    def run_client(self, r, until, counts):
        while time.monotonic() < until:
            secret = r.choice(self.keys)["secret"] if r.random() < 0.9 else "mas_wrong"
            data = requests(r, self.box, secret)
            try:
                with socket.create_connection(("127.0.0.1", self.d.port), timeout=5) as s:
                    self.client(r, s, data)
                    end(r, s)
            except (OSError, ssl.SSLError):
                pass
            counts.append(1)

    def check(self):
        text = open(self.d.log_path, errors="replace").read()
        found = [w for w in TROUBLE if w in text]
        if found:
            os.makedirs(PLACE, exist_ok=True)
            shutil.copy(self.d.log_path, PLACE + "/disconnect.daemon.log")
        check(not found, f"the daemon's log: {found}, in fuzz/corpus-run/disconnect.daemon.log")
        wait_for(lambda: self.d.get("/v1/status").status == 200, "an answer")
        equal(self.d.get("/v1/status").json["pid"], self.pid, "the control plane is the same process")
        # One whose client ended its side first, and then left without a word, is found out by the kernel.
        wait_for(lambda: open_connections(self.pid, self.d.port) <= 1, "every connection is let go", 150)


def open_connections(pid, port):
    """Established or half-closed ones of the daemon's port that it still holds."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except OSError:
            pass
    n = 0
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        f = line.split()
        n += int(f[1].split(":")[1], 16) == port and f[3] != "0A" and f"socket:[{f[9]}]" in inodes
    return n


def run():
    flags = ("-auth-token", TOKEN, "--debug-endpoints")
    counts = []
    with Daemon(*flags, config=CONFIG) as plain, TlsDaemon(*flags, config=CONFIG) as tls:
        targets = [Target(plain, plain_client), Target(tls, tls_client)]
        until = time.monotonic() + SECONDS
        threads = []
        for n, t in enumerate(targets):
            threads.append(threading.Thread(target=t.revoke_keys, args=(random.Random(SEED + n), until)))
            for i in range(CLIENTS):
                threads.append(threading.Thread(target=t.run_client, args=(random.Random((SEED + n) * 1000 + i), until, counts)))
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for t in targets:
            t.check()
    return len(counts)


@test("clients that leave at any moment")
def test_clients_that_leave_at_any_moment():
    print(f"# seed {SEED}", flush=True)
    print(f"# {run()} connections in {SECONDS:.0f} s")


main()
