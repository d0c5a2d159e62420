#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What bad input gets: a clear error of its own, and a daemon, other sandboxes and a disk as before.

Every test here runs beside a sandbox that must still work afterwards, and leaves the daemon's
processes with no more descriptors, the host with no more cgroups than it found."""
import glob
import os
import re
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MIB = 1024 * 1024
_neighbour = None


def daemon():
    return shared_daemon("--debug-endpoints", "--header-timeout", "1s", "--body-timeout", "1s", "--write-timeout", "2s",
                         "--ws-ping", "400ms", "--kill-grace", "500ms", "--blanks", "2", "--cgroup-prefix", f"mas-bad-{os.getpid()}")


def neighbour():
    global _neighbour
    if not _neighbour or _neighbour.daemon.get(_neighbour.path).status != 200:
        _neighbour = daemon().sandbox()
        _neighbour.sh("echo here > /workspace/f")
    return _neighbour


def descriptors():
    """Open descriptors of the daemon's own processes (supervisor, warden, control plane, gateway)."""
    warden = daemon().process.pid
    all_of_it = [warden, *below(warden)]
    runners = {p for p in all_of_it if program_of(p).startswith("mas-toolrunner")}
    own = [p for p in all_of_it if not runners.intersection([p, *ancestors_of(p)])]
    return sum(len(descriptors_of(p)) for p in own)


def cgroups():
    return len(glob.glob(f"/sys/fs/cgroup/**/mas-bad-{os.getpid()}/**/", recursive=True))


def harmless(name):
    """A test, and the proof that it did no harm."""
    def add(fn):
        def run():
            n = neighbour()
            fds, groups = settled(descriptors, 0.2), settled(cgroups, 0.2)  # sandboxes made ahead come and go
            pid = daemon().get("/v1/status").json["pid"]
            fn()
            equal(n.sh("cat /workspace/f")["stdout"], "here\n", "the other sandbox")
            equal(daemon().run("echo", "alive")["stdout"], "alive\n")
            equal(daemon().get("/v1/status").json["pid"], pid, "the control plane's pid: it crashed")
            wait_for(lambda: settled(descriptors, 0.2) <= fds + 1, f"descriptors back to {fds}, now {descriptors()}")
            wait_for(lambda: settled(cgroups, 0.2) <= groups + 1, f"cgroups back to {groups}, now {cgroups()}")
        return test(name)(run)
    return add


def fail(a, status, *words):
    equal(a.status, status, a)
    text = a.body.decode()
    for w in words:
        check(w in text, f"{w!r} is not in {text[:300]!r}")
    check(a.json["error"], a)


def answered_status(raw):
    m = re.match(rb"HTTP/1\.1 (\d+)", raw)
    return int(m.group(1)) if m else None


ROUTES = ("/v1/run", "/v1/sandboxes", "/sandboxes", "/v1/sandbox/execute", "/v1/sandbox/create", "/v1/sandbox/destroy")


# --- bodies

@harmless("not JSON, truncated JSON, nothing")
def test_not_json_truncated_json_nothing():
    for route in ROUTES:
        for body, word in ((b"hello", "invalid JSON"), (b'{"command":["a"', "invalid JSON"), (b"{", "invalid JSON"),
                           (b"", "empty"), (b"   ", "invalid JSON"), (b"{}{}", "invalid JSON"), (b"{'a':1}", "invalid JSON"),
                           (b'{"a":1,}', "invalid JSON"), (b"[1,2]", "object"), (b"null", "object"), (b"3", "object"),
                           (b"\xef\xbb\xbf{}", "invalid JSON"), (b'{"a":NaN}', "invalid JSON"), (b'{"a":01}', "invalid JSON")):
            fail(daemon().post(route, body), 400, word)
    fail(daemon().post("/v1/run", b'{\n  "command": ["a"],\n  oops\n}'), 400, "line 3")


