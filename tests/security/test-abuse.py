#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Using things up, from inside: what a sandbox may have, and what it must not take from others."""
import io
import re
import select
import statistics
import tarfile
import threading

from attempt import *

MARK = f"{100000000 + os.getpid()}"  # other suites run at the same time, over other runtimes
d = Daemon().start()
neighbour = d.sandbox()
put_attack(neighbour)


def limited(**limits):
    sb = d.sandbox(limits=limits)
    put_attack(sb)
    return sb


def start(sb, *argv):
    a = d.post(sb.path + "/exec", {"command": [str(x) for x in argv], "async": True})
    check(a.status in (200, 201, 202), a)
    return a.json["exec_id"]


def logs(sb, exec_id):
    text = d.get(f"{sb.path}/execs/{exec_id}/logs").body.decode()
    return "".join(json.loads(line).get("data", "") for line in text.splitlines())


def taken(sb, *args):
    """How many of a thing the attack got, and the error that stopped it."""
    out = inside(sb, *args)[1].split()
    return int(out[1]), out[2]


def gone(marker):
    """Nothing of a deleted sandbox is left; on gVisor one kernel is, the neighbour's."""
    if GVISOR:
        wait_for(lambda: len(kernels(d)) == 2, "its kernel's end")
    else:
        wait_for(lambda: not processes(marker), "nothing is left after the delete")


def ended_by_memory(sb, r):
    """At its memory limit: on gVisor the host sees one process, the kernel, which ends with all that it runs."""
    if on_gvisor("its memory is one process's of the host, the kernel", True, False):
        equal((r["status"], "out of memory" in r["error"]), ("failed", True), r)
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", "the sandbox's end")
    else:
        equal((r["status"], r["exit_code"]), ("oom_killed", 137))
        equal(sb.exec("/bin/echo", "alive")["stdout"], "alive\n", "the runner lives")


# Memory that is no process's own: written, never mapped.
FILL = """import os
fd = os.memfd_create("x")
while True:
    os.write(fd, bytes(1 << 20))"""


if not GVISOR and not LANDLOCK:
    def memory_of(pid):
        return sum(int(status_of(pid)[k].split()[0]) for k in ("VmRSS", "VmPTE"))


    @test("P9 at its memory limit a command is ended and not the runner, also where the memory is in no process")
    def test_p9_at_its_memory_limit_a_command_is_ended():
        with limited(memory_mb=64) as sb:
            bystander = start(sb, "sleep", MARK)
            wait_for(lambda: processes(f"sleep {MARK}"), "it runs")
            tool = processes(f"sleep {MARK}")[0]
            runner = parent_of(tool)
            wait_for(lambda: SANITIZED or memory_of(runner) < memory_of(tool),  # it grows while it is being loaded
                     lambda: f"a runner of {memory_of(runner)} KiB is larger than its smallest tool of {memory_of(tool)}")
            print(f"# the runner has {memory_of(runner)} KiB, the smallest program {memory_of(tool)}")
            for _ in range(3):
                ended_by_memory(sb, sb.exec("/usr/bin/python3", "-c", FILL))
            check(d.get(f"{sb.path}/execs/{bystander}").json["status"] in ("running", "oom_killed"), "what became of the other")


class Meanwhile:
    """Uses the daemon and the neighbour while something goes on, and keeps the times."""

    def __enter__(self):
        self.times, self.errors, self.stop = [], [], False
        self.thread = threading.Thread(target=self.work)
        self.thread.start()
        return self

    def work(self):
        while not self.stop:
            begin = time.time()
            try:
                equal(neighbour.exec("/bin/echo", "here")["stdout"], "here\n")
                equal(d.get("/healthz").status, 200)
            except Exception as e:
                self.errors.append(e)
            self.times.append(time.time() - begin)
            time.sleep(0.02)

    def __exit__(self, *exc):
        self.stop = True
        self.thread.join()

    def report(self, what):
        equal(self.errors, [], f"others during {what}")
        check(self.times, "nothing was measured")
        print(f"# {what}: others' exec and health check took {statistics.median(self.times)*1e3:.1f} ms"
              f" (median), {max(self.times)*1e3:.1f} ms (worst of {len(self.times)})")


# --- P14: a sandbox's own limits

@test("P14 processes: no more than the limit")
def test_p14_processes_no_more_than_the_limit():
    with limited(max_processes=30) as sb:
        n, error = taken(sb, "take-processes", 1000)
        check(10 <= n <= 30 and error == "EAGAIN", (n, error))
    n, error = int(works("take-processes", 40, prefix=["unshare", "--pid", "--fork",
                                                        "--kill-child"]).split()[1]), None
    equal(n, 40, "control: without the limit")


