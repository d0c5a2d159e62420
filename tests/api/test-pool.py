#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Warm pools: sandboxes made ahead, each given to one caller."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *


def metric(d, name):
    for line in d.get("/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return int(line.split()[1])
    raise AssertionError(f"no metric {name}")


def wait_ready(d, n):
    wait_for(lambda: metric(d, "sandbox_warm_pool_ready") == n, f"{n} in the pool")


@test("creates and runs come from the pool, which fills again")
def test_creates_and_runs_come_from_the_pool_which_fills():
    with Daemon("--warm-pool-size", "3") as d:
        wait_ready(d, 3)
        equal(d.get("/sandboxes").json, [], "pooled ones are nobody's")
        a = d.post("/sandboxes", {"id": "mine", "env": {"A": "b"}})
        equal(a.json["id"], "sbx-mine")
        equal(metric(d, "sandbox_warm_pool_hits_total"), 1)
        out = d.post("/sandboxes/sbx-mine/exec", {"command": ["sh", "-c", "echo $A; id -u; pwd"], "async": False})
        equal(out.json["stdout"], "b\n1000\n/workspace\n")
        equal(d.run("echo", "hi")["stdout"], "hi\n")
        equal(metric(d, "sandbox_warm_pool_hits_total"), 2)
        wait_ready(d, 3)
        equal([s["id"] for s in d.get("/sandboxes").json], ["sbx-mine"])


@test("no two callers ever get the same one, and none that was used comes back")
def test_no_two_callers_ever_get_the_same_one_and_none():
    with Daemon("--warm-pool-size", "4") as d:
        for i in range(30):
            r = d.run("sh", "-c", "ls -A /workspace /tmp; touch /workspace/mark /tmp/mark")
            equal(r["stdout"], "/tmp:\n\n/workspace:\n", f"run {i}")
        check(metric(d, "sandbox_warm_pool_hits_total") > 0, "some came from the pool")


@test("what cannot be applied afterwards is made fresh, and enforced")
def test_what_cannot_be_applied_afterwards_is_made_fresh():
    with Daemon("--warm-pool-size", "2") as d:
        wait_ready(d, 2)
        sb = d.sandbox(limits={"memory_mb": 100})
        equal(sb.created["effective"]["memory"]["limit_mb"], 100)
        equal(metric(d, "sandbox_warm_pool_hits_total"), 0)
        sb2 = d.sandbox(limits={"memory_mb": 512})
        equal(sb2.created["effective"]["memory"]["limit_mb"], 512)
        equal(metric(d, "sandbox_warm_pool_hits_total"), 1, "the pool's own limit, asked for")
        equal(d.post("/v1/sandboxes", {"limits": {"io_mb_per_s": 1}}).status, 422)
        equal(d.sandbox(workdir="/tmp").exec("pwd")["stdout"], "/tmp\n")


@test("a claimed sandbox lives through kill -9 of the control plane, pooled ones are made anew")
def test_a_claimed_sandbox_lives_through_kill_9():
    with Daemon("--warm-pool-size", "2") as d:
        wait_ready(d, 2)
        sb = d.sandbox(id="kept")
        sb.sh("echo here > file")
        d.kill_control()
        equal(sb.sh("cat file")["stdout"], "here\n")
        wait_ready(d, 2)
        equal(sb.delete().status, 200)


@test("autosize follows demand between min and max")
def test_autosize_follows_demand_between_min_and_max():
    with Daemon("--warm-pool-autosize", "--warm-pool-min", "1", "--warm-pool-max", "3") as d:
        wait_ready(d, 1)
        for _ in range(6):
            d.run("true")
        wait_ready(d, 3)


@test("a pooled sandbox that dies is replaced; stopping leaves nothing")
def test_a_pooled_sandbox_that_dies_is_replaced_stopping():
    d = Daemon("--warm-pool-size", "2", "--blanks", "0").start()
    try:
        wait_ready(d, 2)
        warden = d.process.pid

        def alive():
            return processes("mas-toolrunner --pid1", children_of(warden))
        runners = alive()
        check(len(runners) >= 2, runners)
        os.kill(runners[0], signal.SIGKILL)
        wait_for(lambda: set(alive()) - set(runners), "another one")
        wait_ready(d, 2)
        equal(d.run("echo", "ok")["stdout"], "ok\n")
        equal(d.stop(), 0)
        for r in runners:
            wait_for(lambda: not stat_fields(r), f"the end of {r}")
    finally:
        d.__exit__()


FACTS = """hostname; pwd; ulimit -n; ulimit -u; ls -A / /workspace /tmp; df -k /workspace /tmp | tail -2; df -i /tmp | tail -1
cat /proc/1/cmdline | tr '\\0' ' '; cat /proc/1/limits; grep -E 'Seccomp|NoNewPrivs|Cap|Uid|Gid' /proc/self/status /proc/1/status
cut -d' ' -f5- /proc/self/mountinfo | sed 's/mas[^ ]*//; s/[ug]id=2[0-9]*//g' | sort; cat /proc/sys/user/max_user_namespaces; id"""
SPECS = ({}, {"limits": {"memory_mb": 512}}, {"limits": {"memory_mb": 100}}, {"limits": {"cpu_cores": 0.5}},
         {"limits": {"max_processes": 20}}, {"limits": {"disk_mb": 10}}, {"workdir": "/tmp"})


@test("whether it was armed ahead shows in nothing: not in the report, and not inside")
def test_whether_it_was_armed_ahead_shows_in_nothing():
    with Daemon("--blanks", "8") as ahead, Daemon("--blanks", "0") as none:
        for spec in SPECS:
            time.sleep(0.1)  # for blanks to be armed again
            a, b = ahead.sandbox(**spec), none.sandbox(**spec)
            equal(a.created["effective"], b.created["effective"], spec)
            inside = [re.sub("loop[0-9]+", "loop", sb.sh(FACTS)["stdout"]) for sb in (a, b)]
            equal(*inside, spec)
        equal(a.sh("hostname")["stdout"], "sandbox\n", "control: the facts are facts")


@test("no two of them share a namespace")
def test_no_two_of_them_share_a_namespace():
    with Daemon("--blanks", "4") as d:
        seen = set()
        kinds = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
        for i in range(12):
            names = d.sandbox().sh("readlink " + " ".join(f"/proc/self/ns/{k}" for k in kinds))["stdout"].split()
            equal(len(names), len(kinds))
            check(not seen & set(names), f"sandbox {i}: {names}")
            seen |= set(names)


def count(d):
    return d.get("/v1/status").json["counts"]["sandboxes"]


@test("sandboxes of one-shot runs are gone soon after a burst, also when it does not end")
def test_sandboxes_of_one_shot_runs_are_gone_soon():
    with Daemon() as d:
        for _ in range(50):
            d.run("true")
        check(count(d) <= 40, "a burst keeps few")
        wait_for(lambda: count(d) == 0, "all are deleted")
        end = time.time() + 1.5
        while time.time() < end:  # never quiet for long, never many
            d.run("true")
            time.sleep(0.004)
        check(count(d) <= 40, count(d))


@test("a one-shot that leaves somebody behind ends with its answer")
def test_a_one_shot_that_leaves_somebody_behind_ends():
    with Daemon() as d:
        for _ in range(3):
            d.run("true")
        d.run("sh", "-c", "(setsid sleep 2718281 &) >/dev/null 2>&1 </dev/null")
        wait_for(lambda: not [p for p in below(d.process.pid) if b"2718281" in command_line(p)], "what it left is killed")


@test("where room is scarce nothing waits to be deleted")
def test_where_room_is_scarce_nothing_waits_to_be_deleted():
    with Daemon("--max-sandboxes", "2") as d:
        for _ in range(10):
            d.run("true")
            wait_for(lambda: count(d) == 0, "its room is free")


main()
