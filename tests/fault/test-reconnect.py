#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Connections to runners break, at every byte of what either side sends: where the runtime makes them again, nothing
is lost and nothing is doubled. MAS_CUT_RUNNERS ends them as a network would, the first after a few bytes and each
further one a byte later, in turns of bytes read and bytes written."""
import contextlib
import hashlib
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *


def cut(after=1, *flags):
    often = () if "--reconnects-per-minute" in flags else ("--reconnects-per-minute", "1000000")
    return Daemon("--debug-endpoints", *often, *flags, env={"MAS_CUT_RUNNERS": str(after)})


def lost(d):
    return d.log_text().count("a runner is reached again")


@test("commands, their output, input and exit codes are whole although connections break at every byte")
def test_commands_are_whole_although_connections_break():
    with cut() as d, d.sandbox() as sb:
        for i in range(60):
            text = f"{i} " * (i % 7 + 1)
            a = sb.exec("sh", "-c", f"cat; echo {text}; echo e{i} >&2; exit {i}", stdin=f"in{i}\n")
            equal((a["stdout"], a["stderr"], a["exit_code"]), (f"in{i}\n{text.strip()}\n", f"e{i}\n", i), i)
        check(lost(d) > 8, f"connections broke: {lost(d)}")
        equal(d.get(sb.path).json["state"], "ready", "the sandbox")


@test("a long output is whole and in order, and read once")
def test_a_long_output_is_whole():
    with cut(100) as d, d.sandbox() as sb:
        a = d.post(f"{sb.path}/exec", {"command": ["seq", "1", "60000"], "async": True})
        ws = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={a.json['exec_id']}")
        events = [json.loads(m) for m in ws.messages()]
        text = "".join(e["data"] for e in events if e["type"] == "output")
        equal(hashlib.sha256(text.encode()).hexdigest(),
              hashlib.sha256("".join(f"{i}\n" for i in range(1, 60001)).encode()).hexdigest(), len(text))
        equal([e["seq"] for e in events], list(range(events[0]["seq"], events[0]["seq"] + len(events))), "numbers")
        equal(events[-1]["exit_code"], 0, events[-1])
        check(lost(d) > 3, f"connections broke: {lost(d)}")


@test("files go in and out whole")
def test_files_go_in_and_out_whole():
    with cut(600) as d, d.sandbox() as sb:
        data = os.urandom(300000)
        equal(d.put(f"{sb.path}/files/content?path=f", data).status, 200, "written")
        equal(d.get(f"{sb.path}/files/content?path=f").body == data, True, "read")
        check(lost(d) > 3, f"connections broke: {lost(d)}")


@test("a command is started once, a signal and an input arrive once")
def test_a_command_is_started_once():
    with cut() as d, d.sandbox() as sb:
        for i in range(25):
            sb.exec("sh", "-c", f"echo {i} >> started")
        equal(sb.exec("cat", "started")["stdout"], "".join(f"{i}\n" for i in range(25)), "starts")
        script = "trap 'echo one >> signals' USR1; echo up; while read line; do echo got $line; done; cat signals"
        a = d.post(f"{sb.path}/exec", {"command": ["bash", "-c", script], "async": True, "open_stdin": True}).json
        at = f"{sb.path}/execs/{a['exec_id']}"
        wait_for(lambda: "up" in d.get(f"{at}/logs").body.decode(), "the trap")
        for i in range(5):
            equal(d.post(f"{at}/signal", {"signal": "USR1"}).status, 200, "signal")
            wait_for(lambda i=i: sb.exec("sh", "-c", "cat signals || true")["stdout"] == "one\n" * (i + 1), "the signal")
            equal(d.request("POST", f"{at}/stdin", f"{i}\n".encode()).status, 200, "input")
        equal(d.request("POST", f"{at}/stdin?close=true", b"").status, 200, "end of input")
        wait_for(lambda: d.get(at).json["status"] == "completed", "its end")
        text = "".join(json.loads(x).get("data", "") for x in d.get(f"{at}/logs").body.splitlines())
        equal(text, "up\n" + "".join(f"got {i}\n" for i in range(5)) + "one\n" * 5, "what it printed")


@test("control planes that are killed meanwhile lose nothing either")
def test_control_planes_that_are_killed_meanwhile():
    with cut(30) as d, d.sandbox() as sb:
        done = []
        for i in range(12):
            a = again(d, "POST", f"{sb.path}/exec", {"command": ["sh", "-c", f"sleep 0.1; echo {i}"], "async": True})
            done.append((i, a.json["exec_id"]))
            if i % 4 == 3:
                kill_control(d)
        for i, id_ in done:
            at = f"{sb.path}/execs/{id_}"
            wait_for(lambda at=at: again(d, "GET", at).json["status"] not in ("running", "canceling"), "its end")
            record = again(d, "GET", at).json
            equal((record["status"], record.get("exit_code")), ("completed", 0), record)
            text = "".join(json.loads(x).get("data", "") for x in again(d, "GET", f"{at}/logs").body.splitlines())
            equal(text, f"{i}\n", at)


@test("input beyond what the runner has room for waits, also after the control plane was killed")
def test_input_beyond_the_window_after_a_restart():
    with Daemon() as d, d.sandbox() as sb:
        a = d.post(f"{sb.path}/exec", {"command": ["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; exec cat > copy"],
                                       "async": True, "open_stdin": True}).json
        at = f"{sb.path}/execs/{a['exec_id']}"
        wait_for(lambda: d.get(at).json.get("pid") or d.get(at).json["status"] == "running", "its start")
        # An answer comes when the command has read all, and it has yet to begin: each control plane takes some along.
        for i in range(6):
            threading.Thread(target=once, args=(d, "POST", f"{at}/stdin", bytes([97 + i]) * 250000), daemon=True).start()
            time.sleep(0.6)
            kill_control(d)
            wait_for(lambda: again(d, "GET", at).status == 200, "the command")
        answers = []
        rest = threading.Thread(target=lambda: answers.append(again(d, "POST", f"{at}/stdin?close=true", b"z" * 500000)))
        rest.start()
        time.sleep(0.6)
        equal(again(d, "GET", sb.path).json["state"], "ready", "the sandbox")
        sb.exec("touch", "go")
        rest.join()
        equal(answers[0].status, 200, "the last part")
        wait_for(lambda: d.get(at).json["status"] == "completed", "its end")
        got = d.get(f"{sb.path}/files/content?path=copy").body
        equal(got == b"".join(sorted([bytes([c]) for c in got])), True, "in order")
        equal(got.count(b"z"), 500000, "the last part")


def runner_of(command):
    return next((p for p in map(parent_of, running_exactly(command)) if p), None)


@test("a sandbox whose runner does not answer again has crashed, with the key that says after how long")
def test_a_sandbox_whose_runner_does_not_answer_again():
    mark = f"sleep 1618033.{os.getpid()}"
    with cut(1, "--reconnect-timeout", "2s") as d, d.sandbox() as sb:
        a = d.post(f"{sb.path}/exec", {"command": mark.split(), "async": True}).json
        wait_for(lambda: runner_of(mark), "a command of the runner's")
        runner = runner_of(mark)
        os.kill(runner, signal.SIGSTOP)
        try:
            for _ in range(3):
                d.post(f"{sb.path}/exec", {"command": ["true"], "async": True})
            wait_for(lambda: d.get(sb.path).json["state"] == "crashed", "the crash")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(runner, signal.SIGCONT)
        check("not reached again within 2 s (reconnect_timeout)" in d.get(sb.path).json["error"], d.get(sb.path).json)
        record = d.get(f"{sb.path}/execs/{a['exec_id']}").json
        equal(record["status"], "failed", record)
        check("sandbox_crash" in record["error"], record)


@test("a sandbox whose connections break again and again has crashed, with the key that says how often")
def test_a_sandbox_whose_connections_break_again_and_again():
    with cut(600, "--reconnects-per-minute", "5") as d, d.sandbox() as sb:
        def crashed():
            d.post(f"{sb.path}/exec", {"command": ["true"], "async": True})
            return d.get(sb.path).json["state"] == "crashed"
        wait_for(crashed, "the crash")
        check("left 6 times in a minute (reconnects_per_minute)" in d.get(sb.path).json["error"], d.get(sb.path).json)
        equal(d.run("echo", "another")["stdout"], "another\n", "others are not concerned")


@test("deleting a sandbox is legal while its runner is looked for")
def test_deleting_while_its_runner_is_looked_for():
    mark = f"sleep 1732050.{os.getpid()}"
    with cut(1) as d:
        sb = d.sandbox()
        d.post(f"{sb.path}/exec", {"command": mark.split(), "async": True})
        wait_for(lambda: runner_of(mark), "a command of the runner's")
        runner = runner_of(mark)
        os.kill(runner, signal.SIGSTOP)
        for _ in range(3):
            d.post(f"{sb.path}/exec", {"command": ["true"], "async": True})
        wait_for(lambda: "not reached" in d.log_text(), "the loss")
        equal(d.delete(sb.path).status, 200, "deleted")
        equal(d.get(sb.path).status, 404, "gone")


main()