@test("P14 a fork bomb: others go on, and its end is the end of all of it")
def test_p14_a_fork_bomb_others_go_on_and_its_end():
    sb = limited(max_processes=60, cpu_cores=1)
    with Meanwhile() as m:
        start(sb, attack(sb), "fork-bomb", MARK)
        time.sleep(1.5)
        check(len(processes(f"attack fork-bomb {MARK}")) <= 60, "more processes than the limit")
        equal(sb.delete().status, 200)
    m.report("a fork bomb")
    gone(f"attack fork-bomb {MARK}")


@test("P14 a memory bomb: killed, and named as such")
def test_p14_a_memory_bomb_killed_and_named_as_such():
    with limited(memory_mb=64) as sb:
        with Meanwhile() as m:
            r = sb.exec(attack(sb), "take-memory", "400")
        m.report("a memory bomb")
        ended_by_memory(sb, r)
    r = neighbour.exec(attack(neighbour), "take-memory", "200")
    equal(r["exit_code"], 0, "control: within the limit")


@test("P14 memory of no process counts: System V segments")
def test_p14_memory_of_no_process_counts_system_v():
    with limited(memory_mb=64) as sb:
        r = sb.exec(attack(sb), "take-shared", "400")
        if GVISOR:
            ended_by_memory(sb, r)
        else:  # the segments stay, and the runner with them at its limit
            check(r["status"] == "oom_killed" or r["exit_code"] == 1, r)


@test("P14 memory of no process counts: files of memory")
def test_p14_memory_of_no_process_counts_files_of_memory():
    with limited(memory_mb=64) as sb:
        r = sb.exec("python3", "-c", "import os\nf=os.memfd_create('x')\n"
                    "for i in range(400): os.write(f, b'x' * (1 << 20))\nprint('all')")
        check("all" not in r["stdout"], r)
        ended_by_memory(sb, r)


@test("P14 memory of no process counts: sockets that nobody reads")
def test_p14_memory_of_no_process_counts_sockets():
    control = int(works("take-sockets", 30).split()[1])
    with limited(memory_mb=64) as sb:
        r = sb.exec(attack(sb), "take-sockets", "30")
        got = int(r["stdout"].split()[1]) if r["status"] == "completed" and not LANDLOCK else 0
        if LANDLOCK:
            equal(r["stdout"].split()[-1], "EBADF", "a socket")
    print(f"# {got} MiB inside, {control} MiB outside")
    check(control > 70, "control: outside it is more than the limit")
    check(got < 64, f"{got} MiB")


def has_no_disk():
    """On landlock a disk limit is refused by its name, and that is all that can be tried."""
    if on_landlock("its files are on the host's disk", True, False):
        a = d.post("/v1/sandboxes", {"limits": {"disk_mb": 16}})
        check(a.status == 422 and "disk" in a.json["error"]["message"], a)
    return LANDLOCK


@test("P14 disk: full at its limit")
def test_p14_disk_full_at_its_limit():
    if has_no_disk():
        with d.sandbox(limits={"disk_mb": 16}, accept_weaker=["disk"]) as sb:
            equal(sb.created["effective"]["disk"], None)
            r = sb.sh("head -c 100M /dev/zero > big; wc -c < big")
            check(int(r["stdout"]) <= 16 << 20, "one file is larger than the budget")
        return
    with limited(disk_mb=16) as sb:
        r = sb.sh("head -c 100M /dev/zero > /workspace/big; wc -c < /workspace/big")
        check("No space left" in r["stderr"] and int(r["stdout"]) <= 16 << 20, r)
        r = sb.sh("rm /workspace/big; head -c 8M /dev/zero > /workspace/some && echo fits")
        equal(r["stdout"], "fits\n", "control: below the limit")


@test("P14 disk: /workspace, /tmp, /dev/shm, /home and /var/tmp share one budget")
def test_p14_disk_workspace_tmp_dev_shm_home_and_var_tmp():
    if has_no_disk():
        return
    with limited(disk_mb=16) as sb:
        r = sb.sh("for p in /workspace /tmp /dev/shm /home/sandbox /var/tmp /cache; do"
                  " head -c 6M /dev/zero > $p/x; done; cat /workspace/x /tmp/x /dev/shm/x"
                  " /home/sandbox/x /var/tmp/x /cache/x | wc -c")
        check("No space left" in r["stderr"] and int(r["stdout"]) <= 16 << 20, r)


