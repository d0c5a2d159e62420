#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The control plane is killed with -9 while commands run: nothing is lost, nothing is doubled."""
import fcntl
import os
import sqlite3
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *


def start(d, sb, script):
    a = d.post(f"/sandboxes/{sb.id}/exec", {"command": ["sh", "-c", script], "async": True})
    equal(a.status, 200, a)
    return a.json["exec_id"]


def stream(d, sb, exec_id, since=0):
    """Events until the exit, or until the connection breaks."""
    out = []
    try:
        ws = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={exec_id}&since={since}")
        for m in ws.messages():
            out.append(json.loads(m))
    except (OSError, AssertionError):
        pass
    return out


def output(events):
    return "".join(v["data"] for v in events if v["type"] == "output")


@test("a sandbox, its files and its finished execs are there after kill -9 of the control plane")
def test_a_sandbox_its_files_and_its_finished_execs():
    with Daemon() as d, d.sandbox(env={"A": "b"}) as sb:
        sb.sh("echo kept > file; exec sleep 1000 & echo started")
        done = sb.sh("echo out; echo err >&2; exit 7")
        before = d.get(sb.path).json
        kill_control(d)
        after = d.get(sb.path).json
        for key in ("id", "state", "created_at", "effective"):
            equal(after[key], before[key], key)
        equal(sb.sh("cat file; echo $A")["stdout"], "kept\nb\n")
        record = d.get(f"{sb.path}/execs/{done['exec_id']}").json
        equal((record["status"], record["exit_code"]), ("completed", 7))
        logs = d.get(f"{sb.path}/execs/{done['exec_id']}/logs").body.splitlines()
        equal([json.loads(x)["type"] for x in logs], ["start", "output", "output", "exit"])


MARK = f"sleep 1414213.{os.getpid()}"  # other suites run at the same time, over other runtimes


def runner_of(command):
    return next((p for p in map(parent_of, running_exactly(command)) if p), None)


@test("what was sent to a runner that had no time to read it is not lost with the sender")
def test_what_was_sent_to_a_runner_that_had_no_time():
    if os.environ.get("MAS_RUNTIME", "").endswith("gvisor"):
        raise Skip("gVisor's processes cannot be stopped one by one from the host")
    with Daemon() as d, d.sandbox() as sb:
        start(d, sb, "exec " + MARK)
        wait_for(lambda: runner_of(MARK), "a command of the runner's")
        runner = runner_of(MARK)
        os.kill(runner, signal.SIGSTOP)
        try:
            s = d.connect()
            body = json.dumps({"command": ["touch", "late"], "async": True}).encode()
            s.sendall(f"POST /sandboxes/{sb.id}/exec HTTP/1.1\r\nHost: localhost\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            s.settimeout(0.5)
            try:
                equal(s.recv(1), b"", "an answer about what has not started")
            except TimeoutError:
                pass
            kill_control(d)
        finally:
            os.kill(runner, signal.SIGCONT)
        wait_for(lambda: sb.sh("ls")["stdout"] == "late\n", "the command ran")


def held(path, text):
    """A program that nobody can open, and so execute, until the descriptor's lease is given up."""
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, 0o755)
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as e:
        raise Skip(f"no lease: {e}")
    return fd


@test("commands whose execve() hangs meanwhile start, or fail, when they can")
def test_commands_whose_execve_hangs_meanwhile_start():
    if os.environ.get("MAS_RUNTIME"):
        raise Skip("one runtime is enough")
    signal.signal(signal.SIGIO, lambda *_: None)  # the kernel asks for the lease
    with tempfile.TemporaryDirectory(prefix="mas-held-") as host:
        os.chmod(host, 0o755)
        leases = [held(f"{host}/good", "#!/bin/sh\necho ran; exit 4\n"), held(f"{host}/bad", "#!/no/such\n")]
        with Daemon("--mounts-allow", host) as d, d.sandbox(mounts=[{"source": host, "target": "/held"}]) as sb:
            answers = {}

            def ask(name):
                answers[name] = d.post(f"/sandboxes/{sb.id}/exec", {"command": [f"/held/{name}"], "async": True})
            threads = [threading.Thread(target=ask, args=[name]) for name in ("good", "bad")]
            for t in threads:
                t.start()
            equal(sb.sh("echo others go on")["stdout"], "others go on\n")
            for t in threads:
                t.join()
            execs = {name: f"{sb.path}/execs/{a.json['exec_id']}" for name, a in answers.items()}
            kill_control(d)
            for path in execs.values():
                equal(d.get(path).json["status"], "running")
            for fd in leases:
                os.close(fd)
            for path in execs.values():
                wait_for(lambda: d.get(path).json["status"] != "running", "its end")
            good, bad = d.get(execs["good"]).json, d.get(execs["bad"]).json
            equal((good["status"], good["exit_code"]), ("completed", 4))
            equal((bad["status"], bad["exit_code"]), ("failed", 127))
            check("(exec): No such file" in bad["error"], bad)


