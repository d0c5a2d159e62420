#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The daemon as an ordinary user, with and without a range of subordinate ids: the walls that are
there all the same, and the honest word about those that are not."""
from attempt import *
from images import *
from unprivileged import make_user

STRANGER = 64999  # a number without a name, and so without a range


def copy_build():
    """Where any user can read it; a build directory may be below /root."""
    path = tempfile.mkdtemp(prefix="mas-user-")
    os.chmod(path, 0o755)
    for name in ("mas-sandboxd", "mas-warden", "mas-toolrunner", "mas-tool-net"):
        shutil.copy(os.path.join(BUILD, name), path)
    return path


COPY = copy_build()


def daemon_of(uid):
    d = Daemon(command=["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups",
                        "--inh-caps=-all", os.path.join(COPY, "mas-sandboxd")],
               env={"HOME": "/nonexistent", "XDG_STATE_HOME": "", "MAS_SECRET": "do-not-show"})
    os.chown(d.dir, uid, uid)
    return d.start()


class Kind:
    def __init__(self, name, uid, separate):
        self.name, self.uid, self.separate = name, uid, separate
        self.d = daemon_of(uid)
        self.sb, self.other = self.d.sandbox(), self.d.sandbox()
        put_attack(self.sb)
        put_attack(self.other)


kinds = [Kind("with subordinate ids", make_user(), True), Kind("without", STRANGER, False)]


def attempt(name, *args, errors=None):
    for kind in kinds:
        test(f"{name} ({kind.name})")(lambda kind=kind: refused(kind.sb, *args, errors=errors))


def each(name):
    def add(fn):
        for kind in kinds:
            test(f"{name} ({kind.name})")(lambda kind=kind: fn(kind, kind.d, kind.sb))
        return fn
    return add


@each("P21 the report says what is missing")
def test_p21_the_report_says_what_is_missing(kind, d, sb):
    equal(set(status_of(d.process.pid)["Uid"].split()), {str(kind.uid)}, "control: the daemon is that user's")
    e = sb.created["effective"]
    equal(e["uid_separation"], kind.separate, "uid_separation")
    equal(e["memory"], None, "memory")
    equal(e["cpu"], None, "cpu")
    for wall in ("filesystem", "network", "syscalls"):
        check(e[wall]["by"], wall)


@each("sandboxes are made by the zygote, as root's are, and it lives")
def test_the_zygote_lives(kind, d, sb):
    for _ in range(12):
        with d.sandbox() as one:
            equal(one.sh("echo through")["stdout"], "through\n")
    check("zygote died" not in d.log_text(), d.log_text())
    zygotes = [p for p in below(d.process.pid) if b"--zygote" in command_line(p)]
    check(zygotes, "there is a zygote")


@each("P21 limits that need a cgroup are refused by name")
def test_p21_limits_that_need_a_cgroup_are_refused(kind, d, sb):
    for limits, word in (({"memory_mb": 64}, "memory"), ({"cpu_cores": 0.5}, "cpu"),
                         ({"io_mb_per_s": 1}, "io")):
        a = d.post("/v1/sandboxes", {"limits": limits})
        check(a.status == 422 and word in a.json["error"]["message"], a)
        with d.sandbox(limits=limits, accept_weaker=[word]) as weak:
            equal(weak.created["effective"][word], None, "accepted weaker, and said so")


@each("P6 no id of the host but the caller's is mapped")
def test_p6_no_id_of_the_host_but_the_caller_is_mapped(kind, d, sb):
    lines = [line.split() for line in sb.sh("cat /proc/self/uid_map")["stdout"].splitlines()]
    outer = [int(x[1]) for x in lines]
    if kind.separate:
        check(sb.sh("id -u")["stdout"] == "1000\n" and len(lines) >= 2, lines)
    else:
        equal([(x[0], x[2]) for x in lines], [("1000", "1")])
    print(f"# {lines}")
    check(0 not in outer or not kind.separate, "root of the host")


attempt("P1 the host's password hashes", "read", "/etc/shadow", errors="ENOENT EACCES")
attempt("P1 through the runner's root", "read", "/proc/1/root/etc/hostname", errors="EACCES EPERM")
attempt("P2 change a program", "write", "/usr/bin/true", "x", errors="EROFS EACCES")
attempt("P2 change the runner's program", "write", "/.mas/mas-toolrunner", "x",
        errors="EROFS EACCES ETXTBSY")
attempt("P2 a file in the root", "create", "/x", errors="EROFS EACCES")
attempt("P3 mount a tmpfs", "mount", "none", "/tmp", "tmpfs", errors="EPERM")
attempt("P3 uncover what a mount hides", "umount", "/proc", errors="EPERM")
attempt("P4 write a core pattern", "write", "/proc/sys/kernel/core_pattern", "x",
        errors="EROFS EACCES EPERM")
attempt("P5 trace the runner", "ptrace", 1, errors="EPERM")
attempt("P5 read the runner's memory", "read", "/proc/1/mem", errors="EACCES EPERM")
attempt("P5 read the runner's environment", "read", "/proc/1/environ", errors="EACCES EPERM")
attempt("P5 the runner's descriptors", "list", "/proc/1/fd", errors="EACCES EPERM")
attempt("P5 write to the runner's connection", "write", "/proc/1/fd/3", "x", errors="EACCES EPERM")
attempt("P5 take the runner's descriptors", "pidfd-getfd", 1, 3, errors="ENOSYS EPERM")
attempt("P5 a descriptor that was left open", "leaked-fds", errors="EBADF")
attempt("P7 a raw socket", "socket", 2, 3, 1, errors="EPERM")
attempt("P7 a packet socket", "socket", 17, 3, 0x300, errors="EPERM")
attempt("P7 netlink audit", "socket", 16, 3, 9, errors="EPERM")
attempt("P7 an address of the world", "connect", "192.0.2.1", 80, errors="ENETUNREACH")
attempt("P8 make a device node", "mknod", "/workspace/disk", "b", 254, 0, errors="EPERM EACCES")
attempt("P9 any capability", "has-capability", errors="EPERM")
attempt("P9 become root", "setuid", 0, errors="EPERM EINVAL")
attempt("P10 a user namespace", "unshare", 0x10000000, errors="EPERM")
attempt("P10 clone3", "clone3", 0x10000000, errors="ENOSYS")
attempt("P11 bpf", "sys", 321, 5, "b:", 128, errors="EPERM")
attempt("P11 io_uring_setup", "sys", 425, 4, "b:", errors="ENOSYS")
attempt("P11 i386: mount", "i386", 21, "b:none", "b:/tmp", "b:tmpfs", 0, 0, errors="EPERM")
attempt("P12 type into a terminal", "pty-ioctl", 0x5412, errors="EPERM")


@each("P27 an image: shared, never changed, its owners nobody's or the tool's, what is ours in it sealed")
def test_p27_an_image_shared_never_changed_its_owners(kind, d, sb):
    digest = put_image(d, small, ids={0: kind.uid, 1000: kind.uid, 65534: kind.uid},
                       change=lambda root: os.symlink("/etc", root + "/workspace"))
    before = hash_of(rootfs_of(d, digest))
    with d.sandbox(image="sha256:" + digest) as one, d.sandbox(image="sha256:" + digest) as two:
        equal(one.sh("id -u; cat /etc/marker; echo w > /workspace/w; cat /workspace/w /proc/self/comm; touch /.mas/x || echo sealed")["stdout"],
              "1000\nimage\nw\ncat\nsealed\n")
        equal(one.sh("stat -c %u /app")["stdout"], "65534\n" if kind.separate else "1000\n")
        # Without ids of its own for an image's files, only where all share one are they the tool's to write.
        equal(one.sh("echo mine > /app/file; cat /app/file")["stdout"], "lower\n" if kind.separate else "mine\n")
        equal(two.sh("cat /app/file; ls /workspace")["stdout"], "lower\n")
        equal(one.sh("ln -s /bin/suid /tmp/id; /tmp/id -u")["stdout"], "1000\n")
        put_attack(one)
        for args in (("setuid", 0), ("has-capability",), ("mount", "none", "/tmp", "tmpfs"), ("umount", "/proc"),
                     ("write", "/.mas/mas-toolrunner", "x"), ("create", "/x"), ("ptrace", 1), ("read", "/proc/1/mem"),
                     ("unshare", 0x10000000), ("read", "/proc/1/root/etc/hostname")):
            refused(one, *args)
    equal(hash_of(rootfs_of(d, digest)), before, "the image")


@each("P5 signals do not end or stop the runner")
def test_p5_signals_do_not_end_or_stop_the_runner(kind, d, sb):
    for number in (9, 19, 15, 11, 10, 1, 2):
        inside(sb, "kill", 1, number)
        inside(sb, "pidfd-kill", 1, number)
    equal(sb.sh("echo alive; exit 4")["exit_code"], 4)


@each("P5 the runner's helpers cannot be looked into")
def test_p5_the_runner_helpers_cannot_be_looked(kind, d, sb):
    spy_on_helper(sb)


@each("P5 limits of the runner: refused, or to the sandbox's own harm only")
def test_p5_limits_of_the_runner_refused(kind, d, sb):
    if kind.separate:
        refused(sb, "prlimit", 1, errors="EPERM")
        return
    with d.sandbox() as own:
        own.exec("python3", "-c", "import resource as r\nr.prlimit(1, r.RLIMIT_NOFILE, (0, 0))\n"
                 "r.prlimit(1, r.RLIMIT_CPU, (0, 0))\nr.prlimit(1, r.RLIMIT_FSIZE, (0, 0))")
        for _ in range(3):
            a = d.post(own.path + "/exec", {"command": ["true"]})
            check(a.status in (200, 404, 409, 410, 422, 429, 502, 503, 507), a)
        equal(sb.sh("echo here")["stdout"], "here\n", "the neighbour")
        equal(d.get("/healthz").status, 200)


@each("P6 the neighbour's processes, files and sockets")
def test_p6_the_neighbour_processes_files_and_sockets(kind, d, sb):
    d.post(kind.other.path + "/exec", {"command": [INSIDE, "leave", "40404", "600"], "async": True})
    wait_for(lambda: inside(kind.other, "connect", "127.0.0.1", 40404)[0] == 0, "control: it is there")
    equal(inside(kind.other, "find-shm")[0], 0, "control: memory")
    for args in (("connect", "127.0.0.1", 40404), ("connect-abstract",), ("find-shm",),
                 ("find-msg",), ("find-sem",)):
        refused(sb, *args)
    kind.other.sh("echo secret > /tmp/secret")
    check("secret" not in sb.sh("cat /tmp/s*")["stdout"], "files")
    check("attack leave" not in sb.sh("cat /proc/*/cmdline | tr '\\0' ' '")["stdout"], "processes")


@each("P6 the caller's own processes: neither seen nor signalled")
def test_p6_the_caller_own_processes_neither_seen(kind, d, sb):
    victim = subprocess.Popen(["setpriv", f"--reuid={kind.uid}", f"--regid={kind.uid}",
                               "--clear-groups", "sleep", "577215"])
    try:
        wait_for(lambda: outside("kill", victim.pid, 0, user=kind.uid)[0] == 0,
                 "control: the same user may signal it outside")
        refused(sb, "kill", victim.pid, 9, errors="ESRCH EPERM")
        sb.sh("kill -9 -1")
        equal(victim.poll(), None, "it lives")
    finally:
        victim.kill()
        victim.wait()


@each("P1 the caller's own files: not there")
def test_p1_the_caller_own_files_not_there(kind, d, sb):
    path = os.path.join(d.dir, "own")
    with open(path, "w") as f:
        f.write("the caller's")
    os.chown(path, kind.uid, kind.uid)
    equal(outside("read", path, user=kind.uid)[0], 0, "control: the same user reads it outside")
    refused(sb, "read", path, errors="ENOENT EACCES")
    check("do-not-show" not in sb.sh("cat /proc/*/environ; env")["stdout"], "the daemon's environment")


@each("P14 processes and disk are limited without cgroups")
def test_p14_processes_and_disk_are_limited_without(kind, d, sb):
    with d.sandbox(limits={"max_processes": 20}) as small:
        put_attack(small)
        out = inside(small, "take-processes", 200)[1].split()
        check(int(out[1]) <= 20 and out[2] == "EAGAIN", out)
    with d.sandbox(limits={"disk_mb": 8}) as small:
        r = small.sh("head -c 64M /dev/zero > /tmp/x")
        check("No space left" in r["stderr"], r)


@each("P15 inotify instances of one sandbox leave the caller theirs")
def test_p15_inotify_instances_of_one_sandbox_leave(kind, d, sb):
    with d.sandbox() as greedy:
        put_attack(greedy)
        d.post(greedy.path + "/exec", {"command": [INSIDE, "take-inotify", "100000", "20"],
                                       "async": True})
        time.sleep(0.3)
        equal(inside(sb, "take-inotify", 5)[0], 0, "the neighbour's")
        equal(outside("take-inotify", 5, user=kind.uid)[0], 0, "the caller's")


MARK = f"{299000000 + os.getpid()}"  # other suites may run at the same time


@each("P19 kill -9 of the warden ends every process")
def test_p19_kill_9_of_the_warden_ends_every_process(kind, d, sb):
    sb.sh("(setsid sleep %s &) >/dev/null 2>&1 </dev/null" % MARK)
    wait_for(lambda: processes(f"sleep {MARK}"), "control: it runs")
    os.kill(d.get("/v1/status").json["warden_pid"], signal.SIGKILL)
    wait_for(lambda: not processes(f"sleep {MARK}"), "gone")
    d.process.wait(60)


try:
    main()
finally:
    for kind in kinds:
        if kind.d.process.poll() is None:
            kind.d.stop()
        shutil.rmtree(kind.d.dir, ignore_errors=True)
    shutil.rmtree(COPY, ignore_errors=True)
