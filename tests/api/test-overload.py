#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Overload: limits answer 429 with Retry-After, one key cannot keep another out, and others go on."""
import os
import select
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../image"))
from faults import *
from guarded import Guarded
from images import busybox
from registry import tar

TOKEN = "the-operators-token"


def auth(secret):
    return {"Authorization": "Bearer " + secret}


def key(d, name):
    a = d.post("/v1/keys", {"name": name, "roles": ["agent"]}, headers=auth(TOKEN))
    equal(a.status, 201, a)
    return auth(a.json["secret"])


def until_refused(ask, most):
    """How often it was granted, and the refusal."""
    for n in range(most):
        a = ask()
        if a.status == 429:
            check(int(a.headers["Retry-After"]) > 0, a.headers)
            return n, a
        check(a.status in (200, 201, 202), a)
    raise AssertionError(f"{most} were granted")


@test("commands: one key takes most of the limit, another still gets its share, room comes back")
def test_commands_one_key_takes_most_of_the_limit_another():
    with Daemon("-auth-token", TOKEN, config="max_execs: 16\nkey_reserve_percent: 25\n") as d:
        greedy, modest = key(d, "greedy"), key(d, "modest")
        boxes = {}
        for name, k in (("greedy", greedy), ("modest", modest)):
            boxes[name] = "/v1/sandboxes/" + d.post("/v1/sandboxes", {}, headers=k).json["id"]
        sleep = {"command": ["sleep", "60"], "async": True}
        n, a = until_refused(lambda: d.post(boxes["greedy"] + "/exec", sleep, headers=greedy), 17)
        equal(n, 12, "granted to the first")
        check("key_reserve_percent" in a.json["error"]["message"], a)
        n, a = until_refused(lambda: d.post(boxes["modest"] + "/exec", sleep, headers=modest), 17)
        equal(n, 4, "left for the second")
        check("max_execs" in a.json["error"]["message"], a)
        equal(d.delete(boxes["greedy"], headers=greedy).status, 200)
        a = d.post(boxes["modest"] + "/exec", {"command": ["echo", "room"]}, headers=modest)
        equal((a.status, a.json.get("stdout")), (200, "room\n"))


@test("sandboxes: the same")
def test_sandboxes_the_same():
    with Daemon("-auth-token", TOKEN, config="max_sandboxes: 12\nkey_reserve_percent: 25\n") as d:
        greedy, modest = key(d, "greedy"), key(d, "modest")
        n, a = until_refused(lambda: d.post("/v1/sandboxes", {}, headers=greedy), 13)
        equal(n, 9, "granted to the first")
        n, a = until_refused(lambda: d.post("/v1/sandboxes", {}, headers=modest), 13)
        equal(n, 3, "left for the second")
        check("max_sandboxes" in a.json["error"]["message"], a)


def from_address(d, address, method, path, body=None, headers={}):
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=60, source_address=(address, 0))
    c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **headers})
    a = c.getresponse()
    return Answer(a.status, a.headers, a.read())


@test("callers without keys are told apart by their addresses")
def test_callers_without_keys_are_told_apart():
    with Daemon(config="max_sandboxes: 12\nmax_execs: 16\nkey_reserve_percent: 25\n") as d:
        n, a = until_refused(lambda: from_address(d, "127.0.0.2", "POST", "/v1/sandboxes", {}), 13)
        equal(n, 9, "granted to the first")
        check("this address has 9 sandboxes" in a.json["error"]["message"], a)
        kill_control(d)
        a = from_address(d, "127.0.0.2", "POST", "/v1/sandboxes", {})
        check(a.status == 429 and "this address has 9 sandboxes" in a.json["error"]["message"], f"after a restart: {a}")
        n, a = until_refused(lambda: from_address(d, "127.0.0.3", "POST", "/v1/sandboxes", {}), 13)
        equal(n, 3, "left for the second")
        check("max_sandboxes" in a.json["error"]["message"], a)
        boxes = d.get("/v1/sandboxes").json["sandboxes"]
        equal(len(boxes), 12, "everybody sees all of them")
        for b in boxes:
            equal(d.delete("/v1/sandboxes/" + b["id"]).status, 200)
        a = from_address(d, "127.0.0.2", "POST", "/v1/run", {"command": ["echo", "room"]})
        equal((a.status, a.json.get("stdout")), (200, "room\n"))
        wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 0, "the one-shot's sandbox goes")
        n, a = until_refused(lambda: d.post("/v1/sandboxes", {}), 13)
        equal(n, 12, "this machine's own callers: all")


