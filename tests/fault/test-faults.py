#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The control plane is killed at each step of create, exec, output, exit, forget, delete and commit,
by name (src/base/fault.h); and the state directory fills up, is read-only, is locked."""
import datetime
import os
import sqlite3
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *
from guarded import Guarded

LINES = 3000  # about 150 kB: more than stays in memory, less than the window
WANT = "".join(f"line {i} {'x' * 40}\n" for i in range(LINES))
SCRIPT = (f"i=0; while [ $i -lt {LINES} ]; do echo line $i {'x' * 40}; i=$((i+1)); "
          "case $i in *00) sleep 0.005;; esac; done; exit 3")


def armed(fault, **kw):
    return Daemon("--debug-endpoints", env={"MAS_FAULT": fault}, **kw)


def check_killed(d, fault):
    wait_for(lambda: generations(d) >= 2, f"the fault {fault} to happen")
    equal(generations(d), 2, "control planes")


def events_of(d, path):
    a = again(d, "GET", path + "/logs")
    equal(a.status, 200, a)
    return [json.loads(x) for x in a.body.splitlines()]


def check_exec(d, sandbox, exec_id, code, want):
    path = f"/v1/sandboxes/{sandbox}/execs/{exec_id}"
    wait_for(lambda: again(d, "GET", path).json["status"] not in ("running", "canceling"), "its end")
    status = again(d, "GET", path).json
    equal((status["status"], status.get("exit_code")), ("completed", code), status)
    events = events_of(d, path)
    equal([v["seq"] for v in events], list(range(1, len(events) + 1)), "sequence")
    equal([v["type"] for v in events if v["type"] != "output"], ["start", "exit"], "types")
    equal((events[-1]["type"], events[-1].get("exit_code"), events[-1]["status"]),
          ("exit", code, "completed"), "the last event")
    got = "".join(v["data"] for v in events if v["type"] == "output")
    check(got == want, f"{len(got)} bytes of output, {len(want)} are right")


def check_works(d):
    """A new sandbox, a command, a deletion that stays."""
    a = again(d, "POST", "/v1/sandboxes", {})
    equal(a.status, 201, a)
    path = "/v1/sandboxes/" + a.json["id"]
    a = again(d, "POST", path + "/exec", {"command": ["echo", "works"]})
    equal(a.json["stdout"], "works\n")
    equal(again(d, "DELETE", path).status, 200)
    equal(again(d, "GET", path).status, 404)


def check_nothing_left(d):
    for b in again(d, "GET", "/v1/sandboxes?limit=1000").json["sandboxes"]:
        a = again(d, "DELETE", "/v1/sandboxes/" + b["id"])
        check(a.status in (200, 404), a)
    time.sleep(0.1)
    equal(d.stop(), 0, "the daemon's exit code")
    with sqlite3.connect(d.state + "/control/state.db") as db:
        for table in ("sandbox", "exec"):
            equal(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0], 0, f"rows in {table}")
    equal([x for x in os.listdir(d.state + "/control") if x.startswith("ex-")], [], "journal files")


# --- kill -9, step by step

@test("create: killed at each step; what was answered exists, the rest does not stand in the way")
def test_create_killed_at_each_step_what_was_answered():
    for fault in ("create.before-row", "create.before-plan", "create.plan-sent", "create.started",
                  "create.before-answer", "create.answered", "commit.begin", "commit.before", "commit.done"):
        with armed(fault) as d:
            a = once(d, "POST", "/v1/sandboxes", {"env": {"A": "b"}})
            check_killed(d, fault)
            listed = again(d, "GET", "/v1/sandboxes").json["sandboxes"]
            if a:
                equal([b["id"] for b in listed], [a.json["id"]], fault)
                got = again(d, "POST", f"/v1/sandboxes/{a.json['id']}/exec", {"command": ["sh", "-c", "echo $A"]})
                equal(got.json["stdout"], "b\n", fault)
            for b in listed:  # nobody was told of it: it may be there, whole, or known to be dead
                check(b["state"] in ("ready", "crashed", "creating"), f"{fault}: {b}")
            check_works(d)
            check_nothing_left(d)


@test("create with a key: repeated after a kill at each step there is one sandbox")
def test_create_with_a_key_repeated_after_a_kill_at_each():
    for path, status in (("/v1/sandboxes", 201), ("/sandboxes", 200)):
        for fault in ("create.before-plan", "create.plan-sent", "create.before-answer", "commit.done"):
            with armed(fault) as d:
                def create():
                    return d.post(path, {"env": {"A": "b"}}, headers={"Idempotency-Key": "one"})
                try:
                    create()
                except BROKEN:
                    pass
                check_killed(d, fault)
                again(d, "GET", "/healthz")
                a = create()
                while a.status == 503:  # one that nobody knew of is still being removed
                    time.sleep(0.05)
                    a = create()
                equal((fault, a.status), (fault, status), a)
                listed = again(d, "GET", "/v1/sandboxes").json["sandboxes"]
                equal([(b["id"], b["state"]) for b in listed], [(a.json["id"], "ready")], fault)
                equal(create().json, a.json, fault)
                check_nothing_left(d)


def run_async(fault):
    """A sandbox, an exec that runs into the fault, and what is known of it afterwards."""
    with armed(fault) as d:
        sandbox = d.sandbox().id
        a = once(d, "POST", f"/v1/sandboxes/{sandbox}/exec", {"command": ["sh", "-c", SCRIPT], "async": True})
        id_ = a.json["exec_id"] if a else None
        if id_:
            for _ in range(50):  # a reader, so that events are shown live
                if once(d, "GET", f"/v1/sandboxes/{sandbox}/execs/{id_}/logs?follow=1"):
                    break
                time.sleep(0.02)
        check_killed(d, fault)
        equal(again(d, "GET", f"/v1/sandboxes/{sandbox}").status, 200)
        wait_for(lambda: again(d, "GET", f"/v1/sandboxes/{sandbox}").json["state"] == "ready", "ready")
        for e in again(d, "GET", f"/v1/sandboxes/{sandbox}/execs").json["execs"]:
            interrupted = "before it was started" in e.get("error", "")
            check(not (id_ and interrupted), f"{fault}: an exec that was answered: {e}")
            if not interrupted:
                check_exec(d, sandbox, e["exec_id"], 3, WANT)
        if id_:
            check_exec(d, sandbox, id_, 3, WANT)
        check_works(d)
        check_nothing_left(d)


def async_test(title, *faults):
    @test(title)
    def test_each_of_the_faults():
        for fault in faults:
            try:
                run_async(fault)
            except Exception as problem:
                raise AssertionError(f"{fault}: {problem}") from problem


async_test("exec start: killed at each step", "exec.before-spawn", "exec.spawned", "exec.recorded",
           "commit.begin:2", "commit.before:2", "commit.done:2")
async_test("output: killed at each step", "output.before-append", "output.appended", "output.appended:5",
           "journal.before-record:2", "journal.recorded:2", "journal.before-record:4", "journal.recorded:4",
           "journal.files-made", "journal.bytes-moved", "journal.moved", "ack.before", "ack.sent")
async_test("exit and forget: killed at each step", "exit.received", "exit.journal-ended", "exit.kept",
           "exit.before-row", "commit.before:3", "commit.done:3", "forget.before", "forget.sent")


@test("sync exec: an answered id is known, whichever step of its end the control plane dies at")
def test_sync_exec_an_answered_id_is_known_whichever_step():
    for fault in ("exit.kept", "exit.before-row", "commit.begin:2", "commit.before:2", "commit.done:2", "forget.before",
                  "forget.sent"):
        with armed(fault) as d:
            sandbox = d.sandbox().id
            a = once(d, "POST", f"/v1/sandboxes/{sandbox}/exec", {"command": ["sh", "-c", "echo out; exit 3"]})
            check_killed(d, fault)
            wait_for(lambda: again(d, "GET", f"/v1/sandboxes/{sandbox}").json["state"] == "ready", "ready")
            if a:
                check_exec(d, sandbox, a.json["exec_id"], 3, "out\n")
            check_nothing_left(d)


@test("a reader of a finished command's output: killed while it moves to files")
def test_a_reader_of_a_finished_command_output_killed():
    for fault in ("journal.files-made", "journal.bytes-moved", "journal.moved"):
        with armed(fault) as d:
            sandbox = d.sandbox().id
            a = d.post(f"/v1/sandboxes/{sandbox}/exec", {"command": ["sh", "-c", "echo out; exit 3"]})
            time.sleep(0.3)  # its record is written, the runner has forgotten it
            once(d, "GET", f"/v1/sandboxes/{sandbox}/execs/{a.json['exec_id']}/logs")
            check_killed(d, fault)
            check_exec(d, sandbox, a.json["exec_id"], 3, "out\n")
            check_nothing_left(d)


@test("delete: killed at each step; once answered it stays deleted, and it can be repeated")
def test_delete_killed_at_each_step_once_answered():
    for fault in ("delete.begin", "delete.before-kill", "delete.before-row", "delete.gone",
                  "delete.answered", "commit.begin:3", "commit.before:3", "commit.done:3"):
        with armed(fault) as d:
            sandbox = d.sandbox().id
            d.post(f"/v1/sandboxes/{sandbox}/exec", {"command": ["true"]})
            time.sleep(0.2)
            a = once(d, "DELETE", "/v1/sandboxes/" + sandbox)
            check_killed(d, fault)
            found = again(d, "GET", "/v1/sandboxes/" + sandbox)
            if a:
                equal((fault, found.status), (fault, 404), "after an answered deletion")
            check(again(d, "DELETE", "/v1/sandboxes/" + sandbox).status in (200, 404), fault)
            equal(again(d, "GET", "/v1/sandboxes/" + sandbox).status, 404)
            check_nothing_left(d)


@test("a deletion is answered once it is on record")
def test_a_deletion_is_answered_once_it_is_on_record():
    with Daemon() as d:
        sandbox = d.sandbox().id
        other = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        answers = []
        t = threading.Thread(target=lambda: answers.append(once(d, "DELETE", "/v1/sandboxes/" + sandbox)))
        t.start()
        time.sleep(0.7)
        os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
        t.join()
        other.execute("ROLLBACK")
        other.close()
        equal(answers, [None], "an answer to a deletion that a restart undoes")
        check(again(d, "DELETE", "/v1/sandboxes/" + sandbox).status in (200, 404), "the second try")
        equal(again(d, "GET", "/v1/sandboxes/" + sandbox).status, 404)
        check_nothing_left(d)


@test("restore: killed in the middle of it, and again")
def test_restore_killed_in_the_middle_of_it_and_again():
    for fault in ("restore.rows-read:1:2", "restore.done:1:2"):
        with armed(fault) as d:
            sandbox = d.sandbox().id
            a = d.post(f"/v1/sandboxes/{sandbox}/exec", {"command": ["sh", "-c", SCRIPT], "async": True})
            os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
            wait_for(lambda: generations(d) >= 3, "the third control plane")
            check_exec(d, sandbox, a.json["exec_id"], 3, WANT)
            check_nothing_left(d)


@test("a sandbox that died, and its commands, say why after a restart too")
def test_a_sandbox_that_died_and_its_commands_say_why():
    with Daemon() as d, d.sandbox() as sb:
        marker = f"100.{d.port}"
        running = d.post(sb.path + "/exec", {"command": ["sleep", marker], "async": True}).json["exec_id"]
        answers = []
        t = threading.Thread(target=lambda: answers.append(sb.sh("sleep 50")))
        t.start()
        wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] == 2, "both run")
        kill_runner(d, marker)
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", "the sandbox's end")
        t.join()
        before = d.get(sb.path).json
        execs = {e: d.get(f"{sb.path}/execs/{e}").json for e in (running, answers[0]["exec_id"])}
        for e in execs:
            d.wait_recorded(e)
        os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
        equal(again(d, "GET", sb.path).json["error"], before["error"])
        for e, was in execs.items():
            check("sandbox_crash" in was["error"], was)
            equal(again(d, "GET", f"{sb.path}/execs/{e}").json, was)
        equal(again(d, "DELETE", sb.path).status, 200)


LANDLOCK = os.environ.get("MAS_RUNTIME") == "landlock"  # without a pid namespace


def fenced_runners(marker):
    """Without namespaces: the parents of what has the marker."""
    return [p for p in map(parent_of, running_exactly(f"sleep {marker}")) if p]


def kill_runner(d, marker):
    """PID 1 of the sandbox that runs `sleep MARKER`."""
    wait_for(lambda: running_exactly(f"sleep {marker}", below(d.process.pid)), "the command")
    if LANDLOCK:
        os.kill(fenced_runners(marker)[0], signal.SIGKILL)
        return
    space = proc_link(running_exactly(f"sleep {marker}")[0], "ns/pid")
    inside = [p for p in all_pids() if proc_link(p, "ns/pid") == space]
    os.kill(next(p for p in inside if status_of(p).get("NSpid", "").split()[1:][-1:] == ["1"]), signal.SIGKILL)


@test("a finished command is forgotten after its retention, whatever was restarted in between")
def test_a_finished_command_is_forgotten():
    with Daemon(config="exec_status_retention: 3s\n") as d, d.sandbox() as sb:
        done = sb.sh("echo out")["exec_id"]
        for _ in range(3):
            time.sleep(1.2)
            os.kill(again(d, "GET", "/v1/status").json["pid"], signal.SIGKILL)
        wait_for(lambda: again(d, "GET", f"{sb.path}/execs/{done}").status == 404, "to be forgotten")
        equal(again(d, "DELETE", sb.path).status, 200)


@test("input that died with the control plane: the command is ended, it does not take half for all")
def test_input_that_died_with_the_control_plane():
    with Daemon() as d, d.sandbox() as sb:
        for size, whole in ((900000, False), (50000, True)):
            a = d.post(sb.path + "/exec", {"command": ["sh", "-c", "until [ -e go ]; do sleep 0.05; done; wc -c"],
                                           "stdin": "x" * size, "async": True})
            path = f"{sb.path}/execs/{a.json['exec_id']}"
            os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
            if whole:
                equal(again(d, "PUT", f"{sb.path}/files/content?path=/workspace/go", b"").status, 200)
            wait_for(lambda: again(d, "GET", path).json["status"] != "running", "its end")
            got = again(d, "GET", path).json
            if whole:
                equal(got["status"], "completed", got)
                equal(events_of(d, path)[1]["data"], f"{size}\n")
            else:
                equal(got["status"], "failed", got)
                check("interrupted" in got["error"], got)
        equal(again(d, "DELETE", sb.path).status, 200)


@test("a canceled command is canceled after a restart")
def test_a_canceled_command_is_canceled_after_a_restart():
    with Daemon(config="kill_grace: 1s\n") as d:
        sb = d.sandbox()
        a = d.post(sb.path + "/exec", {"command": ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"],
                                       "async": True})
        path = f"{sb.path}/execs/{a.json['exec_id']}"
        wait_for(lambda: b"up" in d.get(path + "/logs").body, "up")
        equal(d.post(path + "/cancel").status, 200)
        os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
        wait_for(lambda: again(d, "GET", path).json["status"] not in ("running", "canceling"), "its end")
        equal(again(d, "GET", path).json["status"], "canceled")


# --- the state directory

def mounted(size):
    """A daemon whose state directory is a small file system of its own."""
    d = Daemon("--debug-endpoints")
    os.makedirs(d.dir + "/state")
    equal(subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", d.dir + "/state"]).returncode, 0)
    return d


def unmount(d):
    subprocess.run(["umount", "-l", d.dir + "/state"])


def fill(d):
    with open(d.dir + "/state/ballast", "wb", buffering=0) as f:
        for piece in (1 << 20, 4096, 1):
            try:
                while True:
                    f.write(b"x" * piece)
            except OSError:
                pass


@test("full disk: the daemon lives, refuses what it cannot record, and works again when there is room")
def test_full_disk_the_daemon_lives_refuses():
    d = mounted("3m")
    try:
        d.start()
        kept = d.sandbox()
        done = kept.sh("echo kept; exit 4")
        time.sleep(0.2)
        fill(d)
        refused = 0
        for _ in range(60):  # what SQLite has reserved already is used up first
            a = d.post("/v1/sandboxes", {"env": {"LONG": "x" * 60000}})
            if a.status != 201:
                refused += 1
                check(a.status in (500, 503, 507), a)
                check("record" in a.json["error"]["message"], a)
                break
        check(refused, "sandboxes are created although nothing can be recorded")
        a = d.post(kept.path + "/exec", {"command": ["sh", "-c", "sleep 20"], "async": True})
        check(a.status in (200, 500, 503, 507), a)
        a = d.post(kept.path + "/exec", {"command": ["sh", "-c", SCRIPT]})
        equal(a.status, 200, a)
        check(a.json["stdout"] == WANT or "journal" in json.dumps(a.json) or a.json.get("truncated"),
              f"output is missing and nothing says so: {a}")
        equal(d.get("/healthz").status, 200)
        os.unlink(d.dir + "/state/ballast")
        equal(d.get(f"{kept.path}/execs/{done['exec_id']}").json["exit_code"], 4)
        with d.sandbox() as sb:
            equal(sb.sh("echo again")["stdout"], "again\n")
        os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
        equal(again(d, "GET", f"{kept.path}/execs/{done['exec_id']}").json["exit_code"], 4)
        check_nothing_left(d)
    finally:
        d.stop()
        unmount(d)
        d.__exit__()


@test("full disk under a command that prints: it waits, and no byte is missing when there is room again")
def test_full_disk_under_a_command_that_prints_it_waits():
    d = mounted("6m")
    try:
        d.start()
        sb = d.sandbox()
        a = d.post(sb.path + "/exec", {"command": ["sh", "-c", "sleep 2; seq 1 250000; exit 5"], "async": True})
        path = f"{sb.path}/execs/{a.json['exec_id']}"
        time.sleep(0.3)
        fill(d)
        wait_for(lambda: d.get(path).json.get("output_blocked"), "output_blocked")
        time.sleep(1.5)
        equal(d.get(path).json["status"], "running")
        equal(d.get("/healthz").status, 200)
        os.unlink(d.dir + "/state/ballast")
        check_exec(d, sb.id, a.json["exec_id"], 5, "".join(f"{i}\n" for i in range(1, 250001)))
        a = d.post(sb.path + "/exec", {"command": ["sh", "-c", "sleep 2; seq 1 250000"], "async": True,
                                       "timeout_ms": 4000})
        path = f"{sb.path}/execs/{a.json['exec_id']}"
        time.sleep(0.3)
        fill(d)
        wait_for(lambda: d.get(path).json["status"] == "timed_out", "its end")
        events = events_of(d, path)
        check("cut" in [v["type"] for v in events], "what could not be written is said to be missing")
        equal(events[-1]["type"], "exit")
        os.unlink(d.dir + "/state/ballast")
        check_works(d)
    finally:
        d.stop()
        unmount(d)
        d.__exit__()


def cut_events(d, sb):
    """A command that prints on a full disk and is killed: what it printed is lost, and said to be."""
    a = d.post(sb.path + "/exec", {"command": ["sh", "-c", "read go; exec seq 1 250000"], "async": True, "open_stdin": True})
    path = f"{sb.path}/execs/{a.json['exec_id']}"
    fill(d)
    equal(d.request("POST", path + "/stdin", b"go\n").status, 200)
    wait_for(lambda: d.get(path).json.get("output_blocked"), "output_blocked")
    equal(d.post(path + "/signal", {"signal": "KILL"}).status, 200)
    wait_for(lambda: d.get(path).json["status"] not in ("running", "canceling"), "its end")
    events = events_of(d, path)
    equal([v["type"] for v in events if v["type"] != "output"], ["start", "cut", "exit"], "what is missing is said to be")
    return path, events


def outline(events):
    """Of each event all but its text, which is long, and when it ended."""
    return [{k: len(v) if k == "data" else v for k, v in e.items() if k not in ("sandbox_id", "exec_id", "time")}
            for e in events]


def same_events(d, path, events, when):
    wait_for(lambda: again(d, "GET", path).json["status"] not in ("running", "canceling"), "its end is known " + when)
    got = events_of(d, path)
    equal(outline(got), outline(events), when)
    check([e.get("data") for e in got] == [e.get("data") for e in events], "the same text " + when)


def has_ended_on_record(d, exec_id):
    db = sqlite3.connect(f"file:{d.state}/control/state.db?mode=ro", uri=True, timeout=5)
    try:
        rows = db.execute("SELECT body FROM exec WHERE key = ?", (exec_id,)).fetchall()
        return rows and b'"result"' in rows[0][0]
    finally:
        db.close()


@test("what a full disk cut off is cut off after a restart too, with the disk full or not")
def test_what_a_full_disk_cut_off_is_cut_off():
    for full_at_restart in (False, True):
        d = mounted("6m")
        try:
            d.start()
            sb = d.sandbox()
            path, events = cut_events(d, sb)
            if full_at_restart:
                os.kill(control_pid(d), signal.SIGKILL)
                wait_for(lambda: "exit_code=75" in d.log_text() or d.log_text().count("control plane ready") > 1,
                         "a try on the full disk")
            os.unlink(d.dir + "/state/ballast")
            wait_for(lambda: has_ended_on_record(d, path.rsplit("/", 1)[1]), "the record")
            if full_at_restart:  # nothing could be recorded: the numbers are new, the loss is not
                lost = sum(e.get("dropped_bytes", 0) + len(e.get("data", "")) for e in events)
                events = events_of(d, path)
                text = "".join(e.get("data", "") for e in events)
                cut = [e["dropped_bytes"] for e in events if e["type"] == "cut"]
                # Or the runner had all of it still, because nobody had told it that it was not kept.
                equal(sum(cut) + len(text), lost)
                check(cut or "".join(f"{i}\n" for i in range(1, 250001)).startswith(text), "neither cut nor whole")
                equal([e["type"] for e in events if e["type"] not in ("output", "cut")], ["start", "exit"])
            same_events(d, path, events, "with room again")
            for _ in range(2):
                kill_control(d)
                same_events(d, path, events, "after a restart")
            equal(again(d, "GET", sb.path).json["state"], "ready")
            check_works(d)
        finally:
            d.stop()
            unmount(d)
            d.__exit__()


@test("the wall clock jumps: timeouts, idle times, retention and idempotency keys do not")
def test_the_wall_clock_jumps_timeouts_idle_times():
    for jump in (7200, -7200):
        with Daemon("--debug-endpoints", "--idle-ttl", "60s", env={"MAS_CLOCK_JUMP": f"{jump}:1500"}) as d:
            began = time.time()
            sb = d.sandbox()
            done = sb.sh("echo kept")
            a = d.post(sb.path + "/exec", {"command": ["sleep", "60"], "async": True, "timeout_ms": 4000})
            path = f"{sb.path}/execs/{a.json['exec_id']}"
            key = {"Idempotency-Key": "clock"}
            first = d.request("POST", "/v1/sandboxes", {}, headers=key)
            equal(first.status, 201, first)
            time.sleep(max(0, began + 2.6 - time.time()))
            equal(d.get(sb.path).status, 200, "not idle for two hours")
            if time.time() - began < 3.5:
                equal(d.get(path).json["status"], "running", "it has time left")
            wait_for(lambda: d.get(path).json["status"] == "timed_out", "the timeout")
            equal(d.get(f"{sb.path}/execs/{done['exec_id']}").json["exit_code"], 0, "retention")
            second = d.request("POST", "/v1/sandboxes", {}, headers=key)
            equal((second.status, second.json["id"]), (201, first.json["id"]), "the key's first answer")
            check(abs(time.time() + jump - created(d, sb.sh("echo shifted"), sb)) < 60, "the clock did jump")


def created(d, result, sb):
    """When an exec began, as the daemon's clock says."""
    text = d.get(f"{sb.path}/execs/{result['exec_id']}").json["started_at"]
    return datetime.datetime.fromisoformat(text[:19] + "+00:00").timestamp()


