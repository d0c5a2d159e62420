#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Objects that end while others still know them: clients that leave, sandboxes that are deleted or
die in the middle of everything, and limits that must hold across it. Worth most in a build with
-Db_sanitize=address,undefined, where a use after free ends the control plane with a report."""
import glob
import os
import random
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *


def status(d):
    return d.get("/v1/status").json


def counts(d):
    return status(d)["counts"]


def wait_idle(d, sandboxes=0, seconds=PATIENCE_S):
    def idle():
        c = counts(d)
        return c["sandboxes"] == sandboxes and c["execs_running"] == 0 and c["creating"] == 0
    wait_for(idle, f"{sandboxes} sandboxes and no commands, not {counts(d)}", seconds)


class Steady:
    """The control plane lives through the block, and no sanitizer has anything to say."""

    def __init__(self, d):
        self.d = d

    def __enter__(self):
        self.pid = status(self.d)["pid"]
        return self.pid

    def __exit__(self, kind, value, trace):
        with open(self.d.log_path, errors="replace") as f:
            log = f.read()
        for word in ("Sanitizer", "runtime error:"):
            if word in log:
                raise AssertionError("a report in the log:\n" + log[log.index(word):][:3000])
        if kind is None:
            equal(status(self.d)["pid"], self.pid, "the control plane was started again")


def send_request(d, method, path, body=b"", length=None):
    """Sends a request and returns its socket, the answer unread."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    s = d.connect()
    n = len(body) if length is None else length
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {n}\r\n\r\n".encode()
              + body)
    return s


def find_descendant(root, name):
    """One with that name and its parent."""
    return next(((p, parent) for p in named(name, below(root)) if (parent := parent_of(p))), None)


def create_a(d, policy, name=None):
    a = d.post("/v1/sandbox/create", dict(policy=policy, **({"sandbox_id": name} if name else {})))
    equal(a.status, 200, a)
    return a.json["sandbox_id"]


def execute_a(d, sandbox_id, tool, args, **kw):
    return d.post("/v1/sandbox/execute",
                  dict(sandbox_id=sandbox_id, tool={"name": tool, "args": args}, **kw)).json


@test("a client of a one-shot's stream leaves after the command has ended")
def test_a_client_of_a_one_shot_stream_leaves():
    with Daemon() as d, Steady(d):
        s = send_request(d, "POST", "/v1/run",
                         {"command": ["sh", "-c", "yes | head -c 40000000"], "stream": True})
        wait_for(lambda: counts(d)["execs_total"] == 1, "a command")
        wait_idle(d)
        s.close()
        time.sleep(0.3)
        d.run("true")


@test("a one-shot's sandbox dies with output on its way")
def test_a_one_shot_sandbox_dies_with_output_on_its_way():
    with Daemon() as d, Steady(d) as pid:
        for _ in range(5):
            answers = []
            t = threading.Thread(target=lambda: answers.append(d.post("/v1/run", {"command": ["yes"]})))
            t.start()
            found = []
            wait_for(lambda: found.append(find_descendant(d.process.pid, "yes")) or found[-1], "yes")
            time.sleep(0.2)
            os.kill(pid, signal.SIGSTOP)
            os.kill(found[-1][1], signal.SIGKILL)
            time.sleep(0.3)
            os.kill(pid, signal.SIGCONT)
            t.join(60)
            check(answers, "the request was never answered")
            equal(answers[0].status, 200, answers[0])
            check("sandbox_crash" in answers[0].json["error"], answers[0])
        wait_idle(d)


@test("a sandbox is deleted under a tool call that runs in a helper")
def test_a_sandbox_is_deleted_under_a_tool_call_that_runs():
    with Daemon() as d, Steady(d):
        for i in range(5):
            name = create_a(d, {"Network": {"Enabled": True}})
            t = threading.Thread(target=execute_a, args=(d, name, "fetch", {"url": "http://127.0.0.1:9/"}))
            t.start()
            time.sleep(0.002 * i)
            equal(d.post("/v1/sandbox/destroy", {"sandbox_id": name}).status, 200)
            t.join(60)
        wait_idle(d)


