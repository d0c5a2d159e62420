#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands between a daemon and a container engine and, where it is told to, does what engines should not.

    engine-proxy.py SOCKET ENGINE_SOCKET RULES

RULES is a file with a JSON list of [name, regular expression of "METHOD path", what to do, how often], read for every
request; a name counts once for all:
    hang     no answer, ever
    lose     the engine does it, and nobody hears of it
    cut      the engine does it; half of its answer arrives
    route    the engine does it, and the container of the path has a network before anybody hears of it
    PATH     the answer is that of GET PATH"""
import json
import re
import socket
import subprocess
import sys
import threading

own, engine, rules = sys.argv[1:]


def request_of(c):
    data = b""
    while b"\r\n\r\n" not in data:
        more = c.recv(65536)
        if not more:
            return None
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.I)
    chunked = re.search(rb"\r\ntransfer-encoding: *chunked", head, re.I)
    while (chunked and not body.endswith(b"0\r\n\r\n")) or (length and len(body) < int(length[1])):
        body += c.recv(65536)
    return head, body


def ask(head, body=b""):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(engine)
        s.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
        answer = b""
        while more := s.recv(65536):
            answer += more
        return answer


lock, used = threading.Lock(), {}


def rule_for(line):
    with lock, open(rules) as f:
        for name, pattern, do, times in json.load(f):
            if re.search(pattern, line) and used.get(name, 0) < times:
                used[name] = used.get(name, 0) + 1
                return do
    return None


def give_route(line):
    container = re.search("/containers/([^/?]*)/", line)[1]
    answer = ask(f"GET /v1.41/containers/{container}/json HTTP/1.1\r\nHost: e".encode())
    pid = re.search(rb'"Pid": ?(\d+)', answer)[1].decode()
    subprocess.run(["nsenter", "-t", pid, "-n", "ip", "-batch", "-"], check=True, text=True,
                   input="link add out0 type veth peer name out1\naddr add 11.1.1.1/24 dev out0\nlink set out0 up\nlink set out1 up\n")


def serve(c):
    with c:
        request = request_of(c)
        if not request:
            return
        line = request[0].split(b" HTTP/")[0].decode()
        todo = rule_for(line)
        if todo == "hang":
            c.recv(1)
            return
        answer = ask(f"GET {todo} HTTP/1.1\r\nHost: e".encode() if todo and todo[0] == "/" else request[0],
                     b"" if todo and todo[0] == "/" else request[1])
        if todo == "route":
            give_route(line)
        if todo != "lose":
            c.sendall(answer[:len(answer) // 2] if todo == "cut" else answer)


def guarded(c):
    try:
        serve(c)
    except OSError:
        pass


server = socket.socket(socket.AF_UNIX)
server.bind(own)
server.listen(64)
while True:
    threading.Thread(target=guarded, args=(server.accept()[0],), daemon=True).start()