@test("a running command goes on: every byte once, the same events, exit last")
def test_a_running_command_goes_on_every_byte_once():
    with Daemon("--control-restarts", "100") as d, d.sandbox() as sb:
        count = 200
        e = start(d, sb, f"i=0; while [ $i -lt {count} ]; do echo line $i; i=$((i+1)); sleep 0.02; done; exit 3")
        events, kills = [], 0
        for _ in range(20):
            timer = threading.Timer(0.8, kill_control, [d])
            timer.start()
            got = stream(d, sb, e, events[-1]["seq"] if events else 0)
            timer.join()
            kills += 1
            events += got
            if events and events[-1]["type"] == "exit":
                break
        equal([v["seq"] for v in events], list(range(1, len(events) + 1)))
        equal(output(events), "".join(f"line {i}\n" for i in range(count)))
        equal((events[-1]["type"], events[-1]["exit_code"]), ("exit", 3))
        check(kills > 2, f"{kills} kills")
        again = stream(d, sb, e)
        equal(again, events, "a replay is what was seen live")


@test("a command that ended in between is reported with its own exit status")
def test_a_command_that_ended_in_between_is_reported():
    with Daemon() as d, d.sandbox() as sb:
        e = start(d, sb, "sleep 0.5; echo late; exit 9")
        pid = control_pid(d)
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGKILL)
        time.sleep(1.2)
        wait_for(lambda: d.get(f"/sandboxes/{sb.id}/execs/{e}").json["status"] == "completed",
                 "completed")
        equal(d.get(f"/sandboxes/{sb.id}/execs/{e}").json["exit_code"], 9)
        equal(output(stream(d, sb, e)), "late\n")


@test("much output through several restarts, none lost")
def test_much_output_through_several_restarts_none_lost():
    with Daemon() as d, d.sandbox() as sb:
        e = start(d, sb, "i=0; while [ $i -lt 400 ]; do head -c 20000 /dev/zero | tr '\\0' x; echo; "
                         "i=$((i+1)); sleep 0.005; done")
        for _ in range(4):
            time.sleep(0.4)
            kill_control(d)
        wait_for(lambda: d.get(f"/sandboxes/{sb.id}/execs/{e}").json["status"] == "completed",
                 "completed", 240)  # gVisor starts the 1,200 programs slowly
        out = output(stream(d, sb, e))
        equal(len(out), 400 * 20001)
        equal(out, ("x" * 20000 + "\n") * 400)


@test("policy, alias and one-shots: what comes back and what does not")
def test_policy_alias_and_one_shots_what_comes_back():
    with Daemon() as d:
        a = d.post("/v1/sandbox/create", {"sandbox_id": "mine", "policy": {"AllowedTools": ["calculator"]}})
        equal(a.status, 200, a)
        runner = threading.Thread(target=lambda: swallow(d))
        runner.start()
        time.sleep(0.5)
        kill_control(d)
        runner.join()
        call = {"sandbox_id": "mine", "tool": {"name": "shell", "args": {"command": "id"}}}
        equal(d.post("/v1/sandbox/execute", call).json["error"]["message"], "tool not allowed")
        call["tool"] = {"name": "calculator", "args": {"expression": "1+1"}}
        equal(d.post("/v1/sandbox/execute", call).json["result"]["result"], 2)
        wait_for(lambda: MARK not in processes(), "the one-shot's end")
        equal(d.post("/v1/sandbox/destroy", {"sandbox_id": "mine"}).status, 200)


def swallow(d):
    try:
        d.run(*MARK.split())
    except (OSError, http.client.HTTPException, AssertionError):
        pass


def processes():
    return subprocess.run(["ps", "axo", "args"], stdout=subprocess.PIPE, text=True).stdout


@test("an idempotency key gets its first answer after a restart, and another request is refused")
def test_an_idempotency_key_gets_its_first_answer():
    with Daemon() as d:
        key = {"Idempotency-Key": "k1"}
        first = d.post("/v1/sandboxes", {}, headers=key)
        ran = d.post("/v1/run", {"command": ["cat", "/proc/sys/kernel/random/uuid"]}, headers=key)
        equal((first.status, ran.status), (201, 200))
        kill_control(d)
        again = d.post("/v1/sandboxes", {}, headers=key)
        equal((again.status, again.body), (first.status, first.body))
        equal(again.headers["Idempotency-Replayed"], "true")
        equal(d.post("/v1/run", {"command": ["cat", "/proc/sys/kernel/random/uuid"]},
                     headers=key).json["stdout"], ran.json["stdout"])
        equal(d.post("/v1/sandboxes", {"env": {"A": "b"}}, headers=key).status, 409)
        equal(len(d.get("/sandboxes").json), 1)


