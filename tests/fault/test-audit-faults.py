#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The control plane is killed between decision and start, start and exit, exit and audit: the log never
claims what did not happen and never lacks what did. A call leaves a mark in its sandbox's file system,
so that the log can be held against what really ran."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *


def audit(d, query=""):
    a = again(d, "GET", "/v1/audit?limit=100000" + query)
    equal(a.status, 200, a)
    return [json.loads(x) for x in a.body.splitlines()]


def calls_of(records):
    """Kinds by call, in order."""
    calls = {}
    for r in records:
        if "call" in r:
            calls.setdefault(r["call"], []).append(r["kind"])
    return calls


def open_calls(records):
    ended = {r["call"] for r in records if r["kind"] in ("exited", "done", "interrupted")}
    return [r["call"] for r in records if r["kind"] == "intent" and r["call"] not in ended]


def check_log(d, what):
    """What is always true, and that all of it can be proved."""
    records = audit(d)
    equal([r["seq"] for r in records], list(range(1, len(records) + 1)), what)
    for call, kinds in calls_of(records).items():
        ends = [k for k in kinds if k in ("exited", "done", "interrupted")]
        check(len(ends) <= 1 and kinds[0] in ("intent", "refusal", "decision"), (what, call, kinds))
        if "started" in kinds:
            check("intent" in kinds and kinds.index("intent") < kinds.index("started"), (what, kinds))
    p = subprocess.run([SBX, "audit", "verify", "-addr", f"http://127.0.0.1:{d.port}"], stdout=subprocess.PIPE,
                       text=True)
    equal(p.returncode, 0, (what, p.stdout))
    return records


# Which record it is: a start, the configuration, in a lasting sandbox its creation, then those of the call.
INTENT, STARTED, EXITED = 4, 5, 6
ONE_SHOT_INTENT, ONE_SHOT_STARTED = 3, 4


def killed_in_sandbox(fault):
    """One exec in a lasting sandbox, killed at the fault; the marks it left, and its records."""
    with Daemon("--debug-endpoints", env={"MAS_FAULT": fault}) as d:
        s = d.sandbox()
        before = len(audit(d))
        once(d, "POST", s.path + "/exec", {"command": ["sh", "-c", "echo ran >> /workspace/mark; exit 3"]})
        wait_for(lambda: generations(d) >= 2, fault)
        wait_for(lambda: not open_calls(audit(d)), "what still runs ends")
        a = again(d, "GET", s.path + "/files/content?path=/workspace/mark")
        marks = a.body.decode().count("ran") if a.status == 200 else 0
        records = check_log(d, fault)
        calls = calls_of(records[before:])
        execs = [k for c, k in calls.items()
                 if any(r.get("call") == c and r["kind"] == "intent" and r.get("tool") == "exec" for r in records)]
        # a call that was killed before its intent has no record at all
        return marks, (execs[0] if execs else []), records


@test("before the intent is written: nothing ran, nothing is claimed")
def test_before_the_intent_is_written_nothing_ran_nothing():
    marks, kinds, _ = killed_in_sandbox(f"audit.before-write:{INTENT}")
    equal((marks, kinds), (0, []))


@test("after the intent, before the start: nothing ran, and the call is settled as interrupted")
def test_after_the_intent_before_the_start_nothing_ran():
    for fault in (f"audit.written:{INTENT}", "exec.before-spawn:1"):
        marks, kinds, records = killed_in_sandbox(fault)
        equal((marks, kinds), (0, ["intent", "interrupted"]), fault)
        ended = [r for r in records if r["kind"] == "interrupted"]
        equal(ended[0]["outcome"], "unknown", fault)


