#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A server that runs inside a sandbox, for test-ports.py: what it answers is what the path asks for.

/echo      the request's line, fields and body, as JSON
/raw?HEX   those bytes, and the end of the connection
/hold?HEX  those bytes, and nothing more until the client leaves; then a file /workspace/left is made
/reset?HEX those bytes, then a reset
/big?N     N bytes, chunked
/slow      an event, then another one after the client has said /go on a second connection
/ws        a WebSocket that echoes frames
/eat       reads the body slowly enough to be waited for, and says how long it was
"""
import base64
import hashlib
import json
import os
import socket
import struct
import sys
import threading

go = threading.Event()


def read_head(f):
    line = f.readline().decode("latin-1").rstrip("\r\n")
    fields = []
    while True:
        field = f.readline().decode("latin-1").rstrip("\r\n")
        if not field:
            return line, fields
        name, value = field.split(":", 1)
        fields.append([name, value.strip()])


def read_body(f, fields):
    known = {n.lower(): v for n, v in fields}
    if known.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            size = int(f.readline(), 16)
            body += f.read(size)
            f.readline()
            if not size:
                return body
    return f.read(int(known.get("content-length", 0)))


def frame(opcode, data):
    size = struct.pack("!BB", 0x80 | opcode, len(data)) if len(data) < 126 else struct.pack("!BBH", 0x80 | opcode, 126, len(data))
    return size + data


def websocket(c, f, fields):
    key = {n.lower(): v for n, v in fields}["sec-websocket-key"]
    accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
    # The first frame comes with the head: it must not be lost behind it.
    c.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Mas-Evil: 1\r\nSet-Cookie: a=b\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode() + frame(1, b"hello"))
    while True:
        a, b = f.read(2)
        n = b & 127
        n = struct.unpack("!H", f.read(2))[0] if n == 126 else n
        mask = f.read(4)
        data = bytes(x ^ mask[i % 4] for i, x in enumerate(f.read(n)))
        c.sendall(frame(a & 15, data))
        if a & 15 == 8:
            return


def serve(c):
    f = c.makefile("rb")
    line, fields = read_head(f)
    method, target, _ = line.split(" ")
    path, _, query = target.partition("?")
    if path == "/ws":
        return websocket(c, f, fields)
    if path in ("/raw", "/hold", "/reset"):
        c.sendall(bytes.fromhex(query))
        if path == "/hold":
            while c.recv(4096):
                pass
            open("/workspace/left", "w").close()
        if path == "/reset":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return
    if path == "/big":
        c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        left = int(query)
        while left:
            n = min(left, 50000)
            c.sendall(b"%x\r\n" % n + b"x" * n + b"\r\n")
            left -= n
        return c.sendall(b"0\r\nTrailer: no\r\n\r\n")
    if path == "/slow":
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: one\n\n")
        go.wait(60)
        return c.sendall(b"data: two\n\n")
    body = read_body(f, fields)
    if path == "/go":
        go.set()
    out = json.dumps({"line": line, "fields": fields, "body": body.decode("latin-1") if len(body) < 100000 else None, "length": len(body)}).encode()
    c.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(out) + out)


def handle(c):
    try:
        serve(c)
    except (OSError, ValueError, TypeError):
        pass
    finally:
        try:
            c.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        c.close()


host, port = sys.argv[1], int(sys.argv[2])
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((host, port))
s.listen(64)
while True:
    threading.Thread(target=handle, args=(s.accept()[0],), daemon=True).start()