def send(pids, signo):
    for pid in pids:
        try:
            os.kill(pid, signo)
        except ProcessLookupError:
            pass


@test("a runner that keeps no timeout is given up")
def test_a_runner_that_keeps_no_timeout_is_given_up():
    with Daemon("--debug-endpoints", config="kill_grace: 100ms\n") as d:
        sb = d.sandbox()
        mark = f"60.{os.getpid()}"

        def stopped_within(ms):
            path = f"{sb.path}/execs/" + d.post(sb.path + "/exec", {"command": ["sleep", mark], "async": True, "timeout_ms": ms}).json["exec_id"]
            warden = d.get("/v1/status").json["warden_pid"]
            runners = fenced_runners(mark) if LANDLOCK else [p for p in below(warden) if b"--pid1" in command_line(p)]
            send(runners, signal.SIGSTOP)
            if settled(lambda: d.get(path).json["status"], 0.1) != "running":
                send(runners, signal.SIGCONT)
                return None
            return path
        path = with_time(stopped_within, bool)
        wait_for(lambda: d.get(path).json["status"] == "failed", "its end")
        check("in time" in d.get(path).json["error"], d.get(path).json)
        equal(again(d, "DELETE", sb.path).status, 200)


@test("a read-only state directory: it does not start and says why")
def test_a_read_only_state_directory_it_does_not_start():
    d = mounted("3m")
    try:
        subprocess.run(["mount", "-o", "remount,ro", d.dir + "/state"], check=True)
        try:
            d.start()
            raise AssertionError("it started")
        except RuntimeError as problem:
            check("state" in str(problem) and "ead-only" in str(problem), problem)
    finally:
        d.stop()
        unmount(d)
        d.__exit__()