@test("after the start, before the exit: it goes on, and its end is recorded once, as it was")
def test_after_the_start_before_the_exit_it_goes():
    for fault in ("exec.spawned:1", f"audit.before-write:{STARTED}", f"audit.written:{STARTED}"):
        marks, kinds, records = killed_in_sandbox(fault)
        equal(marks, 1, fault)
        check(kinds[0] == "intent" and kinds[-1] == "exited" and kinds.count("exited") == 1, (fault, kinds))
        check("started" in kinds, (fault, kinds))
        end = [r for r in records if r["kind"] == "exited" and r["details"].get("exit_code") == 3]
        equal(len(end), 1, fault)


@test("after the exit, before and after its record: it is there, once")
def test_after_the_exit_before_and_after_its_record():
    for fault in ("exit.received:1", f"audit.before-write:{EXITED}", f"audit.written:{EXITED}", "exit.told:1",
                  "exit.before-row:1"):
        marks, kinds, records = killed_in_sandbox(fault)
        equal(marks, 1, fault)
        equal(kinds.count("exited"), 1, (fault, kinds))
        equal([r["details"]["exit_code"] for r in records if r["kind"] == "exited" and r.get("exec")][:1], [3], fault)


@test("a one-shot that dies with the control plane is interrupted, whenever that was")
def test_a_one_shot_that_dies_with_the_control_plane():
    for fault, started in ((f"audit.written:{ONE_SHOT_INTENT}", False), ("exec.spawned:1", None),
                           (f"audit.written:{ONE_SHOT_STARTED}", True)):
        with Daemon("--debug-endpoints", env={"MAS_FAULT": fault}) as d:
            once(d, "POST", "/v1/run", {"command": ["sleep", "5"]})
            wait_for(lambda: generations(d) >= 2, fault)
            records = check_log(d, fault)
            kinds = [r["kind"] for r in records if "call" in r]
            equal(kinds[-1], "interrupted", (fault, kinds))
            check("exited" not in kinds, (fault, kinds))
            if started is not None:
                equal("started" in kinds, started, (fault, kinds))


def patch_memory(pid, old, new):
    """Writes new over every old in what a process may write to; how often."""
    n = 0
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "r+b", buffering=0) as mem:
        for line in maps:
            where, mode = line.split()[:2]
            if not mode.startswith("rw") or "[v" in line:
                continue
            start, end = (int(x, 16) for x in where.split("-"))
            mem.seek(start)
            data, at = mem.read(end - start), -1
            while (at := data.find(old, at + 1)) >= 0:
                mem.seek(start + at)
                mem.write(new)
                n += 1
    return n


@test("a runner that names another sandbox's call does not end it")
def test_a_runner_that_names_another_sandbox_call():
    if os.getuid():
        print("# skipped: only root may change a runner's memory")
        return
    with Daemon() as d:
        victim, liar = d.sandbox(), d.sandbox()
        d.post(victim.path + "/exec", {"command": ["sleep", "600"], "async": True})
        calls = lambda sb: [r["call"] for r in audit(d, f"&sandbox={sb.id}&kind=intent")]
        # Of a command that nobody was told of, only its runner knows.
        threading.Thread(target=once, args=(d, "POST", liar.path + "/exec", {"command": ["sleep", "1.75"]}),
                         daemon=True).start()
        wait_for(lambda: calls(liar), "the intent")
        tools = lambda: running_exactly("sleep 1.75", below(d.process.pid))
        wait_for(tools, "the command")
        tool = tools()[0]
        runner = parent_of(tool)
        old, new = calls(liar)[0], calls(victim)[0]
        check(patch_memory(runner, old.encode(), new.encode()), "the tag is changed")
        d.kill_control()
        wait_for(lambda: open_calls(audit(d)) == [new], "its own call is settled, the other one goes on")
        time.sleep(2)
        equal(open_calls(audit(d)), [new], "the victim's call goes on")
        check("names a call of another sandbox" in d.log_text(), "it is told")
        check_log(d, "lied")


