#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon as root on cgroup version 2: which walls it reports, and that each one holds."""
from host import *

d = shared_daemon()


@test("effective names cgroup v2 for memory, cpu, processes and io")
def test_effective_names_cgroup_v2_for_memory_cpu():
    report = effective(d, limits={"memory_mb": 128, "cpu_cores": 0.5, "max_processes": 50,
                                  "io_mb_per_s": 20})
    equal(by(report, "memory", "cpu", "processes", "io"), ["cgroup v2"] * 4)
    equal(report["memory"]["limit_mb"], 128)


@test("Landlock is used as far as this kernel has it")
def test_landlock_is_used_as_far_as_this_kernel():
    report = effective(d)
    release = tuple(int(n) for n in os.uname().release.split("-")[0].split(".")[:2])
    if release == (6, 1):
        equal(report["landlock"], {"by": "landlock", "abi": 2})
    equal(by(report, "syscalls", "filesystem", "network"), ["seccomp", "namespace", "namespace"])
    equal(report["uid_separation"], True)


@test("the limits are in the group's files")
def test_the_limits_are_in_the_group_files():
    with d.sandbox(limits={"memory_mb": 96, "cpu_cores": 0.25, "max_processes": 33}) as sb:
        group = group_of(sb)
        equal(read(group, "memory.max"), str(96 << 20))
        equal(read(group, "memory.swap.max"), "0")
        equal(read(group, "cpu.max"), "25000 100000")
        equal(read(group, "pids.max"), "33")


@test("over the memory limit a command ends as oom_killed, and the sandbox goes on")
def test_over_the_memory_limit_a_command_ends_as_oom():
    with d.sandbox(limits={"memory_mb": 64}) as sb:
        put_attack(sb)
        equal(sb.exec(INSIDE, "take-memory", "16")["exit_code"], 0, "control: what fits")
        r = sb.exec(INSIDE, "take-memory", "200")
        equal((r["status"], r["exit_code"]), ("oom_killed", 137))
        equal(sb.sh("echo still here")["stdout"], "still here\n")
        check(number(group_of(sb), "memory.events", "oom_kill") >= 1, "the kernel's count")


@test("swap does not stretch the memory limit")
def test_swap_does_not_stretch_the_memory_limit():
    with open("/proc/swaps") as f:
        check(len(f.readlines()) > 1, "control: the host has swap")
    with d.sandbox(limits={"memory_mb": 64}) as sb:
        put_attack(sb)
        group = group_of(sb)
        equal(sb.exec(INSIDE, "take-memory", "80")["status"], "oom_killed")
        equal(read(group, "memory.swap.current"), "0")
        write(group, "memory.swap.max", "max")
        equal(sb.exec(INSIDE, "take-memory", "80")["exit_code"], 0, "control: with swap it fits")


@test("a fork bomb stays below the limit, and the sandbox goes on")
def test_a_fork_bomb_stays_below_the_limit():
    with d.sandbox(limits={"max_processes": 24}) as sb:
        put_attack(sb)
        group = group_of(sb)
        refused = lambda: number(group, "pids.events", "max") > 0
        wait_for(lambda: refused() or (sb.exec(INSIDE, "fork-bomb", "1", timeout_ms=20000) and refused()), "the kernel refuses a fork")
        check(int(read(group, "pids.peak") if os.path.exists(group + "/pids.peak")
                  else read(group, "pids.current")) <= 24, "the most processes there were")
        wait_for(lambda: sb.sh("echo here")["stdout"] == "here\n", "a command runs again")


@test("the processor's share holds by the kernel's own count")
def test_the_processor_share_holds_by_the_kernel_own():
    with d.sandbox(limits={"cpu_cores": 0.2}) as sb:
        put_attack(sb)
        group = group_of(sb)
        before = {k: number(group, "cpu.stat", k) for k in ("usage_usec", "nr_periods")}
        equal(sb.exec(INSIDE, "spin", "2", timeout_ms=60000)["exit_code"], 0)
        used = number(group, "cpu.stat", "usage_usec") - before["usage_usec"]
        periods = number(group, "cpu.stat", "nr_periods") - before["nr_periods"]
        check(number(group, "cpu.stat", "nr_throttled") > 0, "it was never held back")
        check(used <= (periods + 2) * 20000 * 1.5, f"{used} us in {periods} periods of 20000 us")