@test("a command that cannot be encoded is refused, not forgotten")
def test_a_command_that_cannot_be_encoded_is_refused():
    d = shared_daemon()
    with d.sandbox() as sb, Steady(d):
        a = d.post(sb.path + "/exec", {"command": ["true"] * 16385})
        equal(a.status, 400, a)
        a = d.post(sb.path + "/exec", {"command": ["true"], "env": {f"a{i}": "" for i in range(65536)}})
        equal(a.status, 413, a)
        paths = [f"/workspace/{i}" for i in range(256)]
        name = create_a(d, {"AllowedPaths": paths, "Workdir": "/workspace/x"})
        a = execute_a(d, name, "shell", {"command": "true"})
        equal(a["status"], "error", a)
        d.post("/v1/sandbox/destroy", {"sandbox_id": name})
        wait_idle(d, 1)


@test("many bad lines at once are answered one by one")
def test_many_bad_lines_at_once_are_answered():
    p = subprocess.run([SANDBOXD], input=b"x\n" * 60000, capture_output=True, timeout=120)
    equal(p.returncode, 0, p.stderr[-500:])
    equal(len(p.stdout.splitlines()), 60000, "answers")


@test("a download whose client left ends")
def test_a_download_whose_client_left_ends():
    d = shared_daemon()
    with d.sandbox() as sb, Steady(d):
        sb.sh("truncate -s 200G big; mkfifo fifo")
        for name in ("big", "fifo"):
            s = send_request(d, "GET", sb.path + f"/files/content?path=/workspace/{name}")
            time.sleep(0.3)
            s.close()
            wait_idle(d, 1)


@test("an upload whose client left before its sandbox was ready ends")
def test_an_upload_whose_client_left_before_its_sandbox():
    with Daemon() as d, Steady(d) as pid:
        for i in range(5):
            os.kill(pid, signal.SIGSTOP)
            create = send_request(d, "POST", "/v1/sandboxes", {"id": f"up-{i}"})
            s = send_request(d, "PUT", f"/v1/sandboxes/sbx-up-{i}/files/content?path=x", b"part", 100)
            s.close()
            os.kill(pid, signal.SIGCONT)
            check(b" 201 " in create.recv(65536), "create")
            create.close()
            wait_idle(d, 1)
            d.delete(f"/v1/sandboxes/sbx-up-{i}")


@test("two clients write to one command's stdin, and both come to an end")
def test_two_clients_write_to_one_command_stdin_and_both():
    d = shared_daemon()
    with d.sandbox() as sb, Steady(d):
        a = sb.exec("sh", "-c", "sleep 1; wc -c", **{"async": True, "open_stdin": True})
        path = f"{sb.path}/execs/{a['exec_id']}/stdin"
        out = []
        threads = [threading.Thread(target=lambda: out.append(d.post(path, b"x" * 700000)))
                   for _ in range(2)]
        for t in threads:
            t.start()
            time.sleep(0.2)
        for t in threads:
            t.join(60)
        equal([x.status for x in out], [200, 200], out)
        equal(d.post(path + "?close=1", b"").status, 200)
        wait_idle(d, 1)


@test("a client of a terminal that only makes mistakes and never reads is held back")
def test_a_client_of_a_terminal_that_only_makes_mistakes():
    # A sanitizer keeps freed memory for a while: not here, where memory is measured.
    with Daemon(env={"ASAN_OPTIONS": "quarantine_size_mb=1"}) as d, d.sandbox() as sb, Steady(d) as pid:
        a = sb.exec("sleep", "1000", **{"async": True, "open_stdin": True})
        ws = d.ws(f"{sb.path}/execs/{a['exec_id']}/attach")
        equal(ws.status, 101)

        def memory():
            return resident_kib(pid) << 10
        before = memory()
        frame = b"\x81\x82\0\0\0\0{}"  # masked with zeros
        ws.sock.settimeout(5)
        try:
            for _ in range(2000):
                ws.sock.sendall(frame * 1000)
        except OSError:  # held back, or let go in the end
            pass
        check(memory() - before < 60e6, f"{memory() - before} bytes more memory")
        ws.close()


