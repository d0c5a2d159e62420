#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Pause and resume: by the freezer on every runtime that has it, refused by name elsewhere."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

RUNTIME = os.environ.get("MAS_RUNTIME", "local")
SLOW = RUNTIME.endswith("gvisor")


def daemon():
    return shared_daemon("--kill-grace", "1s", "--enable-process", "--cgroup-prefix", f"mas-pause-{os.getpid()}")


def counter(sb):
    a = sb.daemon.post(sb.path + "/exec", {"command": ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.05; done"],
                                           "async": True})
    equal(a.status, 200, a)
    path = sb.path + "/execs/" + a.json["exec_id"]
    wait_for(lambda: lines(sb, path) > 2, "it counts")
    return path


def lines(sb, path):
    return sum(json.loads(x)["type"] == "output" for x in sb.daemon.get(path + "/logs").body.splitlines())


def paused(sb, verb="pause"):
    a = sb.daemon.post(f"{sb.path}/{verb}")
    equal(a.status, 200, a)
    return a.json


@test("a paused sandbox stands still, says so, takes nothing, and goes on where it was")
def test_a_paused_sandbox_stands_still_says_so_takes():
    with daemon().sandbox(runtime=RUNTIME) as sb:
        path = counter(sb)
        equal(paused(sb)["state"], "paused")
        equal(paused(sb)["state"], "paused", "once more")
        before = settled(lambda: lines(sb, path), 0.6)
        equal(sb.daemon.get(sb.path).json["state"], "paused")
        a = sb.daemon.post(sb.path + "/exec", {"command": ["true"]})
        equal((a.status, a.json["error"]["code"]), (409, "conflict"), a)
        check("paused" in a.json["error"]["message"], a)
        equal(sb.daemon.get(f"{sb.path}/files?path=/tmp").status, 409)
        equal(paused(sb, "resume")["state"], "ready")
        equal(paused(sb, "resume")["state"], "ready", "once more")
        wait_for(lambda: lines(sb, path) > before + 3, "it goes on")
        equal(sb.sh("echo fine")["stdout"], "fine\n")


@test("a paused sandbox can be deleted, with all that is in it")
def test_a_paused_sandbox_can_be_deleted():
    sb = daemon().sandbox(runtime=RUNTIME)
    counter(sb)
    paused(sb)
    started = time.time()
    equal(sb.delete().status, 200)
    check(time.time() - started < PATIENCE_S, "slow to go")
    equal(daemon().get(sb.path).status, 404)


@test("a timeout that passed during a pause is acted on at its end")
def test_a_timeout_that_passed_during_a_pause_is_acted():
    with daemon().sandbox(runtime=RUNTIME) as sb:
        for ms in (700 if not SLOW else 2000, 7000, 30000):  # enough for the pause to come in time
            began = time.time()
            a = sb.daemon.post(sb.path + "/exec", {"command": ["sleep", "600"], "async": True, "timeout_ms": ms})
            path = sb.path + "/execs/" + a.json["exec_id"]
            paused(sb)
            if sb.daemon.get(path).json["status"] == "running":
                break
            paused(sb, "resume")
        time.sleep(max(0, began + ms / 1000 + 0.3 - time.time()))
        equal(sb.daemon.get(path).json["status"], "running")
        paused(sb, "resume")
        wait_for(lambda: sb.daemon.get(path).json["status"] == "timed_out", "it is ended")


@test("a pause outlives the control plane, and so does what was running")
def test_a_pause_outlives_the_control_plane():
    with Daemon("--cgroup-prefix", f"mas-pause2-{os.getpid()}") as d, d.sandbox(runtime=RUNTIME) as sb:
        path = counter(sb)
        paused(sb)
        d.kill_control()
        equal(d.get(sb.path).json["state"], "paused")
        before = settled(lambda: lines(sb, path), 0.4)
        paused(sb, "resume")
        wait_for(lambda: lines(sb, path) > before + 3, "it goes on")
        wait_for(lambda: d.get(sb.path).json["state"] == "ready", "it is ready")
        equal(sb.sh("echo fine")["stdout"], "fine\n")


@test("an idle sandbox's TTL goes on while it is paused")
def test_an_idle_sandbox_ttl_goes_on_while_it_is_paused():
    with Daemon("--idle-ttl", "1s", "--cgroup-prefix", f"mas-pause3-{os.getpid()}") as d:
        sb = d.sandbox(runtime=RUNTIME)
        paused(sb)
        wait_for(lambda: d.get(sb.path).status == 404, "it is deleted")


@test("the runtimes say whether they can; one that cannot refuses by name")
def test_the_runtimes_say_whether_they():
    d = daemon()
    said = {r["name"]: r["pause"] for r in d.get("/v1/status").json["runtimes"]}
    check(said[RUNTIME] is True and said["process"] is False, said)
    with d.sandbox(runtime="process") as sb:
        for verb in ("pause", "resume"):
            a = d.post(f"{sb.path}/{verb}")
            equal((a.status, a.json["error"]["code"]), (400, "unsupported"), a)
            check("process" in a.json["error"]["message"], a)
    equal(d.post("/v1/sandboxes/sbx-nobody/pause").status, 404)


@test("sbx pause and resume")
def test_sbx_pause_and_resume():
    d = daemon()
    with d.sandbox(runtime=RUNTIME) as sb:
        for verb, word, state in (("pause", "paused", "paused"), ("resume", "resumed", "ready")):
            out = subprocess.run([SBX, verb, "-addr", f"http://127.0.0.1:{d.port}", "-id", sb.id], capture_output=True, text=True)
            equal((out.returncode, out.stdout), (0, word + "\n"), out.stderr)
            equal(d.get(sb.path).json["state"], state)


main()