@test("io_mb_per_s holds for what reaches the disk, also through an image")
def test_io_mb_per_s_holds_for_what_reaches_the_disk_also():
    with d.sandbox(limits={"memory_mb": 32, "disk_mb": 64, "io_mb_per_s": 1}) as sb:
        equal(by(sb.created["effective"], "disk", "io"), ["loop image", "cgroup v2"])
        group = group_of(sb)
        equal(read(group, "io.max").count("wbps=1048576"), 2, "the host's disk and its own")
        start = time.monotonic()
        r = sb.sh("dd if=/dev/zero of=/workspace/f bs=65536 count=64 conv=fsync 2>&1")
        equal(r["exit_code"], 0, r)
        seconds = time.monotonic() - start
        check(seconds > 2, f"4 MiB were on the disk after {seconds:.2f} s; {read(group, 'io.stat')}")


@test("io_mb_per_s is refused by name where no block device is")
def test_io_mb_per_s_is_refused_by_name_where_no_block():
    script = ("mount -t tmpfs t /srv && mkdir /srv/up /srv/work && mount -t overlay o -o "
              "lowerdir=/usr,upperdir=/srv/up,workdir=/srv/work /usr && exec \"$@\"")
    command = ["unshare", "--mount", "/bin/sh", "-c", script, "sh", SANDBOXD]
    with Daemon("--state-dir", "/run/mas-state", command=command) as other:
        refused_create(other, "io", limits={"io_mb_per_s": 1})
        equal(effective(other, limits={"io_mb_per_s": 1}, accept_weaker=["io"])["io"], None)
        equal(by(effective(other, limits={"memory_mb": 64, "disk_mb": 16}), "memory"), ["cgroup v2"])


@test("io_mb_per_s is refused by name for a host directory that is on no disk")
def test_io_mb_per_s_is_refused_by_name_for_a_host():
    for path in ("/srv/up", "/srv/work", "/srv/over"):
        os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "overlay", "o", "-o",
                    "lowerdir=/etc,upperdir=/srv/up,workdir=/srv/work", "/srv/over"], check=True)
    mounts = [{"source": "/srv/over", "target": "/mnt/over"}]
    with Daemon(config="mounts:\n  allow: [/srv/over]\n") as other:
        refused_create(other, "io", limits={"io_mb_per_s": 1}, mounts=mounts)
        with other.sandbox(mounts=mounts) as sb:
            check("root:" in sb.sh("cat /mnt/over/passwd")["stdout"], "control: without the limit")
    subprocess.run(["umount", "/srv/over"], check=True)


@test("delete leaves no cgroup, mount, loop device or process")
def test_delete_leaves_no_cgroup_mount_loop_device():
    def left():
        with open("/proc/self/mountinfo") as f:
            mounts = len(f.readlines())
        loops = [n for n in os.listdir("/sys/block")
                 if n.startswith("loop") and os.path.exists(f"/sys/block/{n}/loop")]
        return mounts, loops
    before = left()
    sb = d.sandbox(limits={"memory_mb": 32, "disk_mb": 64})
    group = group_of(sb)
    check(os.path.isdir(group) and left() != before, "control: they are there")
    d.post(sb.path + "/exec", {"command": ["sh", "-c", "setsid sleep 999 & sleep 999"],
                               "async": True})
    wait_for(lambda: processes("sleep 999"), "control: the command runs")
    equal(sb.delete().status, 200)
    wait_for(lambda: not os.path.exists(group), "the group is gone")
    wait_for(lambda: left() == before, "mounts and loop devices are gone")
    equal(processes("sleep 999"), [])


@test("a stopped daemon leaves no cgroup")
def test_a_stopped_daemon_leaves_no_cgroup():
    before = groups()
    with Daemon() as other:
        other.sandbox()
        check(groups() != before, "control: it has groups")
    equal(groups(), before)