@test("killed while chaining, signing and storing a checkpoint: the chain goes on and can be proved")
def test_killed_while_chaining_signing_and_storing():
    for fault in ("audit.chain:1", "audit.chain:2", "audit.signed:1", "audit.checkpoint-saved:1"):
        with Daemon("--debug-endpoints", "--audit-checkpoint-interval", "50ms", env={"MAS_FAULT": fault}) as d:
            for _ in range(3):
                once(d, "POST", "/v1/run", {"command": ["true"]})
                time.sleep(0.1)
            wait_for(lambda: generations(d) >= 2, fault)
            equal(again(d, "POST", "/v1/run", {"command": ["true"]}).status, 200)
            records = check_log(d, fault)
            equal([r["outcome"] for r in records if r["kind"] == "damage"], [], fault)


def rotations(d):
    """Outcomes on record; the exported audit verifies with the key of before."""
    path, first = os.path.join(d.dir, "export"), os.path.join(d.dir, "first.pub")
    with open(path, "wb") as f:
        f.write(again(d, "GET", "/v1/audit/export").body)
    p = subprocess.run([SBX, "audit", "verify", path, "-key", first], stdout=subprocess.PIPE, text=True)
    equal(p.returncode, 0, p.stdout)
    return [r["outcome"] for r in audit(d, "&kind=key_change") if r["outcome"] != "unknown"]


def keep_key(d):
    shutil.copy(d.state + "/warden/audit.pub", os.path.join(d.dir, "first.pub"))


@test("the warden is killed between any two writes of a rotation: one key is valid, and proved by the old one")
def test_the_warden_is_killed_between_any_two_writes():
    for fault, rotated in (("sign.next-made", False), ("sign.old-kept", False), ("sign.rotation-decided", True),
                           ("sign.key-moved", True), ("sign.public-saved", True)):
        with Daemon("--debug-endpoints", env={"MAS_FAULT": fault + ":1:0"}) as d:
            d.run("true")
            keep_key(d)
            old = d.get("/v1/audit/checkpoint").json["key"]
            a = once(d, "POST", "/v1/audit/rotate")
            check(a is None or a.status == 503, (fault, a))
            d.process.wait(PATIENCE_S)
            del d.env["MAS_FAULT"]
            d.launch()
            new = d.get("/v1/audit/checkpoint").json["key"]
            equal(new != old, rotated, fault)
            equal(rotations(d), ["asked"] + ["rotated"] * rotated, fault)
            equal(d.post("/v1/audit/rotate").status, 200, fault)
            check_log(d, fault)
            equal(rotations(d)[-1], "rotated", fault)


@test("the control plane is killed while a key is rotated: it is on record, and can be proved")
def test_the_control_plane_is_killed_while_a_key():
    for fault in ("audit.signed", "audit.checkpoint-saved", "audit.rotation-told"):
        with Daemon("--debug-endpoints", "--audit-checkpoint-interval", "0", "--audit-checkpoint-records", "0",
                    env={"MAS_FAULT": fault}) as d:
            keep_key(d)
            once(d, "POST", "/v1/audit/rotate")
            wait_for(lambda: generations(d) >= 2, fault)
            told = rotations(d)
            check(told[0] == "asked" and told[1:] in (["rotated"], ["rotated"] * 2), (fault, told))
            check_log(d, fault)


@test("killed again and again under load: every answer has its records")
def test_killed_again_and_again_under_load_every_answer():
    with Daemon("--debug-endpoints", "--audit-checkpoint-interval", "20ms", "--control-restarts", "100") as d:
        s = d.sandbox()
        answered = 0
        for round_ in range(6):
            pid = again(d, "GET", "/v1/status").json["pid"]
            for i in range(10):
                a = once(d, "POST", s.path + "/exec", {"command": ["true"]})
                answered += bool(a and a.status == 200)
                if i == 4 + round_ % 3:
                    os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not open_calls(audit(d)), "an end of every call")
        records = check_log(d, "load")
        exited = sum(r["kind"] == "exited" for r in records)
        check(exited >= answered, (exited, answered))
        equal(open_calls(records), [], "open calls")


main()