def ask_from(d, address, method, path, body, headers={}):
    """The thread of a request that waits, and the list that its answer is put into."""
    answers = []
    t = threading.Thread(target=lambda: answers.append(from_address(d, address, method, path, body, headers)))
    t.start()
    return t, answers


# With two sandboxes at most and half of them in reserve, an address that has one gets no second.
ONE_EACH = "max_sandboxes: 2\nkey_reserve_percent: 50\n"


def has_one(d, address):
    a = from_address(d, address, "POST", "/v1/sandboxes", {})
    check(a.status == 429 and "this address has 1 sandboxes" in a.json["error"]["message"], a)
    a = from_address(d, "127.0.0.9", "POST", "/v1/sandboxes", {})
    equal(a.status, 201, a)
    equal(d.delete("/v1/sandboxes/" + a.json["id"]).status, 200)


@test("an address whose call waited for an image is counted like any other")
def test_an_address_whose_call_waited_for_an_image():
    with Daemon(config=ONE_EACH) as d:
        equal(d.put("/v1/images/tar?name=small", tar({"bin/sh": busybox()})).status, 200)
        ways = (("/v1/sandboxes", {"image": "small"}), ("/sandboxes", {"id": "b", "image": "small"}))
        for path, body in ways:
            kill_control(d)  # the new one has looked up no image yet
            a = from_address(d, "127.0.0.2", "POST", path, body)
            check(a.status in (200, 201), a)
            has_one(d, "127.0.0.2")
            equal(d.delete("/v1/sandboxes/" + a.json["id"]).status, 200)
        kill_control(d)
        once = {"image": "small", "command": ["sh", "-c", "while :; do :; done"], "timeout_ms": 20000}
        t, answers = ask_from(d, "127.0.0.2", "POST", "/v1/run", once)
        wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 1, lambda: answers or "it runs")
        has_one(d, "127.0.0.2")
    t.join(60)


@test("an address whose call waited for a person is counted like any other")
def test_an_address_whose_call_waited_for_a_person():
    policy = "version: 1\ndefault: allow\nrules:\n  - {id: s, verdict: ask, command: 'sleep *'}\n"
    with Guarded(policy, config=ONE_EACH) as d:
        wait = {"X-Mas-Approval": "wait"}
        t, answers = ask_from(d, "127.0.0.2", "POST", "/v1/run", {"command": ["sleep", "60"]}, wait)
        pending = lambda: d.get("/v1/approvals?status=pending").json["approvals"]
        wait_for(pending, "a person is asked")
        equal(d.post(f"/v1/approvals/{pending()[0]['id']}/approve", {}).status, 200)
        wait_for(lambda: d.get("/v1/status").json["counts"]["sandboxes"] == 1, "it runs")
        has_one(d, "127.0.0.2")
    t.join(60)


@test("without keys the whole limit is there for whoever asks")
def test_without_keys_the_whole_limit_is_there():
    with Daemon(config="max_execs: 8\n") as d, d.sandbox() as sb:
        n, a = until_refused(lambda: d.post(sb.path + "/exec", {"command": ["sleep", "60"], "async": True}), 9)
        equal(n, 8)
        check("max_execs" in a.json["error"]["message"], a)


@test("idempotency keys and unread input: over their limits a 429 names the key")
def test_idempotency_keys_and_unread_input():
    with Daemon(config="max_idempotency_keys: 2\nmax_stdin_queue: 4Ki\n") as d, d.sandbox() as sb:
        answers = [d.post("/v1/sandboxes", {}, headers={"Idempotency-Key": f"k{i}"}) for i in range(3)]
        equal([a.status for a in answers], [201, 201, 429], answers)
        check("max_idempotency_keys" in answers[2].json["error"]["message"], answers[2])
        e = d.post(sb.path + "/exec", {"command": ["sleep", "60"], "async": True, "open_stdin": True}).json["exec_id"]
        a = d.request("POST", f"{sb.path}/execs/{e}/stdin", b"x" * (4 << 20))
        equal(a.status, 429, a)
        check("max_stdin_queue" in a.json["error"]["message"], a)


CONTROL_BYTES = 16 << 20  # of a command's output, the most that an answer has; in JSON each is six bytes
ANSWER_MIB = 6 * CONTROL_BYTES >> 20


def begin_answer(d, k):
    """A connection on which a large answer has begun, and is not read on."""
    body = json.dumps({"command": ["sh", "-c", f"head -c {CONTROL_BYTES} /dev/zero | tr '\\0' '\\1'"]})
    s = d.connect()
    s.settimeout(PATIENCE_S)
    s.sendall((f"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: {k['Authorization']}\r\n"
               f"Content-Length: {len(body)}\r\n\r\n{body}").encode())
    equal(s.recv(12, socket.MSG_WAITALL), b"HTTP/1.1 200")
    return s