@test("a killed daemon leaves no process and no cgroup")
def test_a_killed_daemon_leaves_no_process_and_no_cgroup():
    before = groups()
    other = Daemon().start()
    sb = other.sandbox(limits={"memory_mb": 32, "disk_mb": 64})
    other.post(sb.path + "/exec", {"command": ["sleep", "998"], "async": True})
    wait_for(lambda: processes("sleep 998"), "the command runs")
    os.kill(other.get("/v1/status").json["warden_pid"], signal.SIGKILL)
    wait_for(lambda: not processes("sleep 998"), "its processes end")
    wait_for(lambda: not processes(other.dir), "the daemon's own end")
    other.process.wait()
    wait_for(lambda: groups() == before, "its cgroups go")
    other.__exit__()


@test("what is left even so goes with the next start")
def test_what_is_left_even_so_goes_with_the_next_start():
    before = groups()
    left = make_group(f"{PREFIX}-4194304-1/s1")
    make_group(f"{PREFIX}-4194304-1-self")
    alive = make_group(f"{PREFIX}-1-{start_time(1)}/s1")
    with Daemon():
        check(os.path.exists(alive), "a living one's is left alone")
        check(not os.path.exists(os.path.dirname(left)), "a dead one's is swept")
    for path in (alive, os.path.dirname(alive)):
        os.rmdir(path)
    equal(groups(), before)


@test("in a group of its own, as a service has it, the service's limits hold for sandboxes too")
def test_in_a_group_of_its_own_as_a_service():
    service = make_group("service")
    with daemon_in(service) as other:
        with other.sandbox(limits={"memory_mb": 64}) as sb:
            group = group_of(sb)
            check(group.startswith(service + "/"), group)
            equal(by(sb.created["effective"], "memory", "processes"), ["cgroup v2"] * 2)
    equal((read(service, "cgroup.procs"), read(service, "cgroup.subtree_control")), ("", ""),
          "as it was found")
    with daemon_in(service) as other:
        equal(by(effective(other, limits={"memory_mb": 64}), "memory"), ["cgroup v2"])
    equal([g for g in groups() if g.startswith(service)], [], "left in the service's group")
    os.rmdir(service)


@test("a call's AllowedPaths keep it from emptying other files, which Landlock cannot before 6.2")
def test_a_call_allowedpaths_keep_it_from_emptying_other():
    def call(code, **policy):
        a = d.post("/v1/sandbox/execute", {
            "tool_call_id": "1", "sandbox_id": sid, "policy": policy,
            "tool": {"name": "code", "args": {"language": "python", "code": code}}})
        equal(a.status, 200, a)
        return a.json

    sid = d.post("/v1/sandbox/create", {}).json["sandbox_id"]
    equal(call("import os; os.makedirs('/workspace/in'); os.makedirs('/workspace/out');"
               "[open(f'/workspace/{p}/f', 'w').write('kept') for p in ('in', 'out')]")["status"], "ok")
    for code in ("os.truncate('/workspace/%s/f', 0)",
                 "os.open('/workspace/%s/f', os.O_RDONLY | os.O_TRUNC)"):
        v = call("import os; " + code % "out", AllowedPaths=["/workspace/in"])
        equal(v["error"]["code"], "tool_failed", v)
        check("PermissionError" in json.dumps(v), v)
    equal(call("open('/workspace/in/f', 'w').write('new')", AllowedPaths=["/workspace/in"])["status"],
          "ok", "control: its own files")
    check("kept" in call("print(open('/workspace/out/f').read())")["result"]["stdout"], "the file")
    equal(call("import os; os.truncate('/workspace/out/f', 0)")["status"], "ok", "control: without")
    d.post("/v1/sandbox/destroy", {"sandbox_id": sid})


@test("commands, files and the built-in tools work on this kernel")
def test_commands_files_and_the_built_in_tools_work():
    with d.sandbox() as sb:
        r = sb.sh("echo out; echo err >&2; exit 3")
        equal((r["stdout"], r["stderr"], r["exit_code"]), ("out\n", "err\n", 3))
        d.put(sb.path + "/files/content?path=/workspace/a", b"hello")
        equal(sb.exec("cat", "a")["stdout"], "hello")
    for language, code, want in (("python", "print(6*7)", "42\n"), ("bash", "echo $((6*7))", "42\n")):
        a = d.post("/v1/run", {"language": language, "code": code})
        equal((a.status, a.json["stdout"]), (200, want), language)
    code = subprocess.run([SBX, "run", "--", "echo", "from sbx"], stdout=subprocess.PIPE).stdout
    equal(code, b"from sbx\n")


main()