@test("P14 disk: no hiding in /dev, /run or /.mas")
def test_p14_disk_no_hiding_in_dev_run_or_mas():
    with (d.sandbox() if LANDLOCK else limited(disk_mb=16)) as sb:
        r = sb.sh("for p in / /dev /run /.mas /.mas/run /.mas/disk /mnt /var /etc /root /opt; do"
                  " head -c 1M /dev/zero > $p/x && echo $p; done 2>/dev/null")
        equal(r["stdout"], "")


@test("P14 inodes: files run out before the host notices")
def test_p14_inodes_files_run_out_before_the_host_notices():
    with d.sandbox() as sb:
        put_attack(sb)
        n, error = taken(sb, "take-files", 100000)
        if on_landlock("its files are on the host's disk, and so are their inodes", True, False):
            equal((n, error), (100000, "all"), "effective.shares says so")
        else:
            check(60000 <= n <= 65536 and error == "ENOSPC", (n, error))


@test("P14 open files: no more than the limit")
def test_p14_open_files_no_more_than_the_limit():
    n, error = taken(neighbour, "take-fds", 100000)
    check(4000 <= n <= 4096 and error == "EMFILE", (n, error))


@test("P14 cpu: no more than the share")
def test_p14_cpu_no_more_than_the_share():
    def share(sb):
        before = d.get(sb.path + "/stats").json["cpu_ms"]
        r = sb.exec(attack(sb), "spin", "2")
        return (d.get(sb.path + "/stats").json["cpu_ms"] - before) / r["duration_ms"]
    with limited(cpu_cores=0.1) as sb:
        got = share(sb)
    control = share(neighbour)
    for _ in range(10):  # a busy host may have had little to give
        control = control if control > 0.2 else share(neighbour)
    print(f"# 0.1 cores asked, {got:.2f} had; without a limit {control:.2f}")
    check(got < 0.2, f"{got} of a core")
    busy = os.getloadavg()[0] > 4 * os.cpu_count()
    check(control > 0.2 or busy, f"control: {control} of a core without the limit")


@test("P14 cpu: a hog in one sandbox, and the others answer")
def test_p14_cpu_a_hog_in_one_sandbox_and_the_others():
    with limited() as sb, Meanwhile() as m:
        for _ in range(8):
            start(sb, attack(sb), "spin", 2)
        time.sleep(1.5)
    m.report("8 spinning processes on %d cores" % os.cpu_count())


@test("P14 time: a command that ignores SIGTERM ends at its time")
def test_p14_time_a_command_that_ignores_sigterm_ends():
    r = neighbour.sh("trap '' TERM INT HUP; while :; do sleep 1; done", timeout_ms=500)
    equal(r["status"], "timed_out")
    check(r["duration_ms"] < 60000, r)


@test("P14 output: a flood is cut, and the daemon does not grow")
def test_p14_output_a_flood_is_cut_and_the_daemon():
    def resident():
        pid = d.get("/v1/status").json["pid"]
        return resident_kib(pid) << 10
    before = resident()
    with limited() as sb:
        r = sb.exec("/bin/sh", "-c", "yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", timeout_ms=2000,
                    max_output_bytes=65536)
    check(len(r["stdout"]) <= 70000 and r["status"] == "timed_out", (len(r["stdout"]), r["status"]))
    grown = resident() - before
    print(f"# the control plane grew by {grown >> 20} MiB")
    check(grown < 300 << 20, f"{grown} bytes")


@test("P14 processes that leave their session and parent end with the sandbox")
def test_p14_processes_that_leave_their_session():
    sb = limited()
    sb.sh("(setsid sh -c 'trap \"\" HUP TERM; sleep %s' &) >/dev/null 2>&1 </dev/null &" % MARK)
    wait_for(lambda: running(sb, f"sleep {MARK}"), "control: it runs")
    sb.delete()
    gone(f"sleep {MARK}")


# --- P15: pools of the whole host

@test("P15 inotify instances")
def test_p15_inotify_instances():
    with limited() as sb:
        exec_id = start(sb, attack(sb), "take-inotify", 100000, 30)
        error, there = on_landlock("there is no inotify: it would tell of any directory", ("ENOSYS", (0, "ENOSYS")), ("EMFILE", (10, "all")))
        wait_for(lambda: error in logs(sb, exec_id), "the attack has taken what it can")
        equal(taken(neighbour, "take-inotify", 10), there, "the neighbour's")
        works("take-inotify", 10)
        works("take-inotify", 10, user=65534)