def is_whole(s):
    """Reads the rest of it."""
    n = 0
    try:
        while piece := s.recv(1 << 20):
            n += len(piece)
    except ConnectionError:
        return False
    return n > ANSWER_MIB << 20


@test("answers that wait for slow readers have a bound together, and the key that has most gives way")
def test_answers_that_wait_for_slow_readers_have_a_bound():
    with Daemon("-auth-token", TOKEN, config="max_write_total: 256Mi\nwrite_timeout: 10m\n") as d:
        d.token = TOKEN
        greedy, modest = key(d, "greedy"), key(d, "modest")
        pid = control_pid(d)
        mine = begin_answer(d, modest)
        others = [begin_answer(d, greedy) for _ in range(5)]
        equal(d.get("/healthz").status, 200)  # a later turn of the loop, in which what was reset is freed
        if not SANITIZED:  # which keeps what was freed
            check(anonymous_mib(pid) < 4 * ANSWER_MIB, f"{anonymous_mib(pid)} MiB")
        equal(is_whole(mine), True, "the answer to a key that has less waiting")
        equal([is_whole(s) for s in others], [False] * 4 + [True], "of the others the newest")
        check("max_write_total" in d.log_text(), "the log says why")


IDLE_S = 2


def idle_connection(d, pid):
    """A kept-alive connection of a control plane that stands still, and was not silent for too long before."""
    while True:
        c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=30)
        c.request("GET", "/healthz")
        c.getresponse().read()
        os.kill(pid, signal.SIGSTOP)
        if not select.select([c.sock], [], [], 0)[0]:
            return c
        os.kill(pid, signal.SIGCONT)


@test("a control plane that stood still reads what came meanwhile before it calls a client silent")
def test_a_control_plane_that_stood_still_reads_what_came():
    with Daemon(config=f"idle_timeout: {IDLE_S}s\n") as d:
        sb, pid = d.sandbox(), control_pid(d)
        c = idle_connection(d, pid)
        try:
            c.request("DELETE", sb.path)
            time.sleep(IDLE_S + 0.5)
        finally:
            os.kill(pid, signal.SIGCONT)
        answer = c.getresponse()
        equal(answer.status, 200, "the answer, and not the end of the connection")
        answer.read()
        equal(d.get(sb.path).status, 404)
        equal(c.sock.recv(1), b"", "one that is silent is still let go")


def anonymous_mib(pid):
    try:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            return int(re.search(r"Anonymous: +(\d+)", f.read()).group(1)) // 1024
    except PermissionError:
        raise Skip("the control plane's memory can be seen by root only")


@test("the memory that slow readers took goes back when they leave")
def test_the_memory_that_slow_readers_took_goes_back():
    if SANITIZED:
        raise Skip("a sanitizer gives memory back when it likes")
    with Daemon() as d, d.sandbox() as sb:
        pid = control_pid(d)
        before = anonymous_mib(pid)
        e = d.post(sb.path + "/exec", {"command": ["sh", "-c", "head -c 4000000 /dev/zero | tr '\\0' x"], "async": True})
        logs = f"{sb.path}/execs/{e.json['exec_id']}/logs"
        wait_for(lambda: len(d.get(logs).body) > 4000000, "all output")
        crowd = []
        for i in range(200):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", d.port))
            s.sendall(f"GET {logs} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            crowd.append(s)
        wait_for(lambda: anonymous_mib(pid) > before + 90, "the crowd's queues")
        with d.sandbox():  # lies behind those queues in memory, and stays
            for s in crowd:
                s.close()
            wait_for(lambda: anonymous_mib(pid) < before + 20, "room again")


@test("a fork bomb, a flood and idle WebSockets in one sandbox: another one works")
def test_a_fork_bomb_a_flood_and_idle_websockets():
    with Daemon() as d, d.sandbox() as bad, d.sandbox() as good:
        d.post(bad.path + "/exec", {"command": ["sh", "-c", "f() { f | f & }; f; sleep 30"], "async": True})
        flood = d.post(bad.path + "/exec", {"command": ["yes"], "async": True})
        idle = []
        if flood.status == 200 or flood.status == 202:
            for _ in range(50):
                idle.append(d.ws(f"/sandboxes/{bad.id}/stream?exec_id={flood.json['exec_id']}"))
        for i in range(20):
            equal(good.sh(f"echo {i}")["stdout"], f"{i}\n")
        equal(d.run("echo", "fresh")["stdout"], "fresh\n")
        for ws in idle:
            ws.close()
        equal(d.delete(bad.path).status, 200, "and it can be deleted")


main()