@test("the database is locked by another process for a while: answers wait, nothing is lost")
def test_the_database_is_locked_by_another_process():
    with Daemon() as d, d.sandbox() as sb:
        other = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        timer = time.time()
        done = sb.sh("echo quick; exit 5")
        check(time.time() - timer < PATIENCE_S, "a synchronous answer waits for no lock")
        equal(d.get("/healthz").status, 200)
        result = []
        t = threading.Thread(target=lambda: result.append(d.post("/v1/sandboxes", {})))
        t.start()
        time.sleep(1)
        equal(result, [], "a create that cannot be recorded yet")
        other.execute("ROLLBACK")
        t.join(60)
        equal(result[0].status, 201, result)
        equal(d.delete("/v1/sandboxes/" + result[0].json["id"]).status, 200)
        equal(d.get(f"{sb.path}/execs/{done['exec_id']}").json["exit_code"], 5)
        other.close()


@test("the database stays locked: creates are refused in bounded time, and it recovers")
def test_the_database_stays_locked_creates_are_refused():
    with Daemon() as d, d.sandbox() as sb:
        other = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        a = d.post("/v1/sandboxes", {})
        check(a.status >= 500, a)
        other.execute("ROLLBACK")
        other.close()
        equal(sb.sh("echo up")["stdout"], "up\n")
        check_works(d)