@test("P15 inotify watches")
def test_p15_inotify_watches():
    with limited() as sb:
        n, error = taken(sb, "take-watches", 60000)
        if on_gvisor("its watches are memory of its own kernel, and none of the host's", True, False):
            fds = [target for p in kernels(d) for target in descriptors_of(p).values()]
            check(fds and not any("inotify" in f for f in fds), "the host's inotify")
        elif DOCKER:  # no user namespace to lower it in: the host's limit of a user, who is this sandbox alone
            check(n <= int(open("/proc/sys/fs/inotify/max_user_watches").read()), n)
        else:
            check(n <= 8192 and error == on_landlock("there is no inotify", "EBADF", "ENOSPC"), (n, error))
        equal(taken(neighbour, "take-watches", 100)[0], on_landlock("there is no inotify", 0, 100), "the neighbour's")


@test("P15 contexts of asynchronous I/O")
def test_p15_contexts_of_asynchronous_i_o():
    works("take-aio", 4)
    with limited() as sb:
        many = on_gvisor("a context is a mapping of its own kernel's, which are slow to make, and none of the host's",
                         1000, 100000)
        exec_id = start(sb, attack(sb), "take-aio", many, 30)
        wait_for(lambda: "contexts" in logs(sb, exec_id), "the attack has taken what it can")
        works("take-aio", 4)


@test("P15 compiled programs: filters on sockets, and of the tool's own")
def test_p15_compiled_programs_filters_on_sockets():
    works("take-programs", 4)
    works("take-filters", 4)
    if GVISOR:  # programs of its own kernel's, which interprets them
        return
    with limited() as sb:
        equal(taken(sb, "take-programs", 4), (0, "EPERM"))
        equal(taken(sb, "take-filters", 4), (0, "EINVAL"))


@test("P15 without the host's memory for compiled programs a create says so, and works when there is some")
def test_p15_without_the_host_memory_for_compiled():
    if RUNTIME not in ("local", "landlock", "crun", "runc"):
        print("# its own kernel, or an engine's, installs the filter")
        return
    other = Daemon(config="blanks: 2\n")
    used_up = os.path.join(other.dir, "used-up")
    other.command = [os.path.join(BUILD, "tests/security/no-jit-memory"), used_up, SANDBOXD]
    with other:
        with other.sandbox() as sb:
            equal(sb.exec("/bin/echo", "before")["stdout"], "before\n", "control")
        open(used_up, "w").close()
        answers = [other.post("/v1/sandboxes", {}) for _ in range(6)]
        answers += [other.post("/v1/sandboxes", {"limits": {"memory_mb": 100}})]
        while answers[0].status == 201:  # armed since before
            answers.pop(0)
        for a in answers:
            equal((a.status, a.json["error"]["code"]), (503, "unavailable"), a)
            check("net.core.bpf_jit_limit" in a.json["error"]["message"], a)
        os.remove(used_up)
        with other.sandbox() as sb:
            equal(sb.exec("/bin/echo", "after")["stdout"], "after\n")


def terminals_of_host():
    with open("/proc/sys/kernel/pty/nr") as f:
        return int(f.read())