@test("how a command failed survives a restart, whatever bytes its name has")
def test_how_a_command_failed_survives_a_restart():
    with Daemon() as d, d.sandbox() as sb:
        sb.exec("a" * 99 + "\u00e9" * 4)
        before = d.get(sb.path + "/execs").json["execs"][0]
        equal(before["status"], "failed", before)
        d.kill_control()
        after = d.get(sb.path + "/execs").json["execs"][0]
        for key in ("exec_id", "status", "exit_code", "error"):
            equal(after.get(key), before.get(key), key)


@test("MaxConcurrent counts calls whose client has left")
def test_maxconcurrent_counts_calls_whose_client_has_left():
    d = shared_daemon()
    name = create_a(d, {"MaxConcurrent": 1})
    with Steady(d):
        s = send_request(d, "POST", "/v1/sandbox/execute",
                         {"sandbox_id": name, "tool": {"name": "shell", "args": {"command": "sleep 1000"}}})
        wait_for(lambda: counts(d)["execs_running"] == 1, "the first call")
        s.close()
        time.sleep(0.2)
        a = execute_a(d, name, "shell", {"command": "true"})
        equal(a["error"]["code"], "policy_denied", a)
        running = d.get(f"/v1/sandboxes/{name}/execs").json["execs"][0]["exec_id"]
        equal(d.post(f"/v1/sandboxes/{name}/execs/{running}/cancel").status, 200)
        wait_idle(d, 1)
        equal(execute_a(d, name, "shell", {"command": "true"})["status"], "ok")
        d.post("/v1/sandbox/destroy", {"sandbox_id": name})


@test("a sandbox's own policy holds for every way in")
def test_a_sandbox_own_policy_holds_for_every_way():
    d = shared_daemon()
    name = create_a(d, {"AllowedTools": ["calculator"]})
    path = "/v1/sandboxes/" + name
    with Steady(d):
        equal(d.post(path + "/exec", {"command": ["true"]}).status, 403)
        equal(d.post(f"/sandboxes/{name}/exec", {"command": ["true"]}).status, 403)
        equal(d.get(path + "/files?path=/workspace").status, 403)
        equal(d.put(path + "/files/content?path=/workspace/x", b"x").status, 403)
        d.post("/v1/sandbox/destroy", {"sandbox_id": name})


@test("a sandbox's paths and time hold for every way in")
def test_a_sandbox_paths_and_time_hold_for_every_way():
    d = shared_daemon()
    name = create_a(d, {"AllowedPaths": ["/tmp/a"], "Timeout": "2s"})
    path = "/v1/sandboxes/" + name
    with Steady(d):
        a = d.post(path + "/exec", {"command": ["sh", "-c", "echo x > /workspace/b"]}).json
        check(a["exit_code"] != 0, a)
        check(d.put(path + "/files/content?path=/workspace/x", b"x").status >= 400, "written")
        a = d.post(path + "/exec", {"command": ["sleep", "20"]}).json
        equal(a["status"], "timed_out", a)
        d.post("/v1/sandbox/destroy", {"sandbox_id": name})


@test("an idempotency key expires whatever else is under way")
def test_an_idempotency_key_expires_whatever_else():
    with Daemon("--exec-status-retention", "1s") as d, Steady(d):
        def run(key, *argv):
            return d.post("/v1/run", {"command": list(argv)}, headers={"Idempotency-Key": key})

        def replayed(key):
            return run(key, "true").headers["Idempotency-Replayed"] == "true"
        t = threading.Thread(target=run, args=("long", "sleep", "5"))
        t.start()
        wait_for(lambda: counts(d)["execs_running"] == 1, "the long one")
        short = (f"short-{i}" for i in range(20))  # one that is asked for again in time
        key = next(k for k in short if run(k, "true").status == 200 and replayed(k))
        wait_for(lambda: not replayed(key), "it is forgotten")
        t.join(60)


# --- everything at once

def cut(sock, rng):
    """Leaves at a random moment, sometimes after reading a little, sometimes with a reset."""
    sock.settimeout(0.5)
    time.sleep(rng.choice((0, 0.001, 0.01, 0.05, 0.2)))
    try:
        if rng.random() < 0.5:
            sock.recv(rng.choice((1, 1000, 100000)))
        if rng.random() < 0.3:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()


