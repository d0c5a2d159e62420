#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes answers.txt, watches.txt and execs.txt from recordings of a real API server, raw bytes on its TLS streams:

    make.py DIRECTORY-OF-RECORDINGS

Kept is what a client has to understand: the status line, the headers that say how to read the body, the body without
managedFields, and frames. Tokens, dates and ids of requests are left out.

answers.txt, watches.txt: "@ NAME METHOD TARGET BYTES", a line; then as many bytes, and a line end.
execs.txt: "@ NAME TARGET", the answer's head up to the empty line, then a frame per line: FIN OPCODE BASE64, or
FIN OPCODE *LENGTH for a frame of one channel's filler."""
import base64
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT = ("content-type", "content-length", "transfer-encoding", "connection", "retry-after", "warning", "upgrade",
        "sec-websocket-accept", "sec-websocket-protocol", "x-content-type-options")


def slim(value):
    if isinstance(value, dict):
        return {k: slim(v) for k, v in value.items() if k != "managedFields"}
    if isinstance(value, list):
        return [slim(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"eyJ[\w-]+(\.[\w-]+)*", "TOKEN", value)
    return value


def slim_text(text):
    try:
        return json.dumps(slim(json.loads(text)), separators=(",", ":")).encode()
    except ValueError:
        return text


def dechunk(body):
    out = b""
    while body:
        size, rest = body.split(b"\r\n", 1)
        n = int(size, 16)
        if n == 0 or len(rest) < n:
            return out + rest[:n]
        out, body = out + rest[:n], rest[n + 2:]
    return out


def chunk(text):
    return b"%x\r\n%s\r\n" % (len(text), text)


def split(raw):
    head, body = raw.split(b"\r\n\r\n", 1)
    lines = head.split(b"\r\n")
    headers = [l for l in lines[1:] if l.split(b":")[0].decode().lower() in KEPT]
    return lines[0], headers, body


def answer(raw):
    first, headers, body = split(raw)
    low = [h.lower() for h in headers]
    if any(h.startswith(b"transfer-encoding") for h in low):
        lines = [slim_text(l) for l in dechunk(body).splitlines() if l]
        text = b"".join(chunk(l + b"\n") for l in lines)
        if body.rstrip().endswith(b"0"):
            text += b"0\r\n\r\n"
    elif any(h.startswith(b"content-length") for h in low):
        text = slim_text(body)
        headers = [h for h in headers if not h.lower().startswith(b"content-length")]
        headers.append(b"Content-Length: %d" % len(text))
    else:
        text = body
    return b"\r\n".join([first] + headers) + b"\r\n\r\n" + text


def request(path):
    line = open(path, "rb").read().split(b"\r\n", 1)[0].decode()
    method, target = line.split(" ")[:2]
    if not target.startswith("/"):  # the request was too long to be recorded
        method, target = "POST", "/api/v1/namespaces/t1/configmaps"
    return method, re.sub(r"eyJ[\w.-]+", "TOKEN", target)


def write(name, parts):
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(b"".join(parts))
    print(name, len(parts), sum(map(len, parts)), "bytes")


def frames(path):
    for line in open(path):
        f = json.loads(line)
        if f.get("dir") != "server":
            continue
        text = f.get("payload_b64") or ""
        whole = len(text) == (f["len"] + 2) // 3 * 4  # long ones were recorded by their length only
        payload = base64.b64decode(text) if whole else b""
        if whole and b"eyJ" not in payload:
            yield "%d %d %s\n" % (f["fin"], f["opcode"], base64.b64encode(payload).decode() or "-")
        else:
            yield "%d %d *%d\n" % (f["fin"], f["opcode"], f["len"])


def main(source):
    answers, watches, execs = [], [], []
    for path in sorted(glob.glob(os.path.join(source, "*.response.http"))):
        name = os.path.basename(path)[:-len(".response.http")]
        base = os.path.join(source, name)
        raw = open(path, "rb").read()
        method, target = request(base + ".request.http")
        if name.endswith("-handshake"):
            stem = name[:-len("-handshake")]
            log = os.path.join(source, stem + ".frames.jsonl")
            if b"SPDY" in raw or "portforward" in stem or not os.path.exists(log):
                continue
            first, headers, _ = split(raw)
            head = b"\n".join([first] + headers).decode()
            execs.append(("@ %s %s\n%s\n\n%s" % (stem, target, head, "".join(frames(log)))).encode())
            continue
        out = answer(raw)
        part = ("@ %s %s %s %d\n" % (name, method, target, len(out))).encode() + out + b"\n"
        (watches if "watch" in target and "watch" in name else answers).append(part)
    write("answers.txt", answers)
    write("watches.txt", watches)
    write("execs.txt", execs)


main(sys.argv[1])