@harmless("duplicate keys, bad UTF-8, NUL bytes")
def test_duplicate_keys_bad_utf_8_nul_bytes():
    for route in ROUTES:
        fail(daemon().post(route, b'{"id":"a","id":"b"}'), 400, "duplicate")
        fail(daemon().post(route, b'{"id":"\xff\xfe"}'), 400, "unable to decode")
        fail(daemon().post(route, b'{"id":"\xed\xa0\x80"}'), 400, "unable to decode")
        fail(daemon().post(route, b'{"id":"a\\u0000b"}'), 400, "u0000")
        fail(daemon().post(route, b'{"id":"a\0b"}'), 400, "invalid JSON")
        fail(daemon().post(route, b'{"i\\u0000d":"a"}'), 400, "invalid JSON")
        fail(daemon().post(route, b'{"id":"\\ud800"}'), 400, "invalid JSON")


@harmless("wrong types and numbers out of range, each by its name")
def test_wrong_types_and_numbers_out_of_range_each():
    for body, field in (({"command": "ls"}, "command"), ({"command": [1]}, "command"), ({"command": {"a": 1}}, "command"),
                        ({"command": ["true"], "env": []}, "env"), ({"command": ["true"], "env": {"A": None}}, "env"),
                        ({"command": ["true"], "timeout_ms": "1"}, "timeout_ms"), ({"command": ["true"], "timeout_ms": 1.5}, "timeout_ms"),
                        ({"command": ["true"], "timeout_ms": 10 ** 18}, "timeout_ms"), ({"command": ["true"], "stdin": 5}, "stdin"),
                        ({"command": ["true"], "limits": 5}, "limits"), ({"command": ["true"], "limits": {"memory_mb": 1e300}}, "memory_mb"),
                        ({"command": ["true"], "limits": {"cpu_cores": True}}, "cpu_cores"), ({"command": ["true"], "max_output_bytes": -1}, "max_output_bytes"),
                        ({"command": ["true"], "mounts": {}}, "mounts"), ({"command": ["true"], "mounts": [{"source": 1}]}, "source"),
                        ({"command": ["true"], "files": [7]}, "files"), ({"command": ["true"], "pty": 1}, "pty"),
                        ({"command": ["true"], "stream": "yes"}, "stream"), ({"command": ["true"], "cwd": []}, "cwd"),
                        ({"command": ["true"], "workdir": "x"}, "workdir"), ({"language": 5, "code": "x"}, "language"),
                        ({"command": ["true"], "accept_weaker": "io"}, "accept_weaker"), ({"command": ["true"], "runtime": 5}, "runtime")):
        a = daemon().post("/v1/run", body)
        fail(a, 400, field)
    for number in ("99999999999999999999999", "-99999999999999999999999", "1e400"):
        fail(daemon().post("/v1/run", '{"command":["true"],"timeout_ms":%s}' % number), 400)