def abuse_sandbox(d, rng, name):
    base = f"/v1/sandboxes/sbx-{name}"
    noisy = ["sh", "-c", "yes | head -c 3000000; cat"]
    jobs = [
        lambda: send_request(d, "POST", base + "/exec", {"command": noisy, "timeout_ms": 2000}),
        lambda: send_request(d, "POST", base + "/exec", {"command": noisy, "stream": True, "timeout_ms": 2000}),
        lambda: send_request(d, "POST", base + "/exec", {"command": noisy, "async": True, "open_stdin": True,
                                                         "timeout_ms": 2000}),
        lambda: send_request(d, "PUT", base + "/files/content?path=f", b"y" * 50000, 200000),
        lambda: send_request(d, "GET", base + "/files/content?path=/workspace/big"),
        lambda: send_request(d, "GET", base + "/files/tar?path=/workspace"),
        lambda: send_request(d, "PUT", base + "/files/tar?path=/workspace", b"\0" * 2000, 10240),
        lambda: send_request(d, "GET", base + "/stats"),
        lambda: send_request(d, "GET", base + "/files?path=/usr&recursive=1"),
        lambda: send_request(d, "POST", f"/v1/sandbox/execute",
                             {"sandbox_id": "sbx-" + name,
                              "tool": {"name": rng.choice(("shell", "fetch", "calculator")),
                                       "args": {"command": "sleep 1", "url": "http://127.0.0.1:9/",
                                                "expression": "1+1"}},
                              "policy": {"Network": {"Enabled": True}}}),
        lambda: send_request(d, "DELETE", base),
    ]
    execs = d.get(base + "/execs")
    running = [e["exec_id"] for e in execs.json["execs"]] if execs.status == 200 else []
    if running:
        e = f"{base}/execs/{rng.choice(running)}"
        jobs += [
            lambda: send_request(d, "POST", e + "/stdin", b"z" * 100000, 1000000),
            lambda: send_request(d, "GET", e + "/logs?follow=1"),
            lambda: send_request(d, "POST", e + "/cancel", {}),
            lambda: send_request(d, "POST", e + "/signal", {"signal": "KILL"}),
            lambda: d.ws(f"/sandboxes/sbx-{name}/stream?exec_id={e.rsplit('/', 1)[1]}").sock,
            lambda: d.ws(e + "/attach").sock,
        ]
    cut(rng.choice(jobs)(), rng)


def abuse(d, seed, end, problems):
    rng = random.Random(seed)
    while time.time() < end:
        name = f"st-{rng.randrange(4)}"
        try:
            what = rng.random()
            if what < 0.15:
                cut(send_request(d, "POST", "/v1/sandboxes", {"id": name}), rng)
            elif what < 0.3:
                cut(send_request(d, "POST", "/v1/run", {"command": ["sh", "-c", "yes | head -c 8000000"],
                                                        "stream": rng.random() < 0.5}), rng)
            elif what < 0.35:
                key = {"Idempotency-Key": f"k{rng.randrange(20)}"}
                d.post("/v1/run", {"command": ["true"]}, headers=key, timeout=30)
            else:
                abuse_sandbox(d, rng, name)
        except (OSError, AssertionError, http.client.HTTPException):
            pass  # whoever cuts others off is cut off sometimes
        except Exception:
            problems.append(traceback.format_exc())
            return


@test("every kind of request is broken off at random, from eight sides")
def test_every_kind_of_request_is_broken_off_at_random():
    seconds = int(os.environ.get("STRESS_SECONDS", "20"))
    with Daemon() as d, Steady(d) as pid:
        problems = []
        threads = [threading.Thread(target=abuse, args=(d, seed, time.time() + seconds, problems))
                   for seed in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(seconds + 60)
            check(not t.is_alive(), "a client hangs")
        equal(status(d)["pid"], pid, "the control plane died")
        check(not problems, problems[:1])
        for i in range(4):
            d.delete(f"/v1/sandboxes/sbx-st-{i}")
        wait_idle(d)
        d.run("true")


main()
