#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon as an ordinary user on cgroup version 2, with and without a delegated group."""
from host import *

LIMITS = {"memory_mb": 64, "cpu_cores": 0.5, "max_processes": 40}


@test("without delegation limits are refused by name, and processes are limited otherwise")
def test_without_delegation_limits_are_refused_by_name():
    with daemon_in(make_group("plain"), user=USER) as d:
        refused_create(d, "memory", limits={"memory_mb": 64})
        refused_create(d, "cpu", limits={"cpu_cores": 0.5})
        refused_create(d, "io", limits={"io_mb_per_s": 1})
        report = effective(d, limits=LIMITS, accept_weaker=["memory", "cpu"])
        equal(by(report, "memory", "cpu", "processes"), [None, None, "rlimit"])
        equal(d.run("echo", "hello")["stdout"], "hello\n")


@test("without delegation the process limit holds")
def test_without_delegation_the_process_limit_holds():
    with daemon_in(make_group("plain"), user=USER) as d, d.sandbox(limits={"max_processes": 20}) as sb:
        put_attack(sb)
        r = sb.exec(INSIDE, "take-processes", "100")
        check(0 < int(r["stdout"].split()[0 if r["stdout"][0].isdigit() else 1]) <= 20, r)


@test("with a delegated group memory, cpu and processes are enforced, and effective says so")
def test_with_a_delegated_group_memory_cpu_and_processes():
    group = make_group("delegated", owner=USER)
    with daemon_in(group, user=USER) as d:
        with d.sandbox(limits=LIMITS) as sb:
            equal(by(sb.created["effective"], "memory", "cpu", "processes"), ["cgroup v2"] * 3)
            inner = group_of(sb)
            check(inner.startswith(group + "/"), inner)
            equal(read(inner, "memory.max"), str(64 << 20))
            equal(read(inner, "cpu.max"), "50000 100000")
            equal(read(inner, "pids.max"), "40")
            put_attack(sb)
            equal(sb.exec(INSIDE, "take-memory", "200")["status"], "oom_killed")
            sb.exec(INSIDE, "take-processes", "100")
            check(number(inner, "pids.events", "max") > 0, "the kernel refused a fork")
            sb.exec(INSIDE, "spin", "1")
            check(number(inner, "cpu.stat", "nr_throttled") > 0, "it was never held back")
    equal([g for g in groups() if g.startswith(group)], [], "left in the delegated group")


@test("a delegated group can be used again, also after a daemon was killed in it")
def test_a_delegated_group_can_be_used_again_also():
    group = make_group("delegated", owner=USER)
    d = daemon_in(group, user=USER).start()
    d.sandbox(limits=LIMITS)
    os.kill(d.get("/v1/status").json["warden_pid"], signal.SIGKILL)
    d.process.wait()
    wait_for(lambda: not [g for g in groups() if g.startswith(group)], "its cgroups go")
    equal(read(group, "cgroup.subtree_control"), "", "as it was found")
    with daemon_in(group, user=USER) as other:
        equal(by(effective(other, limits=LIMITS), "memory", "cpu"), ["cgroup v2"] * 2)
    d.__exit__()


@test("a controller that was not delegated is refused by name, the others are used")
def test_a_controller_that_was_not_delegated_is_refused():
    group = make_group("part/user", controllers="memory pids", owner=USER)
    with daemon_in(group, user=USER) as d:
        refused_create(d, "cpu", limits={"cpu_cores": 0.5})
        report = effective(d, limits=LIMITS, accept_weaker=["cpu"])
        equal(by(report, "memory", "cpu", "processes"), ["cgroup v2", None, "cgroup v2"])


@test("a group with somebody else's process in it is left alone")
def test_a_group_with_somebody_else_process_in_it_is_left():
    group = make_group("shared", owner=USER)
    other = subprocess.Popen(["sleep", "600"])
    try:
        write(group, "cgroup.procs", str(other.pid))
        with daemon_in(group, user=USER) as d:
            refused_create(d, "memory", limits={"memory_mb": 64})
            equal(proc_text(other.pid, "cgroup").strip(), "0::/shared")
    finally:
        other.kill()
        other.wait()


@test("subordinate ids separate runner and tool; without them effective says so")
def test_subordinate_ids_separate_runner_and_tool_without():
    with daemon_in(make_group("plain"), user=USER) as d:
        equal(effective(d)["uid_separation"], True)
    with daemon_in(make_group("plain"), user=STRANGER) as d:
        equal(effective(d)["uid_separation"], False)
        with d.sandbox() as sb:
            put_attack(sb)
            refused(sb, "ptrace", 1, errors="EPERM")
            refused(sb, "read", "/proc/1/environ", errors="EACCES EPERM")
            # Before Landlock's ABI 6 a signal to PID 1 is not refused, but it changes nothing.
            for number in range(1, 65):
                inside(sb, "kill", 1, number)
            equal(sb.sh("id -u")["stdout"], "1000\n", "the runner is well")


@test("attempts to get out fail as they do for root")
def test_attempts_to_get_out_fail_as_they_do_for_root():
    with daemon_in(make_group("plain"), user=USER) as d, d.sandbox() as sb:
        put_attack(sb)
        for attempt in (("mount", "none", "/tmp", "tmpfs"), ("unshare", 0x10000000),
                        ("clone", 0x10000000), ("ptrace", 1), ("kill", 1, 9), ("setuid", 0),
                        ("socket", 17, 3, 0x300), ("open-tree", "/usr", "/tmp"),
                        ("chroot", "/tmp"), ("write", "/proc/sys/kernel/core_pattern", "x"),
                        ("read", "/etc/shadow"), ("has-capability",), ("pty-ioctl", 0x5412)):
            refused(sb, *attempt)


main()