@test("P15 pseudo terminals")
def test_p15_pseudo_terminals():
    before = terminals_of_host()
    with limited() as sb:
        exec_id = start(sb, attack(sb), "take-ptys", 100000, 30)
        wait_for(lambda: "terminals" in logs(sb, exec_id), "the attack has taken what it can")
        n = int(logs(sb, exec_id).split()[1])
        if on_gvisor("its terminals are of its own kernel, as many as it may open files", True, False):
            check(100 < n < 4096 and terminals_of_host() < before + n // 2, (n, before, terminals_of_host()))
        else:
            check(n <= on_landlock("commands have no terminals but those of the API", 0, 64), f"{n} of the host's terminals")
        check("/dev/pts/" in terminal(neighbour, "tty"), "the neighbour's")
        works("take-ptys", 10)


@test("P15 processes and memory of one sandbox leave the others theirs")
def test_p15_processes_and_memory_of_one_sandbox_leave():
    with limited(max_processes=200) as sb:
        exec_id = start(sb, attack(sb), "take-processes", MARK, 30)
        wait_for(lambda: "processes" in logs(sb, exec_id), "the attack has taken what it can")
        equal(taken(neighbour, "take-processes", 50), (50, "all"), "the neighbour's")
        neighbour.sh("kill -9 -1")
    gone(f"attack take-processes {MARK}")


@test("P15 commands of one sandbox")
def test_p15_commands_of_one_sandbox():
    with limited(max_processes=1000) as sb:
        answers = [d.post(sb.path + "/exec", {"command": ["sleep", MARK], "async": True})
                   for _ in range(300)]
        last = answers[-1]
        check(last.status in (429, 503) and "error" in last.json, last)
        equal(neighbour.exec("/bin/echo", "here")["stdout"], "here\n")
    wait_for(lambda: len(left(d, f"sleep {MARK}")) <= 2 * GVISOR, "all end with the sandbox")


# --- P21: never silently weaker

@test("P21 a limit that cannot be enforced fails the create by name")
def test_p21_a_limit_that_cannot_be_enforced_fails():
    enforces = d.get("/v1/status").json["runtimes"][0]["enforces"]
    if enforces["io"] is None:
        a = d.post("/v1/sandboxes", {"limits": {"io_mb_per_s": 1}})
        check(a.status == 422 and "io" in a.json["error"]["message"], a)
        with d.sandbox(limits={"io_mb_per_s": 1}, accept_weaker=["io"]) as sb:
            equal(sb.created["effective"]["io"], None)
    else:
        with d.sandbox(limits={"io_mb_per_s": 1}) as sb:
            check(sb.created["effective"]["io"], "io is reported")


@test("P21 what this version has not is refused by name, not ignored")
def test_p21_what_this_version_has_not_is_refused_by_name():
    for field, value in (("network", "host"), ("network", {"enabled": True}), ("image", "debian:12"),
                         ("snapshot", "x"), ("pool", "x")):
        a = d.post("/v1/sandboxes", {field: value})
        check(400 <= a.status < 500 and field in a.body.decode(), f"{field}: {a}")


@test("P21 the effective report is what the kernel says")
def test_p21_the_effective_report_is_what_the_kernel_says():
    if LANDLOCK:
        with limited(memory_mb=96, max_processes=50, cpu_cores=0.5) as sb:
            e = sb.created["effective"]
            equal((e["memory"]["limit_mb"], e["disk"], e["processes"]["limit"]), (96, None, 50))
        return
    with limited(memory_mb=96, disk_mb=24, max_processes=50, cpu_cores=0.5) as sb:
        e = sb.created["effective"]
        equal((e["memory"]["limit_mb"], e["disk"]["limit_mb"], e["processes"]["limit"]), (96, 24, 50))
        mib = int(sb.sh("stat -f -c '%S %b' /workspace").get("stdout").split()[1]) * 4096 >> 20
        equal(mib, 24, "the disk's size")
    with limited(memory_mb=64) as sb:
        told = sb.created["effective"]["disk"]
        block, blocks = map(int, sb.sh("stat -f -c '%S %b' /workspace")["stdout"].split())
        part = (block * blocks >> 20) / told["limit_mb"]  # a file system in an image needs some
        check(part == 1 if told["by"] == "tmpfs" else 0.85 < part <= 1, (told, part))


ODD_LIMITS = {  # of the shell that starts the daemon
    "high": ["--rtprio=50", "--nice=30", "--msgqueue=unlimited", "--memlock=unlimited", "--sigpending=unlimited",
             "--stack=unlimited", "--core=unlimited", "--locks=unlimited"],
    "low": ["--rtprio=0", "--nice=0", "--msgqueue=1000", "--memlock=4096", "--sigpending=300", "--stack=1048576",
            "--core=0", "--locks=7", "--rttime=5000000", "--fsize=4000000000", "--cpu=100000", "--data=9000000000"],
}
SHOW_LIMITS = ["prlimit", "--noheadings", "--raw", "-o", "RESOURCE,SOFT,HARD"]
FIXED_LIMITS = {
    "CPU": ("unlimited", "unlimited"), "DATA": ("unlimited", "unlimited"),
    "STACK": ("8388608", "unlimited"), "CORE": ("1", "1"),
    "RSS": ("unlimited", "unlimited"), "MEMLOCK": ("8388608", "8388608"),
    "AS": ("unlimited", "unlimited"), "SIGPENDING": ("16384", "16384"),
    "MSGQUEUE": ("819200", "819200"), "NICE": ("0", "0"),
    "RTPRIO": ("0", "0"), "RTTIME": ("unlimited", "unlimited"),
    "NOFILE": ("4096", "4096"), "FSIZE": ("unlimited", "unlimited"),
}


def limits_of(text):
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if row[0] in FIXED_LIMITS}


def allowed(option):
    return subprocess.run(["prlimit", option, "true"], stderr=subprocess.DEVNULL).returncode == 0


def least(a, b):
    return min(a, b, key=lambda n: float("inf") if n == "unlimited" else int(n))


def expected_limits(odd):
    """The table, and no more than the shell has where this root may not raise limits (CAP_SYS_RESOURCE)."""
    with open("/proc/self/status") as f:
        raises = int(re.search(r"CapEff:\s*(\w+)", f.read())[1], 16) >> 24 & 1
    shell = limits_of(subprocess.run(["prlimit", *odd, "--", *SHOW_LIMITS], stdout=subprocess.PIPE).stdout.decode())
    want = {}
    for name, (soft, hard) in FIXED_LIMITS.items():
        hard = hard if raises else least(hard, shell[name][1])
        want[name] = (least(soft, hard), hard)
    return want