@test("a grant that is void stays so where that cannot be recorded, and is recorded later")
def test_a_grant_that_is_void_stays_so_where_that_cannot():
    with Guarded("version: 1\ndefault: allow\nrules:\n  - {id: touch, verdict: ask, command: 'touch *'}\n") as d, d.sandbox() as sb:
        call = {"command": ["touch", "/workspace/x"]}
        id = d.post(sb.path + "/exec", call).json["approval_id"]
        equal(d.post(f"/v1/approvals/{id}/approve", {}).status, 200)
        state = lambda: d.get("/v1/approvals/" + id).json["status"]
        wait_for(lambda: state() == "approved", "the grant")
        other = sqlite3.connect(d.state + "/control/state.db", isolation_level=None, timeout=5)
        other.execute("BEGIN IMMEDIATE")
        use = {"X-Mas-Approval-Id": id}
        a = d.post(sb.path + "/exec", {"command": ["touch", "/workspace/y"]}, headers=use)
        check(a.status == 403 and "void" in a.body.decode(), a)
        check(d.post("/v1/sandboxes", {}).status >= 500, "control: nothing can be recorded, what came before neither")
        equal(state(), "void")
        other.execute("ROLLBACK")
        a = d.post(sb.path + "/exec", call, headers=use)
        check(a.status == 403 and "void" in a.body.decode(), a)
        body = "SELECT body FROM approval WHERE key = ?"
        wait_for(lambda: json.loads(other.execute(body, (id,)).fetchone()[0])["state"] == "void", "the record")
        other.close()
        d.kill_control()
        equal(state(), "void")
        equal(sb.sh("ls /workspace")["stdout"], "")