@harmless("a deeply nested body")
def test_a_deeply_nested_body():
    for n in (200, 5000, 300000):
        fail(daemon().post("/v1/run", "[" * n), 400, "nested")
        fail(daemon().post("/v1/run", '{"a":' * (n // 2)), 400, "nested")


@harmless("JSON of very many parts: 413 that names the limit, over every way in")
def test_json_of_very_many_parts_413_that_names_the_limit():
    d = daemon()
    bodies = ({f"m{i}": 1 for i in range(60000)}, {"env": {f"m{i}": "1" for i in range(20000)}}, {"a": [[{"x": 1}]] * 20000},
              {"a": [[]] * 200000})
    for body in bodies:
        for path in ("/v1/run", "/v1/sandboxes", "/sandboxes", "/v1/sandbox/execute", "/api/actions"):
            a = d.post(path, body)
            check(a.status == 413 and b"at most 10000" in a.body, (path, a.status, a.body[:200]))
    # The limit of a command's own arguments is further away.
    equal(d.run("true", *["x"] * 16383)["exit_code"], 0, "as many words as a command may have")
    for path in ("/v1/run", neighbour().path + "/exec", f"/sandboxes/{neighbour().id}/exec"):
        fail(d.post(path, {"command": ["true"] + ["x"] * 16384}), 400, "16384")


@harmless("a body of 100 MiB: 413, said before it is all sent")
def test_a_body_of_100_mib_413_said_before_it_is_all_sent():
    for framing in ("Content-Length: 104857600", "Transfer-Encoding: chunked"):
        s = daemon().connect()
        s.sendall(f"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n".encode())
        piece = b"x" * 65536
        if "chunked" in framing:
            piece = b"10000\r\n" + piece + b"\r\n"
        sent, answer = 0, b""
        s.settimeout(0)
        while sent < 100 * MIB and not answer:
            try:
                answer = s.recv(65536)
            except BlockingIOError:
                pass
            try:
                sent += s.send(piece[sent % len(piece):])
            except BlockingIOError:
                time.sleep(0.001)
            except OSError:
                break
        s.settimeout(60)
        try:
            answer = answer or s.recv(65536)
        except OSError:
            pass
        equal(answered_status(answer), 413, (framing, sent))
        check(sent < 40 * MIB, f"{sent} bytes were taken")
        s.close()
    a = daemon().post("/v1/run", b"x" * (3 * MIB))
    fail(a, 413, "max_body_bytes")


@harmless("header bombs")
def test_header_bombs():
    bomb = b"".join(b"X-%d: %s\r\n" % (i, b"a" * 100) for i in range(5000))
    equal(answered_status(daemon().raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + bomb + b"\r\n")), 431)
    equal(answered_status(daemon().raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * MIB + b"\r\n\r\n")), 431)
    check(answered_status(daemon().raw(b"GET /" + b"a" * MIB + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")) in (414, 431), "a long path")
    many = b"".join(b"A:\r\n" for _ in range(20000))
    check(answered_status(daemon().raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")) == 431, "many headers")


@harmless("slow senders: of headers, of a body, of nothing")
def test_slow_senders_of_headers_of_a_body_of_nothing():
    socks = []
    for start in (b"GET /healthz HT", b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{",
                  b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"):
        for _ in range(5):
            s = daemon().connect()
            s.sendall(start)
            s.settimeout(60)
            socks.append(s)
    for s in socks:
        got = b""
        try:
            while True:
                piece = s.recv(65536)
                if not piece:
                    break
                got += piece
        except ConnectionError:
            pass
        check(answered_status(got) in (408, None), got[:100])
        s.close()
    s = daemon().connect()
    s.settimeout(60)
    got, started = b"", time.time()
    try:
        for c in b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 50:
            s.sendall(bytes([c]))
            time.sleep(0.05)
            if time.time() - started > 2.5:
                break
        got = s.recv(65536)
    except OSError:
        pass
    check(answered_status(got) in (408, None), "one byte at a time keeps a connection past header_timeout")


@harmless("pipelined garbage")
def test_pipelined_garbage():
    good = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    out = daemon().raw(good + good + b"\x00\x01garbage\r\n\r\n" + good)
    equal(re.findall(rb"HTTP/1\.1 (\d+)", out), [b"200", b"200", b"400"])
    for bad in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100, b"\n\n\n\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n",
                b"GET /healthz HTTP/1.1\nHost: localhost\n\n", b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"GET /healthz HTTP/1.1\r\n\r\n"):
        got = daemon().raw(bad, silence=1.5, patience=1.5)
        check(answered_status(got) in (400, 403, 505, None) and b"200 OK" not in got, (bad[:60], got[:80]))


# --- WebSockets

@harmless("a half-open WebSocket is let go")
def test_a_half_open_websocket_is_let_go():
    n = daemon().sandbox()
    e = daemon().post(f"{n.path}/exec", {"command": ["sleep", "300"], "async": True}).json["exec_id"]
    socks = [daemon().ws(f"/sandboxes/{n.id}/stream?exec_id={e}") for _ in range(5)]
    for ws in socks:
        ws.sock.settimeout(60)
        try:
            while ws.sock.recv(65536):
                pass
        except ConnectionError:
            pass
        ws.close()
    n.delete()


@harmless("handshakes that are none")
def test_handshakes_that_are_none():
    n = neighbour()
    e = daemon().post(f"{n.path}/exec", {"command": ["true"], "async": True}).json["exec_id"]
    base = f"GET /sandboxes/{n.id}/stream?exec_id={e} HTTP/1.1\r\nHost: localhost\r\n"
    for headers in ("Upgrade: websocket\r\nConnection: Upgrade\r\n", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: short\r\nSec-WebSocket-Version: 13\r\n",
                    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 8\r\n",
                    "Upgrade: h2c\r\nConnection: Upgrade\r\n"):
        got = daemon().raw((base + headers + "\r\n").encode(), silence=0.1)
        check(answered_status(got) in (400, 426), (headers, got[:100]))


@harmless("unmasked, oversized, reserved and broken frames")
def test_unmasked_oversized_reserved_and_broken_frames():
    def closed(raw):
        ws = daemon().ws("/v1/debug/echo")
        equal(ws.status, 101)
        ws.sock.settimeout(60)
        try:
            ws.sock.sendall(raw)
            list(ws.messages())
        except OSError:
            pass
        ws.close()
        return ws.close_code
    equal(closed(b"\x81\x05hello"), 1002, "unmasked")
    equal(closed(b"\x82\xff" + struct.pack(">Q", 2 * MIB) + b"\0\0\0\0" + b"x" * 100), 1009, "oversized")
    check(closed(b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"\0\0\0\0") in (1002, 1009), "length with its top bit")
    equal(closed(b"\xf1\x80\0\0\0\0"), 1002, "reserved bits")
    equal(closed(b"\x83\x80\0\0\0\0"), 1002, "reserved opcode")
    equal(closed(b"\x89\xfe\x01\x00\0\0\0\0" + b"x" * 256), 1002, "a ping over 125")
    equal(closed(b"\x80\x80\0\0\0\0"), 1002, "continuation of nothing")
    equal(closed(b"\x81\x82\0\0\0\0\xff\xfe"), 1007, "text that is no UTF-8")
    ws = daemon().ws("/v1/debug/echo")
    for _ in range(40):
        try:
            ws.send_frame(2 if _ == 0 else 0, b"x" * 65536, fin=False)
        except OSError:
            break
    list(ws.messages())
    equal(ws.close_code, 1009, "a message over the limit in pieces")
    ws.close()


# --- names

@harmless("unknown ids and ids with ../ in every place")
def test_unknown_ids_and_ids_with_in_every_place():
    d, n = daemon(), neighbour()
    for bad in ("nope", "sbx-nope", "..", "%2e%2e", "..%2f..%2fetc%2fpasswd", "a%00b", "%ff", "x" * 300):
        for method, path in (("GET", "/sandboxes/{}"), ("DELETE", "/sandboxes/{}"), ("POST", "/sandboxes/{}/exec"),
                             ("GET", "/v1/sandboxes/{}"), ("DELETE", "/v1/sandboxes/{}"), ("POST", "/v1/sandboxes/{}/exec"),
                             ("GET", "/v1/sandboxes/{}/files?path=/"), (  "GET", "/v1/sandboxes/{}/stats"),
                             ("GET", n.path + "/execs/{}"), ("POST", n.path + "/execs/{}/cancel"),
                             ("GET", f"/sandboxes/{n.id}/execs/{{}}"), ("GET", n.path + "/execs/{}/logs")):
            a = d.request(method, path.format(bad), '{"command":["true"]}' if method == "POST" else None)
            check(a.status in (400, 404), (method, path.format(bad), a))
            check(b"root:" not in a.body, a)
    for path in ("/sandboxes/../../etc/passwd", "/../etc/passwd", "//etc/passwd", "/v1/sandboxes/../../../etc/passwd"):
        check(answered_status(d.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), silence=0.1)) in (400, 404), path)
    fail(d.post("/sandboxes", {"id": "../x"}), 400)
    fail(d.post("/v1/sandboxes", {"id": "../x"}), 400, "id")
    fail(d.post("/v1/sandbox/create", {"sandbox_id": "../x"}), 400, "sandbox_id")


@harmless("two creates with one id, at once")
def test_two_creates_with_one_id_at_once():
    for route, body, good in (("/sandboxes", {"id": "twin"}, 200), ("/v1/sandboxes", {"id": "twin"}, 201), ("/v1/sandbox/create", {"sandbox_id": "twin"}, 200)):
        out = []
        threads = [threading.Thread(target=lambda: out.append(daemon().post(route, body).status)) for _ in range(6)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        equal(sorted(out), [good] + [409] * 5)
        equal(daemon().delete("/v1/sandboxes/" + ("twin" if "sandbox/" in route else "sbx-twin")).status, 200)


# --- commands

@harmless("a command that does not exist, is a directory, is not executable, is no program")
def test_a_command_that_does_not_exist_is_a_directory():
    n = neighbour()
    n.sh("printf '#!/no/such/interpreter\\n' > /workspace/script; chmod +x /workspace/script; ln -sf loop /workspace/loop")
    for command, code, words in ((["/nope"], 127, "No such file"), (["nope-in-path"], 127, "No such file"), ([""], 127, ""),
                                 (["/etc"], 126, "directory"), (["/etc/passwd"], 126, "Permission denied"), (["/etc/passwd/x"], 127, "Not a directory"),
                                 (["/workspace/script"], 127, "No such file"),
                                 (["/workspace/loop"], 126, "symbolic"), (["x" * 5000], 126, "too long")):
        r = n.exec(*command)
        equal((r["status"], r["exit_code"]), ("failed", code), (command[0][:40], r))
        check(words in r["error"], r)


@harmless("argv and environment over the kernel's limits")
def test_argv_and_environment_over_the_kernel_limits():
    n = neighbour()
    fail(daemon().post(n.path + "/exec", {"command": ["true", "x" * 200000]}), 413, "131071")
    fail(daemon().post(n.path + "/exec", {"command": ["true"] + ["y"] * 70000}), 400, "command")
    with Daemon("--max-body-bytes", "16Mi") as d:
        fail(d.post("/v1/run", {"command": ["true"] + ["z" * 100000] * 40}), 413, "2 MiB")
        fail(d.post("/v1/run", {"command": ["true"], "env": {f"V{i}": "z" * 100000 for i in range(40)}}), 413, "2 MiB")
        r = d.post("/v1/run", {"command": ["true"], "env": {"V": "z" * 200000}})
        check(r.status in (400, 413) or r.json["status"] == "failed", "one variable over the kernel's limit")


@harmless("env with = in a name, or no name, or NUL")
def test_env_with_in_a_name_or_no_name_or_nul():
    for env in ({"A=B": "x"}, {"": "x"}, {"=": "x"}):
        fail(daemon().post("/v1/run", {"command": ["true"], "env": env}), 400, "env")
        fail(daemon().post("/v1/sandboxes", {"env": env}), 400, "env")
        fail(daemon().post("/sandboxes", {"env": env}), 400, "environment")
        fail(daemon().post(neighbour().path + "/exec", {"command": ["true"], "env": env}), 400, "env")


@harmless("exec in a deleted, dying or crashed sandbox; delete while running; cancel twice")
def test_exec_in_a_deleted_dying_or_crashed_sandbox():
    d = daemon()
    sb = d.sandbox()
    e = d.post(sb.path + "/exec", {"command": ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], "async": True}).json["exec_id"]
    time.sleep(0.2)
    equal(d.post(f"{sb.path}/execs/{e}/cancel").status, 200)
    fail(d.post(f"{sb.path}/execs/{e}/cancel"), 409, "canceled")
    out = []
    def hammer():
        for _ in range(30):
            out.append(d.post(sb.path + "/exec", {"command": ["true"]}))
    t = threading.Thread(target=hammer)
    t.start()
    equal(sb.delete().status, 200)
    t.join()
    check({a.status for a in out} <= {200, 404, 409}, {a.status for a in out})
    fail(d.post(sb.path + "/exec", {"command": ["true"]}), 404, sb.id)
    fail(d.get(f"{sb.path}/execs/{e}"), 404)
    fail(d.get(f"{sb.path}/files?path=/"), 404)


@harmless("out of disk and inodes inside: ENOSPC there, nothing elsewhere")
def test_out_of_disk_and_inodes_inside_enospc_there():
    with daemon().sandbox(limits={"disk_mb": 8}) as sb:
        r = sb.sh("cat /dev/zero > /workspace/fill; echo x > /tmp/y && cat /tmp/y; rm /workspace/fill; echo again > /workspace/z; cat /workspace/z")
        check("No space left" in r["stderr"] and r["stdout"].endswith("again\n"), r)
        r = sb.exec("python3", "-c", "import os\nn = 0\ntry:\n  while n < 100000: os.mkdir(f'/tmp/d{n}'); n += 1\nexcept OSError as e: print(e.strerror)")
        equal(r["stdout"], "No space left on device\n", r)
        sb.sh("rm -rf /tmp/d*")
        fail(daemon().put(f"{sb.path}/files/content?path=/workspace/big", b"x" * (20 * MIB)), 507, "no_space")


@harmless("out of file descriptors inside")
def test_out_of_file_descriptors_inside():
    r = neighbour().exec("python3", "-c", "import os, errno\nn = 0\ntry:\n  while True: os.open('/dev/null', 0); n += 1\nexcept OSError as e: print(errno.errorcode[e.errno], n > 100)")
    equal(r["stdout"], "EMFILE True\n")


@harmless("out of pids and a fork bomb")
def test_out_of_pids_and_a_fork_bomb():
    with daemon().sandbox(limits={"max_processes": 64}) as sb:
        daemon().post(sb.path + "/exec", {"command": ["bash", "-c", ":(){ :|:& };:"], "async": True})
        time.sleep(0.7)
        check(daemon().get(sb.path + "/stats").json["processes"] <= 66, "over its limit")
        a = daemon().post(sb.path + "/exec", {"command": ["true"], "timeout_ms": 3000})
        check(a.status in (200, 409, 429, 502), a)
        started = time.time()
        equal(sb.delete().status, 200)
        check(time.time() - started < PATIENCE_S, "a fork bomb held up its deletion")


@harmless("a memory bomb, of one process and of many")
def test_a_memory_bomb_of_one_process_and_of_many():
    r = daemon().run("python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 20))", limits={"memory_mb": 64})
    equal(r["status"], "oom_killed", r)
    with daemon().sandbox(limits={"memory_mb": 64}) as sb:
        r = sb.sh("for i in 1 2 3 4; do python3 -c 'x = bytearray(40 << 20); import time; time.sleep(2)' & done; wait; echo survived", timeout_ms=20000)
        equal(sb.sh("echo still here")["stdout"], "still here\n")
        r = sb.exec("sh", "-c", "cat /dev/zero | tail")
        check(r["exit_code"] != 0, r)
        equal(sb.sh("echo and now")["stdout"], "and now\n")


@harmless("a command that writes 10 GiB")
def test_a_command_that_writes_10_gib():
    d = daemon()
    with d.sandbox() as sb:
        r = sb.exec("head", "-c", "10737418240", "/dev/zero", timeout_ms=4000, max_output_bytes=1000)
        check(r["status"] in ("completed", "timed_out") and r["truncated"], {k: r[k] for k in r if k != "stdout"})
        check(r["stdout_omitted_bytes"] > 16 * MIB, "the command was slowed down: %d" % r["stdout_omitted_bytes"])
        check(len(r["stdout"]) < 1100, "more than asked for")
        pid = d.get("/v1/status").json["pid"]
        rss = int(status_of(pid)["VmHWM"].split()[0])
        check(rss < 300 * 1024, f"the control plane used {rss} KiB")


@harmless("a command that ignores SIGTERM")
def test_a_command_that_ignores_sigterm():
    r = with_time(lambda ms: daemon().run("sh", "-c", "trap '' TERM INT HUP; echo on; while :; do sleep 0.05; done", timeout_ms=ms),
                  lambda r: r["stdout"])
    equal((r["status"], r["stdout"]), ("timed_out", "on\n"))
    n = neighbour()
    e = daemon().post(n.path + "/exec", {"command": ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"], "async": True}).json["exec_id"]
    time.sleep(0.2)
    daemon().post(f"{n.path}/execs/{e}/cancel")
    wait_for(lambda: daemon().get(f"{n.path}/execs/{e}").json["status"] == "canceled", "killed after the grace")


@harmless("a client that never reads: the command goes on, the connection goes")
def test_a_client_that_never_reads_the_command_goes():
    d = daemon()
    n = d.sandbox()
    e = d.post(n.path + "/exec", {"command": ["sh", "-c", "head -c 30000000 /dev/zero; echo done >&2"], "async": True}).json["exec_id"]
    ws = d.ws(f"/sandboxes/{n.id}/stream?exec_id={e}")
    plain = d.connect()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.sendall(f"GET {n.path}/execs/{e}/logs?follow=1 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    wait_for(lambda: d.get(f"{n.path}/execs/{e}").json["status"] == "completed", "the command ends all the same")
    def gone(s):
        try:
            s.setblocking(False)
            s.send(b"x")
            return False
        except BlockingIOError:
            return False
        except OSError:
            return True
    wait_for(lambda: gone(plain), "the connection is closed")
    plain.close()
    ws.close()
    flood = d.connect()
    flood.setblocking(False)
    request, sent = f"GET {n.path}/execs/{e}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 50, 0
    try:
        while sent < 20 * MIB:
            sent += flood.send(request)
    except OSError:
        pass
    check(sent < 8 * MIB, f"{sent} bytes of requests taken from a client that reads nothing")
    flood.close()
    n.delete()


@harmless("clients that leave at every moment")
def test_clients_that_leave_at_every_moment():
    d, n = daemon(), neighbour()
    body = b'{"command":["sleep","0.3"]}'
    whole = b"POST %s/exec HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (n.path.encode(), len(body), body)
    for cut in list(range(1, len(whole), 9)) + [len(whole)]:
        s = d.connect()
        s.sendall(whole[:cut])
        s.close()
    for delay in (0, 0.01, 0.05, 0.2):
        for path in (b"/v1/run", b"/v1/sandboxes"):
            s = d.connect()
            s.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (path, len(body), body))
            time.sleep(delay)
            s.close()
    wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] <= 1, "all ended")
    for s in d.get("/v1/sandboxes?limit=1000").json["sandboxes"]:
        if s["id"] != n.id:
            d.delete("/v1/sandboxes/" + s["id"])


@test("the daemon is out of descriptors: it says so, and recovers")
def test_the_daemon_is_out_of_descriptors_it_says():
    with Daemon("--blanks", "0", command=["prlimit", "--nofile=160:160", SANDBOXD]) as d:
        socks = []
        for _ in range(400):
            try:
                s = d.connect()
                s.settimeout(0.05)
                socks.append(s)
            except OSError:
                break
        time.sleep(0.5)
        for s in socks:
            s.close()
        wait_for(lambda: d.get("/healthz").status == 200, "it accepts again")
        equal(d.run("echo", "x")["stdout"], "x\n")
        made = []
        for _ in range(200):
            a = d.post("/v1/sandboxes", {})
            if a.status != 201:
                break
            made.append(a.json["id"])
        check(a.status in (429, 500, 502, 503, 507), a)
        check(len(a.json["error"]["message"]) > 10, a)
        for i in made:
            equal(d.delete("/v1/sandboxes/" + i).status, 200)
        equal(d.run("echo", "y")["stdout"], "y\n")


main()