def runtimes_here(other):
    usable = [r["name"] for r in other.get("/v1/status").json["runtimes"] if r.get("available")]
    return [r for r in ("local", "process", "landlock", "crun", "runc") if r in usable]


if RUNTIME == "local":
    for name, odd in ODD_LIMITS.items():
        @test(f"P9 limits of the shell that starts the daemon ({name}) reach no sandbox, of any runtime")
        def test_p9_limits_of_the_shell_that_starts_the_daemon(odd=odd):
            config = "enable_process: true\nblanks: 1\noci_blanks: 0\n"
            odd = list(filter(allowed, odd))
            if SANITIZED:  # a sanitizer takes terabytes of addresses at its start
                odd = [o for o in odd if not o.startswith("--data")]
            with Daemon(config=config, command=["prlimit", *odd, "--", SANDBOXD]) as other:
                print("#", " ".join(runtimes_here(other)), "with", " ".join(odd))
                for runtime in runtimes_here(other):
                    want = expected_limits(odd)
                    if runtime == "landlock":  # a file is no larger than the disk's budget; queues are the host's
                        want["MSGQUEUE"] = ("0", "0")
                    r = other.run(*SHOW_LIMITS, runtime=runtime)
                    got = limits_of(r["stdout"])
                    if runtime == "landlock":
                        got.pop("FSIZE"), want.pop("FSIZE")
                    equal(got, want, runtime)


class SmallState(Daemon):
    """A daemon whose state directory is a small file system, in a mount namespace of its own."""

    def __init__(self, mib, fstype="ext4", **kw):
        super().__init__(**kw)
        state = os.path.join(self.dir, "state")
        os.mkdir(state, 0o700)
        source, options = os.path.join(self.dir, "small"), "loop"
        if fstype == "tmpfs":
            source, options = "small", f"size={mib}m,mode=700"
        else:
            with open(source, "wb") as f:
                f.truncate(mib << 20)
            subprocess.run(["mkfs." + fstype, "-q", "-F", source], check=True)
        mount = f"mount -t {fstype} -o {options} {source} {state} && exec \"$@\""
        self.command = ["unshare", "-m", "sh", "-c", mount, "sh", SANDBOXD]


def create_until_refused(other, limits, most):
    made = []
    while len(made) < most:
        a = other.post("/v1/sandboxes", {"limits": limits})
        if a.status != 201:
            return made, a
        made.append(Sandbox(other, a.json))
    return made, None


if RUNTIME == "local":
    for fstype in ("ext4", "tmpfs"):
        @test(f"P14 disks on a full state directory ({fstype}): refused by name, and what was promised is there")
        def test_p14_disks_on_a_full_state_directory_refused(fstype=fstype):
            with SmallState(400, fstype, config="state_reserve_mb: 100\nblanks: 1\n") as other:
                made, refusal = create_until_refused(other, {"memory_mb": 64, "disk_mb": 100}, 8)
                check(refusal, "more was promised than there is")
                equal(refusal.status, 507, refusal)
                check("state_reserve_mb" in refusal.json["error"]["message"], refusal)
                check(len(made) >= 2, refusal)
                equal({s.created["effective"]["disk"]["by"] for s in made}, {"loop image"})
                for s in made:  # each within its own limit
                    s.sh("head -c 8M /dev/urandom > first; sha256sum first > sum; dd if=/dev/zero of=rest bs=1M; sync")
                for s in made:
                    r = s.sh("dd if=first iflag=direct bs=1M 2>/dev/null | cmp - first && sha256sum -c sum")
                    equal(r["exit_code"], 0, f"what was written is there: {r}")
                equal(other.run("echo", "here")["stdout"], "here\n", "others run")
                made[0].delete()
                wait_for(lambda: other.post("/v1/sandboxes", {"limits": {"memory_mb": 64, "disk_mb": 100}}).status == 201,
                         "what is given back can be promised again")


def tar_of(mib):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w") as tar:
        info = tarfile.TarInfo("big")
        info.size = mib << 20
        tar.addfile(info, io.BytesIO(os.urandom(info.size)))
    return body.getbuffer()