@test("idempotency keys of before a restart expire each at its own time, in whatever order they are read")
def test_idempotency_keys_of_before_a_restart_expire_each():
    with Daemon() as d:
        run = lambda key: d.post("/v1/run", {"command": ["true"]}, headers={"Idempotency-Key": key})
        equal([run(key).status for key in "abc"], [200] * 3)
        db = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        (key, row), = db.execute("SELECT key, body FROM idempotency WHERE key LIKE '%b'").fetchall()
        db.execute("UPDATE idempotency SET body = ? WHERE key = ?", (bytes(8) + row[8:], key))  # expired long ago
        db.close()
        kill_control(d)
        equal([run(key).headers["Idempotency-Replayed"] for key in "abc"], ["true", None, "true"])


@test("idempotency keys that expired while nothing ran take no place of those that did not, and are removed")
def test_idempotency_keys_that_expired_while_nothing_ran():
    with Daemon(config="max_idempotency_keys: 4\n") as d:
        run = lambda key: d.post("/v1/run", {"command": ["true"]}, headers={"Idempotency-Key": key})
        equal(run("z").status, 200)
        db = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        (key, row), = db.execute("SELECT key, body FROM idempotency").fetchall()
        for n in range(9):
            db.execute("INSERT INTO idempotency (key, body) VALUES (?, ?)", (key[:-1] + f"a{n}", bytes(8) + row[8:]))
        # where they are read before it
        db.execute("DELETE FROM idempotency WHERE key = ?", (key,))
        db.execute("INSERT INTO idempotency (key, body) VALUES (?, ?)", (key, row))
        kill_control(d)
        equal(run("z").headers["Idempotency-Replayed"], "true")
        wait_for(lambda: db.execute("SELECT count(*) FROM idempotency").fetchone() == (1,), "expired rows are removed")
        db.close()


def adopted_after_death():
    """Containers of an engine outlive the daemon: the next one has them back, their commands with them."""
    d = Daemon().start()
    try:
        sb = d.sandbox()
        e = start(d, sb, "sleep 3; echo outlived")
        done = sb.sh("echo kept")["exec_id"]
        d.process.kill()
        d.process.wait()
        d.log.close()
        d.start()
        wait_for(lambda: d.get(sb.path).json["state"] == "ready", "the sandbox is adopted")
        equal(sb.sh("echo again")["stdout"], "again\n")
        wait_for(lambda: d.get(f"/sandboxes/{sb.id}/execs/{e}").json["status"] == "completed", "the command's end")
        check("outlived" in d.get(f"/v1/sandboxes/{sb.id}/execs/{e}/logs").body.decode(), "its output")
        equal(d.get(f"/sandboxes/{sb.id}/execs/{done}").json["exit_code"], 0)
        equal(sb.delete().status, 200)
        equal(d.get(sb.path).status, 404)
    finally:
        d.__exit__()


@test("after the warden's death nothing runs, and the next daemon reports what is lost")
def test_after_the_warden_death_nothing_runs_and_the_next():
    if os.environ.get("MAS_RUNTIME", "").split("-")[0] in ("podman", "docker"):
        return adopted_after_death()
    d = Daemon().start()
    try:
        sb = d.sandbox()
        e = start(d, sb, MARK)
        done = sb.sh("echo kept")["exec_id"]
        d.process.kill()
        d.process.wait()
        wait_for(lambda: MARK not in processes(), "the sandbox's end")
        d.log.close()
        d.start()
        equal(d.get(sb.path).json["state"], "crashed")
        status = d.get(f"/sandboxes/{sb.id}/execs/{e}").json
        equal(status["status"], "failed")
        check("sandbox_crash" in status["error"], status)
        equal(d.get(f"/sandboxes/{sb.id}/execs/{done}").json["exit_code"], 0)
        equal(d.post(sb.path + "/exec", {"command": ["true"]}).status, 502)
        equal(sb.delete().status, 200)
        equal(d.get(sb.path).status, 404)
    finally:
        d.__exit__()


@test("a damaged database stops the start, says what to do, and is left as it was")
def test_a_damaged_database_stops_the_start_says():
    d = Daemon().start()
    try:
        d.stop()
        found = [os.path.join(p, f) for p, _, fs in os.walk(d.state) for f in fs if f == "state.db"]
        equal(len(found), 1)
        with open(found[0], "wb") as f:
            f.write(b"not a database" * 1000)
        try:
            d.start()
            raise AssertionError("it started")
        except RuntimeError as problem:
            check("state.db cannot be used" in str(problem), problem)
        with open(found[0], "rb") as f:
            equal(f.read(), b"not a database" * 1000)
    finally:
        d.__exit__()


main()