@test("a session's count and the end of a key hold over kill -9 between any two commits of votes, uses and revocations")
def test_a_session_count_and_the_end_of_a_key_hold():
    token = "t" * 32
    policy = "version: 1\ndefault: allow\nrules:\n  - {id: touch, verdict: ask, risk: medium, command: 'touch *'}\n"
    for point in [f"{p}:{n}" for n in (5, 7, 9) for p in ("commit.before", "commit.done")] + ["approval.recorded:4", "approval.using:1"]:
        with Guarded(policy, "--debug-endpoints", "--auth-token", token, env={"MAS_FAULT": point}) as d:
            d.token = token

            def tried(call):
                """What it answers; once more where the control plane died under it."""
                for _ in range(4):
                    try:
                        return call()
                    except (OSError, http.client.HTTPException):
                        time.sleep(0.3)
                raise AssertionError(point + ": the daemon does not come back")
            heads = {}
            for name, role in (("agent", "agent"), ("boss", "approver")):
                a = tried(lambda: d.post("/v1/keys", {"name": name + os.urandom(2).hex(), "roles": [role]}))
                heads[name], heads[name + " id"] = {"Authorization": "Bearer " + a.json["secret"]}, a.json["id"]
            box = tried(lambda: d.post("/v1/sandboxes", {}, headers=heads["agent"])).json
            use = lambda: tried(lambda: d.post(f"/v1/sandboxes/{box['id']}/exec", {"command": ["touch", "/workspace/x"]}, headers=heads["agent"]))
            id = use().json["approval_id"]
            tried(lambda: d.post(f"/v1/approvals/{id}/approve", {"session": {"count": 3}}, headers=heads["boss"]))
            for _ in range(5):
                use()
            ran = lambda: [r for r in d.records(kind="intent") if r.get("details", {}).get("grant") == id]
            look = lambda: tried(lambda: d.get("/v1/approvals/" + id)).json
            check(len(ran()) <= 3, f"{point}: {len(ran())} ran of 3")
            left = look().get("session_calls_left", 0) if look()["status"] == "approved" else 0
            check(left + len(ran()) <= 3, f"{point}: {left} left after {len(ran())}")
            tried(lambda: d.delete("/v1/keys/" + heads["boss id"]))
            d.kill_control()
            before = len(ran())
            wait_for(lambda: look()["status"] not in ("approved", "pending") or not look()["confirmations"], f"{point}: {look()}")
            equal(use().status, 202, point)
            equal(len(ran()), before, f"{point}: nothing runs on a vote of a key that has ended")


@test("a fault is armed only with --debug-endpoints")
def test_a_fault_is_armed_only_with_debug_endpoints():
    with Daemon(env={"MAS_FAULT": "create.before-row"}) as d:
        check_works(d)
        equal(generations(d), 1)


main()