def put_until_answered(other, path, body):
    """An upload that is refused half-way: what is not wanted any more is not sent."""
    with other.connect() as s:
        s.sendall(f"PUT {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        s.setblocking(False)
        at = 0
        while not select.select([s], [s] if at < len(body) else [], [], PATIENCE_S)[0]:
            at += s.send(body[at:at + 65536])
        return s.recv(65536)


if RUNTIME == "local":
    @test("P14 an image that would take the state directory's reserve: refused by name, and others run")
    def test_p14_an_image_that_would_take_the_state_directory():
        with SmallState(200, config="state_reserve_mb: 130\nblanks: 1\n") as other:
            answer = put_until_answered(other, "/v1/images/tar?name=big", tar_of(80))
            check(b" 507 " in answer[:32] and b"state_reserve_mb" in answer, answer)
            equal(other.run("echo", "here")["stdout"], "here\n", "others run")


if RUNTIME == "local":
    for fstype in ("ext2", "ext4", "tmpfs"):  # the first cannot allocate ahead, and of the last it would be memory
        @test(f"P14 uploads, output and other disks leave to a sandbox what its disk was promised ({fstype})")
        def test_p14_uploads_output_and_other_disks_leave(fstype=fstype):
            with SmallState(500, fstype, config="state_reserve_mb: 50\nblanks: 1\n") as other, \
                    other.sandbox(limits={"memory_mb": 64, "disk_mb": 200}) as sb:
                equal(sb.sh("head -c 8M /dev/urandom > first && sha256sum first > sums && sync")["exit_code"], 0)
                answers = []
                for i in range(5):  # as much as fits, and more
                    answers.append(put_until_answered(other, f"/v1/images/tar?name=big{i}", tar_of(60)))
                    if b" 507 " in answers[-1][:32]:
                        break
                check(b" 507 " in answers[-1][:32] and b"state_reserve_mb" in answers[-1], [a[:200] for a in answers])
                made, refusal = create_until_refused(other, {"memory_mb": 64, "disk_mb": 100}, 4)
                check(refusal and refusal.status == 507, f"disks beyond what is left: {len(made)} made, {refusal}")
                printed = other.post("/v1/run", {"command": ["sh", "-c", "head -c 300M /dev/zero | tr '\\0' x; head -c 300M /dev/zero | tr '\\0' x >&2"]})
                check(printed.status in (200, 507), printed.status)
                r = sb.sh("dd if=/dev/urandom of=rest bs=1M count=150 && sha256sum rest >> sums && sync")
                equal(r["exit_code"], 0, f"what was promised can be written: {r}")
                r = sb.sh("for f in first rest; do dd if=$f iflag=direct bs=1M 2>/dev/null | cmp - $f || exit 1; done; sha256sum -c sums")
                equal(r["exit_code"], 0, f"and is there: {r}")
                equal(other.run("echo", "here")["stdout"], "here\n", "others run")


def claimed(other):
    return other.get("/v1/status").json["storage"]["claimed_bytes"]


def begin_upload(other, name, mib, chunked=False):
    """An upload of so many MiB that has been announced, and of which one came."""
    s = other.connect()
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {mib << 20}"
    s.sendall(f"PUT /v1/images/tar?name={name} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode())
    s.sendall((b"100000\r\n" if chunked else b"") + bytes(1 << 20) + (b"\r\n" if chunked else b""))
    return s


if RUNTIME == "local":
    @test("P14 an upload that cannot fit is refused by its length, before any of it is taken")
    def test_p14_an_upload_that_cannot_fit_is_refused_by_its_length():
        with SmallState(200, config="state_reserve_mb: 100\nblanks: 1\n") as other, other.connect() as s:
            s.sendall(b"PUT /v1/images/tar?name=big HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99000000\r\n\r\n")
            answer = s.recv(65536)
            check(b" 507 " in answer[:32] and b"state_reserve_mb" in answer, answer)
            equal(claimed(other), 0, "what was refused is not claimed")


    @test("P14 what an upload has announced is promised to no disk, and to no other upload; until it ends, by kill -9 too")
    def test_p14_what_an_upload_has_announced_is_promised_to_no_disk():
        disk = {"limits": {"memory_mb": 64, "disk_mb": 150}}
        with SmallState(400, config="state_reserve_mb: 60\nblanks: 1\n") as other:
            with begin_upload(other, "first", 200):
                wait_for(lambda: claimed(other) > 150 << 20, "the upload's claim is seen")
                refusal = other.post("/v1/sandboxes", disk)
                equal(refusal.status, 507, refusal)
                check("state_reserve_mb" in refusal.json["error"]["message"], refusal)
                with begin_upload(other, "second", 150) as s:
                    answer = s.recv(65536)
                    check(b" 507 " in answer[:32] and b"state_reserve_mb" in answer, answer)
                equal(other.run("echo", "here")["stdout"], "here\n", "others run")
            wait_for(lambda: claimed(other) < 20 << 20, "the caller left: nothing is claimed any more")
            with begin_upload(other, "third", 200, chunked=True):
                wait_for(lambda: 0 < claimed(other) < 20 << 20, "without a length a few MiB at a time are claimed")
                warden = other.get("/v1/status").json["warden_pid"]
                for p in below(warden):
                    if name_of(p) == "mas-images":
                        os.kill(p, signal.SIGKILL)
                wait_for(lambda: claimed(other) <= 1 << 20, "a dead keeper claims nothing")
            equal(other.post("/v1/sandboxes", disk).status, 201, "there is room")


    @test("P14 an upload that takes its time keeps no more than its next few MiB from others, and still arrives")
    def test_p14_an_upload_that_takes_its_time():
        with SmallState(400, config="state_reserve_mb: 60\nblanks: 1\nimages_pull_timeout: 2s\n") as other:
            with begin_upload(other, "slow", 200) as s:
                wait_for(lambda: claimed(other) > 150 << 20, "all of it is claimed")
                sent = 1 << 20

                def trickle():
                    nonlocal sent
                    s.sendall(bytes(1024))
                    sent += 1024
                    return 0 < claimed(other) <= 16 << 20
                wait_for(trickle, "the time of an image is over")
                equal(other.post("/v1/sandboxes", {"limits": {"memory_mb": 64, "disk_mb": 50}}).status, 201, "there is room for others")
                s.sendall(bytes((200 << 20) - sent))
                answer = s.recv(65536)
                check(b" 507 " not in answer[:32] and b" 408 " not in answer[:32], answer)


    for fstype in ("ext2", "ext4", "tmpfs"):
        @test(f"P14 an image that unpacks to more than there is ends before it takes the reserve ({fstype})")
        def test_p14_an_image_that_unpacks_to_more_than_there_is(fstype=fstype):
            body = io.BytesIO()
            with tarfile.open(fileobj=body, mode="w:gz", compresslevel=1) as tar:
                for i in range(30):  # 300 MiB of 2
                    info = tarfile.TarInfo(f"zeroes{i}")
                    info.size = 10 << 20
                    tar.addfile(info, io.BytesIO(bytes(info.size)))
            config = "state_reserve_mb: 100\nblanks: 1\nimages_max_ratio: 100000\n"
            with SmallState(400, fstype, config=config) as other, other.sandbox(limits={"memory_mb": 64, "disk_mb": 100}) as sb:
                equal(sb.sh("head -c 8M /dev/urandom > first && sha256sum first > sums && sync")["exit_code"], 0)
                least_free, done = [], threading.Event()

                def look():
                    while not done.is_set():
                        least_free.append(other.get("/v1/status").json["storage"]["free_bytes"])
                looker = threading.Thread(target=look)
                looker.start()
                answer = put_until_answered(other, "/v1/images/tar?name=big", body.getbuffer())
                done.set()
                looker.join()
                check(b" 507 " in answer[:32] and b"state_reserve_mb" in answer, answer)
                check(min(least_free) > 98 << 20, f"the reserve was taken: {min(least_free) >> 20} MiB were left")
                r = sb.sh("dd if=/dev/urandom of=rest bs=1M count=40 && sync && sha256sum -c sums")
                equal(r["exit_code"], 0, f"what was promised can be written: {r}")


SUID_DUMPABLE = "/proc/sys/fs/suid_dumpable"


def set_suid_dumpable(value):
    with open(SUID_DUMPABLE, "w") as f:
        f.write(value)


if RUNTIME == "local" and os.access(SUID_DUMPABLE, os.W_OK):
    @test("P5 where the host opens memory on a change of users (fs.suid_dumpable), the runner's stays closed")
    def test_p5_where_the_host_opens_memory_on_a_change():
        with open(SUID_DUMPABLE) as f:
            before = f.read().strip()
        set_suid_dumpable("1")
        try:
            with Daemon(config="blanks: 1\n") as other, other.sandbox() as sb:
                equal(sb.sh("exit 3")["exit_code"], 3, "commands run")
                equal(terminal(sb, "echo", "here").strip(), "here", "so do those with a terminal")
                a = other.post(sb.path + "/exec", {"command": ["no-such-program"]})
                check(a.json["exit_code"] == 127 and "(exec)" in a.json["error"], a)
                warden = other.get("/v1/status").json["warden_pid"]
                runners = [p for p in below(warden) if "mas-toolrunner --pid1" in command_of(p)]
                check(runners, "control: there are runners")
                # What may be looked into belongs to its own user, and else to root.
                equal({os.stat(f"/proc/{p}/fd").st_uid for p in runners}, {0}, "who may look into runners")
        finally:
            set_suid_dumpable(before)


try:
    main()
finally:
    d.__exit__()
