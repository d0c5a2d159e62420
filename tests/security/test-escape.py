#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attempts to get out of a sandbox, from inside. SECURITY.md says which promise each one tries."""
import contextlib
import re
import stat

from attempt import *

d = Daemon(env={"MAS_SECRET_OF_THE_DAEMON": "do-not-show"}).start()
sb = d.sandbox()
put_attack(sb)
W, TMP, RUNNER = workdir(sb), tmpdir(sb), runner_of(sb)

ROOT_FILE = "/etc/shadow"
OWN_PROC = f"/proc/{os.getpid()}"  # a process of the host that is no sandbox's
NR = {  # x86_64; the attack program takes numbers
    "mount": 165, "swapon": 167, "reboot": 169, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "clock_settime": 227, "settimeofday": 164, "adjtimex": 159, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "perf_event_open": 298,
    "fanotify_init": 300, "finit_module": 313, "kexec_file_load": 320, "bpf": 321,
    "userfaultfd": 323, "io_uring_setup": 425, "acct": 163, "syslog": 103, "iopl": 172,
    "ioperm": 173, "personality": 135, "vhangup": 153, "sethostname": 170, "lookup_dcookie": 212,
    "move_pages": 279, "migrate_pages": 256, "kcmp": 312, "process_vm_writev": 311,
    "move_mount": 429, "mount_setattr": 442, "open_tree": 428, "fspick": 433, "setdomainname": 171,
    "quotactl_fd": 443, "clock_adjtime": 305, "name_to_handle_at": 303, "modify_ldt": 154,
}
CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID = 0x10000000, 0x20000, 0x40000000, 0x20000000


made = set()


def attempt(name, *args, errors=None, control=works, **how):
    """A test of one attempt, with its control (None where there is no safe one)."""
    control_args = how.pop("control_args", args)
    made.add(name)

    @test(name)
    def test_attempt():
        if control:
            control(*control_args, **how)
        there, reason = ANSWERS.get(name, (None, None))
        if there == "works":
            code, out = inside(sb, *args)
            equal(code, 0, f"on {RUNTIME} it works, because {reason}: {out[:300]!r}")
        else:
            refused(sb, *args, errors=there or errors)


# --- P1: files of the host

attempt("P1 read the host's password hashes", "read", ROOT_FILE, errors="ENOENT EACCES")
attempt("P1 through the runner's root: /proc/1/root", "read", f"/proc/{RUNNER}/root" + ROOT_FILE,
        errors="EACCES EPERM", control_args=("read", OWN_PROC + "/root" + ROOT_FILE))
attempt("P1 through the runner's working directory: /proc/1/cwd", "read", f"/proc/{RUNNER}/cwd" + ROOT_FILE,
        errors="EACCES EPERM", control_args=("list", OWN_PROC + "/cwd"))
attempt("P1 up from the root: /proc/self/root/..", "read",
        "/proc/self/root/../../../.." + ROOT_FILE, errors="ENOENT EACCES")
attempt("P1 through a symlink of its own", "symlink-read", "../../../../.." + ROOT_FILE,
        TMP + "/mas-attack-link", errors="ENOENT EACCES", control_args=("read", ROOT_FILE))
attempt("P1 through another process's root", "read", f"/proc/self/task/../../{RUNNER}/root" + ROOT_FILE,
        errors="EACCES EPERM", control_args=("read", OWN_PROC + "/root" + ROOT_FILE))
attempt("P1 a hard link to a file of the host", "link", "/usr/bin/true", W + "/true",
        errors="EXDEV EPERM EACCES EROFS", control=None)
attempt("P1 a file by its handle: open_by_handle_at", "handle", "/usr", errors="EPERM")
attempt("P1 the runner's descriptors: /proc/1/fd", "list", f"/proc/{RUNNER}/fd", errors="EACCES EPERM",
        control_args=("list", OWN_PROC + "/fd"))
attempt("P1 mapped files of the runner: /proc/1/map_files", "list", f"/proc/{RUNNER}/map_files",
        errors="EACCES EPERM", control_args=("list", OWN_PROC + "/map_files"))


@test("P1 the host's directories are not there")
def test_p1_the_host_directories_are_not_there():
    for path in ("/root", "/home", "/var", "/boot", "/srv", "/opt", "/mnt", "/run", "/sys"):
        seen = sb.sh(f"find {path} -mindepth 1 -maxdepth 1 -printf '%f\\n'")["stdout"].split()
        allowed = {"/home": ["sandbox"], "/var": ["run", "tmp"]}.get(path, []) if not LANDLOCK else []
        if path == "/var" and POD:
            allowed = ["run"]  # as the image has it
        if path == "/sys" and POD:  # the kernel's, as in any container: read-only, and without its firmware
            equal(sb.sh("find /sys/firmware -mindepth 1")["stdout"], "")
            check("ro" in sb.sh("awk '$5 == \"/sys\" {print $6}' /proc/self/mountinfo")["stdout"].strip().split(","), "/sys is read-only")
            continue
        if path == "/sys" and GVISOR:  # of its own kernel, which knows of no device
            allowed = "block bus class dev devices firmware fs kernel module power".split()
            equal(sb.sh("find /sys/block /sys/bus /sys/firmware -mindepth 1")["stdout"], "")
        equal(sorted(seen), allowed, path)
    marker = os.path.join(d.dir, "host-file")
    with open(marker, "w") as f:
        f.write("x")
    check(os.path.exists(marker), "the control's file")
    equal(sb.sh(f"cat {marker}")["exit_code"], 1, "a file in the host's /tmp")


@test("P1 no name, user or address of the host")
def test_p1_no_name_user_or_address_of_the_host():
    text = sb.sh("hostname; cat /etc/passwd /etc/group /etc/hosts; cat /proc/net/dev /proc/net/route"
                 " /proc/net/unix; getent passwd")["stdout"]
    shown = on_landlock(fenced.SHARED, True, os.uname().nodename == "sandbox")
    equal(os.uname().nodename in text.split(), shown, "hostname")
    users = on_landlock("there is no synthetic list, and the host's cannot be read", 0, in_pod("the list is the image's", 4, 6))
    equal(len(re.findall(r"^\S+:x:", text.split("127.0.0.1")[0], re.M)), users, "users and groups")
    check((in_pod("it has a link of its own", True, False) or "eth0" not in text) and "ens" not in text, "interfaces")


@test("P1 the daemon's environment is not a command's")
def test_p1_the_daemon_environment_is_not_a_commands():
    text = sb.sh("env; tr '\\0' '\\n' < /proc/self/environ; cat /proc/*/environ")["stdout"]
    check("do-not-show" not in text and "MAS_SECRET" not in text, text)
    # Not even our own processes keep it: it is the operator's, and may hold tokens of all kinds.
    kept = {pid: proc_text(pid, "environ") for pid in [d.process.pid, *below(d.process.pid)]}
    check("PATH=" in kept[d.process.pid], "control: environments can be read here")
    equal([pid for pid, text in kept.items() if "do-not-show" in text], [])


# --- P2: what is read-only

for path in ("/usr/bin/mas-attack", "/etc/mas-attack", "/mas-attack", "/dev/mas-attack",
             "/.mas/mas-attack", "/.mas/run/mas-attack", "/proc/mas-attack", "/run/mas-attack"):
    attempt(f"P2 make a file in {os.path.dirname(path)}", "create", path, control=None,
            errors="EROFS EACCES ENOENT EPERM")
attempt("P2 change a program of the host", "write", "/usr/bin/true", "x",
        errors="EROFS EACCES EPERM", control=None)
attempt("P2 change the runner's program", "write", "/.mas/mas-toolrunner", "x",
        errors="EROFS EACCES ETXTBSY", control=None)
attempt("P2 change the runner's program through /proc/1/exe", "write", f"/proc/{RUNNER}/exe", "x",
        errors="EACCES EPERM", control=None)
attempt("P2 change who is who", "write", "/etc/passwd", "root::0:0::/:/bin/sh",
        errors="EROFS EACCES", control=None)

# --- P3: the mount table

attempt("P3 mount a tmpfs", "mount", "none", "/tmp", "tmpfs", errors="EPERM", private=True)
attempt("P3 mount the disk the host runs from", "mount", "/dev/vda", "/tmp", "ext4",
        errors="EPERM", control_args=("mount", "none", "/tmp", "tmpfs"), private=True)
attempt("P3 mount a second proc", "mount", "proc", "/tmp", "proc", errors="EPERM", private=True)
attempt("P3 mount sysfs", "mount", "sysfs", "/tmp", "sysfs", errors="EPERM", private=True)
attempt("P3 bind one directory over another", "bind", "/", "/tmp", errors="EPERM", private=True)
attempt("P3 make /usr writable: remount", "remount", "/usr", errors="EPERM", private=True,
        control_args=("remount", "/proc"))
attempt("P3 uncover what a mount hides: umount /proc", "umount", "/proc", errors="EPERM",
        private=True)
attempt("P3 uncover a masked file: umount /proc/keys", "umount", "/proc/keys", errors="EPERM",
        private=True, control_args=("umount", "/proc"))
attempt("P3 the new mount calls: fsopen, fsmount", "new-mount-api", errors="EPERM", private=True)
attempt("P3 the new mount calls: open_tree, move_mount", "open-tree", "/usr", "/tmp",
        errors="EPERM", private=True)
attempt("P3 another root: pivot_root", "pivot-root", "/tmp", errors="EPERM", private=True)
attempt("P3 another root: chroot", "chroot", "/tmp", errors="EPERM", private=True)
attempt("P3 mount_setattr", "sys", NR["mount_setattr"], -100, "s:/usr", 0, "b:", 32,
        errors="EPERM", control=reaches_kernel)

# --- P4: /proc and the kernel's knobs

for path, text in (("/proc/sys/kernel/core_pattern", "|/bin/sh"), ("/proc/sysrq-trigger", "h"),
                   ("/proc/sys/kernel/modprobe", "/tmp/x"), ("/proc/sys/vm/drop_caches", "1"),
                   ("/proc/sys/kernel/hostname", "x"), ("/proc/sys/user/max_user_namespaces", "9"),
                   ("/proc/sys/net/ipv4/ip_forward", "1"), ("/proc/sys/fs/binfmt_misc/register", "x"),
                   ("/proc/irq/default_smp_affinity", "1"), ("/proc/self/uid_map", "0 0 1")):
    attempt(f"P4 write {path}", "write", path, text, control=None,
            errors="EROFS EACCES EPERM ENOENT")
for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/kmsg", "/proc/kpagecount",
             "/proc/slabinfo", "/proc/vmallocinfo", "/proc/1/stack", "/dev/mem", "/dev/kmsg"):
    attempt(f"P4 read {path}", "read", path, control=None,
            errors="ENODATA EACCES EPERM ENOENT EIO")


@test("P4 no addresses of the kernel: /proc/kallsyms")
def test_p4_no_addresses_of_the_kernel_proc_kallsyms():
    out = sb.sh("head -n 200 /proc/kallsyms | cut -d' ' -f1 | sort -u")["stdout"].split()
    check(all(int(a, 16) == 0 for a in out), out[:5])


# --- P5: the runner

VICTIM = subprocess.Popen([ATTACK, "take-fds", "1", "3000"], stdout=subprocess.DEVNULL)
attempt("P5 trace the runner: PTRACE_SEIZE", "ptrace", RUNNER, errors="EPERM",
        control_args=("ptrace", VICTIM.pid))
attempt("P5 trace the runner: PTRACE_ATTACH", "ptrace-attach", RUNNER, errors="EPERM",
        control_args=("ptrace-attach", VICTIM.pid))
attempt("P5 read the runner's memory: process_vm_readv", "vm-read", RUNNER, 0x400000, errors="EPERM",
        control_args=("vm-read", VICTIM.pid, 0x400000))
attempt("P5 read the runner's memory: /proc/1/mem", "read", f"/proc/{RUNNER}/mem", errors="EACCES EPERM",
        control=None)
attempt("P5 read the runner's environment", "read", f"/proc/{RUNNER}/environ", errors="EACCES EPERM",
        control_args=("read", OWN_PROC + "/environ"))
attempt("P5 read the runner's memory map", "read", f"/proc/{RUNNER}/maps", errors="EACCES EPERM",
        control_args=("read", OWN_PROC + "/maps"))
attempt("P5 read the runner's registers: /proc/1/syscall", "read", f"/proc/{RUNNER}/syscall",
        errors="EACCES EPERM", control_args=("read", OWN_PROC + "/syscall"))
for name, number in (("KILL", 9), ("STOP", 19), ("TERM", 15), ("SEGV", 11), ("USR1", 10)):
    attempt(f"P5 signal the runner: SIG{name}", "kill", RUNNER, number, errors="EPERM",
            control_args=("kill", VICTIM.pid, 0))
attempt("P5 signal the runner by pidfd", "pidfd-kill", RUNNER, 9, errors="EPERM",
        control_args=("pidfd-kill", VICTIM.pid, 0))
attempt("P5 take the runner's descriptors: pidfd_getfd", "pidfd-getfd", RUNNER, 3, errors="ENOSYS EPERM",
        control=works, control_args=("pidfd-getfd", os.getpid(), 0))
attempt("P5 limit the runner: prlimit", "prlimit", RUNNER, errors="EPERM",
        control_args=("prlimit", VICTIM.pid))
attempt("P5 slow the runner down: setpriority", "sys", 141, 0, RUNNER, 19, errors="EPERM",
        control_args=("sys", 141, 0, VICTIM.pid, 19))
attempt("P5 slow the runner down: ioprio_set", "sys", 251, 1, RUNNER, 0x6000, errors="EPERM",
        control_args=("sys", 251, 1, VICTIM.pid, 0x6000))
attempt("P5 slow the runner down: sched_setaffinity", "sys", 203, RUNNER, 8, "b:\x01", errors="EPERM",
        control_args=("sys", 203, VICTIM.pid, 8, "b:\x01"))
attempt("P5 slow the runner down: timer slack", "write", f"/proc/{RUNNER}/timerslack_ns", "1000000000",
        errors="EPERM EACCES EROFS", control=None)
attempt("P5 a descriptor that was left open", "leaked-fds", errors="EBADF", control=None)
attempt("P5 write to the runner's connection: /proc/1/fd/3", "write", f"/proc/{RUNNER}/fd/3", "x",
        errors="EACCES EPERM", control=None)
attempt("P5 the kernel comparing pointers: kcmp", "sys", NR["kcmp"], RUNNER, RUNNER, 0, 0, 0, errors="EPERM",
        control=works, control_args=("sys", NR["kcmp"], os.getpid(), os.getpid(), 0, 0, 0))
attempt("P5 make the runner the first to die: oom_score_adj", "write", f"/proc/{RUNNER}/oom_score_adj",
        "1000", errors="EACCES EPERM EROFS",
        control_args=("write", f"/proc/{VICTIM.pid}/oom_score_adj", "1000"))


@test("P5 children that the runner never started do not confuse it")
def test_p5_children_that_the_runner_never_started():
    equal(inside(sb, "clone-parent", 50)[0], 0)
    equal(sb.sh("echo still here; exit 3")["exit_code"], 3)


@test("P5 a command that makes the runner its tracer has not ended for that")
def test_p5_a_command_that_makes_the_runner_its_tracer():
    equal(inside(sb, "trace-me")[0], on_gvisor("nobody has the runner for a tracer", 1, 0))


@test("P5 a command cannot keep its death from the runner")
def test_p5_a_command_cannot_keep_its_death():
    if on_gvisor("the dead do not say who traces them, so that the whole sandbox ends", True, False):
        return
    with d.sandbox() as other:
        put_attack(other)
        hidden = d.post(f"{other.path}/exec", {"command": [attack(other), "hide-death"], "async": True}).json["exec_id"]
        path = f"{other.path}/execs/{hidden}"
        wait_for(lambda: b"hidden" in d.get(path + "/logs").body, "control: it is traced")
        a = d.post(path + "/signal", {"signal": "KILL"})
        check(a.status in (200, 202, 204), a)
        wait_for(lambda: d.get(path).json["status"] != "running", "its end")
        equal(d.get(path).json.get("signal"), 9, d.get(path))
        equal(other.sh("echo well")["stdout"], "well\n", "the sandbox is well")


@test("P5 a command's own streams are its own: it may open them again, and nobody else's")
def test_p5_a_command_own_streams_are_its_own_it_may_open():
    r = sb.sh("echo out > /dev/stdout; echo err > /dev/stderr")
    pipes = on_gvisor("its pipes have no modes, and belong to the runner", "Permission denied", None)
    if pipes:
        equal((r["stdout"], r["stderr"].count(pipes)), ("", 2))
    else:
        equal((r["stdout"], r["stderr"]), ("out\n", "err\n"))
    for fd in (0, 1, 2):
        if GVISOR and not DOCKER:  # the runner's are /dev/null of the host, which the runtime opened for it
            equal(inside(sb, "write", f"/proc/{RUNNER}/fd/{fd}", "x")[0], 0)
            equal({os.readlink(f"/proc/{p}/fd/{fd}") for p in kernels(d)}, {"/dev/null"})
        else:
            refused(sb, "write", f"/proc/{RUNNER}/fd/{fd}", "x", errors="EACCES EPERM")


@test("P5 the runner's helpers: what serves an upload cannot be looked into")
def test_p5_the_runner_helpers_what_serves_an_upload():
    spy_on_helper(sb)


@test("P5 what a runtime shares is what it says")
def test_p5_what_a_runtime_shares_is_what_it_says():
    if not LANDLOCK:
        return equal(sb.created["effective"].get("shares", []), pods.SHARES if POD else [], "what any other shares")
    said = " ".join(sb.created["effective"]["shares"])
    for word in ("process ids", "files", "name", "disk"):
        check(word in said, said)
    equal(inside(sb, "kill", OWN_PROC.split("/")[-1], 0)[1].split()[-1], "EPERM", "a process that is there")
    equal(inside(sb, "kill", 4194303, 0)[1].split()[-1], "ESRCH", "one that is not")
    equal(sb.sh(f"stat -c %s {ROOT_FILE}")["stdout"].strip(), str(os.stat(ROOT_FILE).st_size), "a file's size")


@test("P5 stopping every process does not stop the sandbox's end")
def test_p5_stopping_every_process_does_not_stop():
    before = set(left(d, "attack stop-all"))
    with d.sandbox() as other:
        put_attack(other)
        d.post(f"/sandboxes/{other.id}/exec", {"command": [attack(other), "stop-all", "300"], "async": True})
        time.sleep(0.1)
        for _ in range(3):
            d.post(f"/sandboxes/{other.id}/exec", {"command": ["true"], "async": True})
        start = time.time()
        equal(other.delete().status, 200, "delete")
        check(time.time() - start < PATIENCE_S, "it took long")
        wait_for(lambda: set(left(d, "attack stop-all")) <= before, "nothing of it is left")
    equal(sb.sh("echo here")["stdout"], "here\n", "other sandboxes")


@test("P5 stopping every child that the runner starts does not stop the runner")
def test_p5_stopping_every_child_that_the_runner_starts():
    def started(spec):
        a = d.post(f"/sandboxes/{other.id}/exec", dict(spec, **{"async": True, "timeout": 3}))
        return a.status, a.body

    with d.sandbox() as other:
        put_attack(other)
        other.sh("echo kept > file")
        attacker = d.post(f"/sandboxes/{other.id}/exec", {"command": [attack(other), "stop-all", "300"], "async": True})
        check(attacker.status in (200, 201, 202), attacker)
        time.sleep(0.1)
        for _ in range(2):  # programs that the runner waits for, and its own helpers
            started({"command": ["true"], "pty": True})
            try:
                d.get(f"{other.path}/files/content?path={workdir(other)}/file", timeout=0.5)
            except OSError:  # that helper is stopped: its own call waits for it, and nobody else's
                pass
        # The runner hears of this only if it waits for none of them.
        gone = d.post(f"{other.path}/execs/{attacker.json['exec_id']}/signal", {"signal": "KILL"})
        check(gone.status in (200, 202, 204), gone)
        wait_for(lambda: not running(other, "attack stop-all"), "the attacker's end")
        equal(other.sh("cat file")["stdout"], "kept\n", "the sandbox is well")


# --- P6: another sandbox, and the host's own processes

with_neighbour = d.sandbox()
put_attack(with_neighbour)
PORT = 40404


@test("P6 the neighbour has left what is looked for")
def test_p6_the_neighbour_has_left_what_is_looked():
    if LANDLOCK:  # nothing can be left where anybody might look
        d.post(f"/sandboxes/{with_neighbour.id}/exec",
               {"command": [attack(with_neighbour), "take-fds", "1", "3000", "attack leave"], "async": True})
        wait_for(lambda: running(with_neighbour, "attack leave"), "the neighbour is ready")
        for what in ("find-shm", "find-msg", "find-sem", "connect-abstract"):
            refused(with_neighbour, what, errors="EPERM EBADF")
        return
    d.post(f"/sandboxes/{with_neighbour.id}/exec",
           {"command": [attack(with_neighbour), "leave", str(PORT), "3000"], "async": True})
    wait_for(lambda: inside(with_neighbour, "connect", "127.0.0.1", PORT)[0] == 0,
             "the neighbour is ready")
    for what in ("find-shm", "find-msg", "find-sem", "connect-abstract"):
        there = 1 if what == "connect-abstract" and in_pod("Landlock keeps each command's abstract sockets to itself", True, False) else 0
        equal(inside(with_neighbour, what)[0], there, f"control: {what} inside the same sandbox")


attempt("P6 the neighbour's System V memory", "find-shm", errors="ENOENT", control=None)
attempt("P6 the neighbour's System V queue", "find-msg", errors="ENOENT", control=None)
attempt("P6 the neighbour's System V semaphore", "find-sem", errors="ENOENT", control=None)
attempt("P6 the neighbour's POSIX queue", "find-queue", errors="ENOENT EACCES", control=None)
attempt("P6 the neighbour's abstract socket", "connect-abstract", errors="ECONNREFUSED EPERM",
        control=None)
attempt("P6 the neighbour by loopback", "connect", "127.0.0.1", PORT, errors="ECONNREFUSED",
        control=None)


@test("P6 the neighbour's processes: neither seen nor signalled")
def test_p6_the_neighbour_processes_neither_seen():
    if not LANDLOCK:  # where a command does not see its own, either
        check("attack leave" in with_neighbour.sh("cat /proc/*/cmdline | tr '\\0' ' '")["stdout"],
              "control: it is seen in its own sandbox")
    check("attack leave" not in sb.sh("cat /proc/*/cmdline | tr '\\0' ' '")["stdout"], "seen")
    sb.sh("kill -9 -1")
    sb.sh("for p in $(seq 2 2000); do kill -9 $p; done 2>/dev/null")
    check(running(with_neighbour, "attack leave"), "it was killed from another sandbox")
    for host in kernels(d) if GVISOR else processes("attack leave")[:1]:
        refused(sb, "kill", host, 9, errors="ESRCH EPERM")
    check(running(with_neighbour, "attack leave"), "it was killed by its number on the host")


@test("P6 the neighbour's files")
def test_p6_the_neighbour_files():
    places = [tmpdir(with_neighbour), workdir(with_neighbour), "/dev/shm"]
    with_neighbour.sh("; ".join(f"echo secret > {p}/secret" for p in places))
    equal(sb.sh("cat " + " ".join(p + "/secret" for p in places) + " 2>/dev/null")["stdout"], "")


def users_of_kernels():
    """gVisor: who serves files has the sandbox's ids; kernels are nobody, without rights, each in its own spaces."""
    found = {p: command_of(p).split()[0] for p in kernels(d)}
    servers = [p for p, name in found.items() if name == "runsc-gofer"]
    sentries = [p for p, name in found.items() if name == "runsc-sandbox"]
    check(len(servers) >= 2 and len(sentries) >= 2, found)
    status = {p: status_of(p) for p in found}
    users = [int(status[p]["Uid"].split()[0]) for p in servers]
    if DOCKER:  # which maps no ids: its files are served by the host's root, in an empty root of its own
        equal(set(users), {0})
        equal({os.path.realpath(f"/proc/{p}/root") for p in servers} & {"/"}, set(), "the host's root")
    else:
        check(len(set(users)) == len(users) and min(users) >= 65536, users)
    for p in sentries:
        equal((status[p]["Uid"].split()[0], status[p]["Seccomp"]), ("65534", "2"))
    for space in ("user", "mnt", "net", "ipc"):
        links = {os.readlink(f"/proc/{p}/ns/{space}") for p in sentries + [os.getpid()]}
        equal(len(links), len(sentries) + 1, f"each has a {space} namespace of its own")


@test("P6 two sandboxes have no host user in common")
def test_p6_two_sandboxes_have_no_host_user_in_common():
    if GVISOR:
        return users_of_kernels()
    if LANDLOCK:  # they are the host's users themselves
        users = [set(map(int, s.sh("id -u; id -g; id -G")["stdout"].split())) for s in (sb, with_neighbour)]
        check(not users[0] & users[1] and min(users[0] | users[1]) >= 65536, users)
        return
    if DOCKER or POD:  # no maps: whom a tool is on the host is what it says it is
        ids = [int(s.sh("id -u")["stdout"]) for s in (sb, with_neighbour)]
        check(ids[0] != ids[1] and min(ids) >= 65536, ids)
        check(POD or sb.created["effective"]["users"]["by"] == "host uids", sb.created["effective"])
        return
    maps = [s.sh("cat /proc/self/uid_map /proc/self/gid_map")["stdout"] for s in (sb, with_neighbour)]
    ids = [{int(line.split()[1]) for line in m.splitlines()} for m in maps]
    check(not ids[0] & ids[1], ids)
    check(min(ids[0] | ids[1]) >= 65536, "an id of the host is mapped")


@test("P6 the daemon's own port and the host's abstract sockets")
def test_p6_the_daemon_own_port_and_the_host_abstract():
    works("connect", "127.0.0.1", d.port)
    refused(sb, "connect", "127.0.0.1", d.port, errors=on_landlock(fenced.SOCKETS, "EBADF", "ECONNREFUSED"))
    server = socket.socket(socket.AF_UNIX)
    wait_for(lambda: server.bind("\0mas-attack") is None, "the name, which another suite may have")
    server.listen(5)
    works("connect-abstract")
    refused(sb, "connect-abstract", errors=on_landlock(fenced.SOCKETS, "EBADF", "ECONNREFUSED EPERM"))
    server.close()


# --- P7: network

attempt("P7 an address of the world", "connect", "192.0.2.1", 80, errors="ENETUNREACH", control=None)
attempt("P7 the cloud's metadata address", "connect", "169.254.169.254", 80, errors="ENETUNREACH",
        control=None)
attempt("P7 a raw socket", "socket", 2, 3, 1, errors="EPERM")
attempt("P7 a raw IPv6 socket", "socket", 10, 3, 58, errors="EPERM")
attempt("P7 a packet socket", "socket", 17, 3, 0x300, errors="EPERM")
attempt("P7 the hypervisor: AF_VSOCK", "socket", 40, 1, 0, errors="EPERM")
for name, family, kind in (("AF_ALG", 38, 5), ("AF_BLUETOOTH", 31, 3), ("AF_CAN", 29, 3),
                           ("AF_TIPC", 30, 1), ("AF_KEY", 15, 3), ("AF_RDS", 21, 5),
                           ("AF_X25", 9, 5), ("AF_XDP", 44, 3), ("AF_QIPCRTR", 42, 2)):
    attempt(f"P7 another family: {name}", "socket", family, kind, 0, errors="EPERM",
            control=reaches_kernel)
for name, protocol in (("audit", 9), ("netfilter", 12), ("uevents", 15), ("generic", 16),
                       ("sock_diag", 4), ("xfrm", 6), ("connector", 11), ("crypto", 21)):
    attempt(f"P7 netlink: {name}", "socket", 16, 3, protocol, errors="EPERM",
            control=reaches_kernel)
attempt("P7 other TCP: multipath", "socket", 2, 1, 262, errors="EPERM", control=reaches_kernel)
attempt("P7 other families through socketpair: netlink audit", "socketpair", 16, 3, 9,
        errors="EPERM")
attempt("P7 other families through socketpair: AF_VSOCK", "socketpair", 40, 1, 0, errors="EPERM")
attempt("P7 add an interface", "new-link", errors="EPERM", private=True)
attempt("P7 take loopback down", "lo-down", errors="EPERM", private=True)


@test("P7 netlink route reads, and what is allowed works")
def test_p7_netlink_route_reads_and_what_is_allowed_works():
    if LANDLOCK:
        for family, kind in ((1, 1), (1, 2), (2, 1), (10, 1), (16, 3)):
            refused(sb, "socket", family, kind, 0, errors="EPERM")
        for kind in (2, 3):
            refused(sb, "socketpair", 1, kind, 0, errors="EPERM")
        equal(inside(sb, "socketpair", 1, 1, 0)[0], 0, "socketpair")
        return
    equal(inside(sb, "socket", 16, 3, 0)[0], 0, "NETLINK_ROUTE")
    for family in (1, 2, 10):
        equal(inside(sb, "socket", family, 1, 0)[0], 0, f"family {family}")
    equal(inside(sb, "socketpair", 1, 1, 0)[0], 0, "socketpair")


# --- P8: devices

attempt("P8 make a node of the host's disk", "mknod", W + "/disk", "b", 254, 0,
        errors="EPERM EACCES", control_args=("mknod", d.dir + "/disk", "b", 254, 0))
attempt("P8 make a node of the kernel's memory", "mknod", "/dev/shm/mem", "c", 1, 1,
        errors="EPERM EACCES", control_args=("mknod", d.dir + "/mem", "c", 1, 1))
for path in ("/dev/vda", "/dev/sda", "/dev/loop0", "/dev/loop-control", "/dev/kvm", "/dev/fuse",
             "/dev/net/tun", "/dev/mapper/control", "/dev/console", "/dev/tty0"):
    attempt(f"P8 open {path}", "read", path, control=None, errors="ENOENT EACCES EPERM ENXIO")


HARMLESS = ("full", "null", "random", "tty", "urandom", "zero")


def is_device(path):
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:  # gone since
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


@test("P8 only the harmless devices exist")
def test_p8_only_the_harmless_devices_exist():
    if LANDLOCK:  # the host's directory, which cannot be listed: each is tried
        for name in os.listdir("/dev"):
            path = "/dev/" + name
            if is_device(path):
                code, out = inside(sb, "read", path) if name not in HARMLESS else (1, "")
                check(code == 1, f"{path} can be opened: {out}")
        return
    # Not find's -type: a node that is bound there is a plain file by its directory's word.
    out = sb.sh("find /dev | while read f; do [ ! -L $f ] && { [ -c $f ] || [ -b $f ]; } && echo $f; done")["stdout"].split()
    out = sorted(p for p in out if not p.startswith("/dev/pts/"))
    more = on_gvisor("fuse and tun are of its own kernel", ["/dev/fuse", "/dev/net/tun"], [])
    equal(out, sorted(more + ["/dev/" + n for n in HARMLESS]))


# --- P9: rights

attempt("P9 become root: setresuid", "setuid", 0, errors="EPERM")
attempt("P9 become the sandbox's nobody", "setuid", 65534, errors="EPERM")
attempt("P9 become another group", "setgid", 0, errors="EPERM")
attempt("P9 add a group", "setgroups", 0, errors="EPERM")
attempt("P9 any capability", "has-capability", errors="EPERM")
for name, number in (("CAP_SYS_ADMIN", 21), ("CAP_DAC_OVERRIDE", 1), ("CAP_SETUID", 7)):
    attempt(f"P9 raise {name}", "raise-capability", number, errors="EPERM")
attempt("P9 real-time priority", "realtime", errors="EPERM", control=None)
attempt("P9 a better nice value", "nice", -5, errors="EACCES EPERM")
attempt("P9 more open files than allowed", "raise-rlimit", 7, errors="EPERM", control=None)
attempt("P9 core dumps", "core", errors="EPERM")
attempt("P9 be spared by the OOM killer", "write", "/proc/self/oom_score_adj", "-1000",
        errors="EACCES EPERM EROFS", control=None)
attempt("P9 be killed after the daemon", "write", "/proc/self/oom_score_adj", "-1",
        errors="EACCES EPERM EROFS", control=None)


@test("P9 be killed together with the daemon, not before it")
def test_p9_be_killed_together_with_the_daemon():
    with open("/proc/self/status") as f:
        rights = int(re.search(r"CapEff:\s*(\w+)", f.read())[1], 16)
    if not rights >> 24 & 1 and not LANDLOCK and not sb.created["effective"]["landlock"]:
        raise Skip("no Landlock around it, and root has no CAP_SYS_RESOURCE here to raise the least value")
    if POD:
        raise Skip("the daemon is on no node of the pods', whose scores are the kubelet's")
    works("write", "/proc/self/oom_score_adj", "0")
    refused(sb, "write", "/proc/self/oom_score_adj", "0", errors="EACCES EPERM EROFS")


def status_of_command():
    """Of one without namespaces, as the host sees it."""
    a = d.post(f"/sandboxes/{sb.id}/exec", {"command": ["sleep", f"77.{os.getpid()}"], "async": True, "timeout_ms": 60000})
    check(a.status in (200, 201, 202), a)
    wait_for(lambda: processes(f"sleep 77.{os.getpid()}"), "it runs")
    return proc_text(processes(f"sleep 77.{os.getpid()}")[0], "status")


@test("P9 no_new_privs, an empty bounding set but for the runner's, a filter")
def test_p9_no_new_privs_an_empty_bounding_set():
    status = status_of_command() if LANDLOCK else sb.sh("cat /proc/self/status")["stdout"]
    none = on_landlock("its runner has no rights either", True, False) or in_pod("its runner has no rights either", True, False)
    bounding = "CapBnd:\t0000000000000000" if none else "CapBnd:\t00000000000000e0"
    lines = ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapInh:\t0000000000000000", bounding]
    lines += on_gvisor("it shows neither ambient rights nor NoNewPrivs, and the filter is the kernel itself",
                       ["Seccomp:\t0"], ["NoNewPrivs:\t1", "Seccomp:\t2", "CapAmb:\t0000000000000000"])
    for line in lines:
        check(line in status, line)


@test("P9 programs of the host that are set-user-ID stay powerless")
def test_p9_programs_of_the_host_that_are_set_user_id():
    with open("/proc/self/status") as f:
        check("CapEff:\t0000000000000000" not in f.read(), "control: outside, root has rights")
    r = sb.sh("for p in su mount umount passwd newgrp chsh; do command -v $p; done;"
              " su -c id root </dev/null; mount -t tmpfs x /tmp; newuidmap $$ 0 0 1; id -u")
    check(r["stdout"].strip().endswith(tool_uid(sb)), r)


# --- P10: namespaces

for name, flag in (("user", CLONE_NEWUSER), ("mount", CLONE_NEWNS), ("network", CLONE_NEWNET),
                   ("pid", CLONE_NEWPID), ("ipc", 0x08000000), ("uts", 0x04000000),
                   ("cgroup", 0x02000000), ("time", 0x80)):
    attempt(f"P10 unshare: {name}", "unshare", flag, errors="EPERM")
attempt("P10 clone into a user namespace", "clone", CLONE_NEWUSER, errors="EPERM")
attempt("P10 clone3 into a user namespace", "clone3", CLONE_NEWUSER, errors="ENOSYS")
for kind in ("mnt", "user", "pid", "net"):
    attempt(f"P10 join the runner's namespaces: {kind}", "setns", f"/proc/{RUNNER}/ns/{kind}",
            errors="EACCES EPERM", control=None)
attempt("P10 join its own: setns", "setns", "/proc/self/ns/uts", errors="EPERM")

if GVISOR:
    @test("P10 in a user namespace of its own it has no more rights over the sandbox")
    def test_p10_in_a_user_namespace_of_its_own():
        out = sb.exec("python3", "-c", gvisor.IN_USER_NAMESPACE)["stdout"].splitlines()
        equal(out[0], "uid 0", "control: it has the namespace")
        equal([line for line in out[1:] if not line.endswith(" refused")], [])
        equal(len(out), 19, out)

# --- P11: system calls, in each way a processor has to make them

for name, args, control in (
        ("swapon", (f"s:{W}/attack", 0), None),
        ("reboot", (0xfee1dead, 672274793, 0xcdef0123), None),
        ("init_module", ("b:", 0, "s:"), reaches_kernel),
        ("finit_module", (0, "s:", 0), reaches_kernel),
        ("delete_module", ("s:none-of-this-name", 0x800), reaches_kernel),
        ("kexec_load", (0, 0, 0, 0), None),
        ("kexec_file_load", (-1, -1, 0, 0, 0), None),
        ("quotactl", (0x80000700, 0, 0, 0), None),
        ("acct", ("s:/nonexistent",), reaches_kernel),
        ("clock_settime", (0, "b:"), None),
        ("settimeofday", ("b:", 0), None),
        ("adjtimex", ("b:",), works),
        ("clock_adjtime", (0, "b:"), works),
        ("add_key", ("s:user", "s:mas", "s:x", 1, -2), works),
        ("request_key", ("s:user", "s:mas-none", 0, -2), reaches_kernel),
        ("keyctl", (0, -3, 1), works),
        ("perf_event_open", ("b:", 0, -1, -1, 0), reaches_kernel),
        ("bpf", (5, "b:", 128), reaches_kernel),
        ("userfaultfd", (1,), reaches_kernel),
        ("io_uring_setup", (4, "b:"), works),
        ("fanotify_init", (0, 0), works),
        ("syslog", (10, 0, 0), works),
        ("iopl", (3,), None),
        ("ioperm", (0x80, 1, 1), None),
        ("personality", (0x0400000,), works),
        ("sethostname", ("s:x", 1), None),
        ("setdomainname", ("s:x", 1), None),
        ("vhangup", (), None),
        ("migrate_pages", (1, 64, "b:", "b:"), None),
        ("move_pages", (1, 0, 0, 0, 0, 0), None),
        ("modify_ldt", (0, "b:", 64), works),
        ("fspick", (-100, "s:/", 0), works),
        ("name_to_handle_at", (-100, "s:/", "b:", "b:", 0), reaches_kernel)):
    attempt(f"P11 {name}", "sys", NR[name], *args, errors="EPERM ENOSYS", control=control)

attempt("P11 i386: mount", "i386", 21, "b:none", "b:/tmp", "b:tmpfs", 0, 0, errors="EPERM",
        private=True)
attempt("P11 i386: a user namespace by clone", "i386", 120, CLONE_NEWUSER, 0, 0, 0, 0,
        errors="EPERM", control=None)
attempt("P11 i386: a user namespace by unshare", "i386", 310, CLONE_NEWUSER, errors="EPERM")
attempt("P11 i386: ptrace the runner", "i386", 26, 0x4206, RUNNER, 0, 0, errors="EPERM", control=None)
attempt("P11 i386: socketcall of a packet socket", "socketcall", 1, 17, 3, 0, errors="EPERM")
attempt("P11 i386: socketcall of netlink audit", "socketcall", 1, 16, 3, 9, errors="EPERM")
attempt("P11 i386: socketcall of a pair of another family", "socketcall", 8, 16, 3, 9,
        errors="EPERM", control=reaches_kernel)
attempt("P11 i386: keyctl", "i386", 288, 0, 0xfffffffd, 1, errors="EPERM")
attempt("P11 i386: bpf", "i386", 357, 5, "b:", 128, errors="EPERM", control=reaches_kernel)
attempt("P11 i386: io_uring_setup", "i386", 425, 4, "b:", errors="EPERM ENOSYS")
attempt("P11 i386: vm86", "i386", 166, 0, 0, errors="EPERM ENOSYS", control=None)
attempt("P11 i386: swapon", "i386", 87, f"b:{W}/attack", 0, errors="EPERM", control=None)
attempt("P11 x32: getpid", "x32", 39, errors="ENOSYS", control=None)
attempt("P11 x32: mount", "x32", 165, "s:none", "s:/tmp", "s:tmpfs", 0, 0, errors="ENOSYS",
        control=None)
attempt("P11 x32: ptrace the runner", "x32", 521, 0x4206, RUNNER, 0, 0, errors="ENOSYS", control=None)
attempt("P11 a number that means nothing", "sys", 1000, errors="ENOSYS", control=None)

# --- P12: terminals

attempt("P12 type into a terminal: TIOCSTI", "pty-ioctl", 0x5412, errors="EPERM")
attempt("P12 TIOCSTI with bits above 32", "pty-ioctl", 0x100005412, errors="EPERM")
attempt("P12 another line discipline, loaded for it: TIOCSETD", "pty-ioctl", 0x5423, errors="EPERM",
        control=reaches_kernel)
attempt("P12 TIOCLINUX", "pty-ioctl", 0x541c, errors="EPERM", control=reaches_kernel)


@test("P12 a terminal of the API is its own: no typing, no other's")
def test_p12_a_terminal_of_the_api_is_its_own_no_typing():
    error = on_gvisor("its /dev/tty can be opened, and no more", "EIO", "EPERM")
    said = terminal(sb, attack(sb), "tty-ioctl", "0x5412")
    check("refused " + error in said, said)
    out = terminal(sb, "/bin/sh", "-c", "tty; cd /dev/pts; echo *").split()
    check(set(out[1:]) <= {"ptmx", out[0].split("/")[-1]} or on_landlock("/dev/pts cannot be listed", out[1:] == ["*"], False), out)


# --- P13: cgroups

attempt("P13 mount cgroup version 1", "mount", "cgroup", "/tmp", "cgroup", "memory", errors="EPERM",
        control=None)
attempt("P13 mount cgroup version 2", "mount", "cgroup2", "/tmp", "cgroup2", errors="EPERM",
        private=True)
attempt("P13 a release agent", "write", "/sys/fs/cgroup/memory/release_agent", "/tmp/x",
        errors="ENOENT EACCES EROFS", control=None)


@test("P13 the cgroup's place on the host does not show")
def test_p13_the_cgroup_place_on_the_host_does_not_show():
    lines = sb.sh("cat /proc/self/cgroup")["stdout"].splitlines()
    some = on_gvisor("it has no control groups", False, True) and on_landlock("it cannot be read at all", False, True)
    shown = in_pod("where a node has the first version of control groups, runtimes give containers no namespace of them", "/kubepods/", None)
    check(bool(lines) == some and all(line.endswith(":/") or (shown and shown in line) for line in lines), lines)


# --- P17: the way to the gateway

@test("P17 no gateway for commands, not even beside URL tools")
def test_p17_no_gateway_for_commands_not_even_beside_url():
    policy = {"Network": {"Enabled": True}}
    created = d.post("/v1/sandbox/create", {"policy": policy}).json["sandbox_id"]
    r = d.post("/v1/sandbox/execute", {
        "sandbox_id": created, "policy": policy,
        "tool": {"name": "shell", "args": {"command": "ls -A /.mas/run; id -u"}}}).json
    own_ids = r"2\d{9}\n" if DOCKER else r"1\d{5}\n" if POD else on_landlock("the host's own ids", r"2\d{9}\n", "1000\n")
    check(re.fullmatch(own_ids, r["result"]["stdout"]), f"{r}")
    d.post("/v1/sandbox/destroy", {"sandbox_id": created})


@test("P17 no gateway where the network was not asked for")
def test_p17_no_gateway_where_the_network_was_not_asked():
    if LANDLOCK:  # there is no such place, and no socket to go there with
        refused(sb, "connect-path", "/.mas/gateway.sock", errors="EBADF")
        check(not os.path.exists("/.mas"), "there is one on this host")
        return
    refused(sb, "connect-path", "/.mas/gateway.sock", errors="ENOENT ECONNREFUSED EACCES")
    if POD:  # nor is there a place for one
        refused(sb, "list", "/.mas", errors="ENOENT")
        return
    refused(sb, "create", "/.mas/run/gateway.sock", errors="EACCES EROFS EPERM")
    equal(sb.sh("rm -f /.mas/gateway.sock /.mas/mas-tool-net; cd /.mas; echo *")["stdout"].split(),
          ["disk", "empty", "gateway.sock", "link", "mas-tool-net", "mas-toolrunner", "mas-vmm", "node-proxy.js", "run"])


@test("what is said of other runtimes is said of attempts that are made")
def test_what_is_said_of_other_runtimes_is_said():
    equal((set(gvisor.ANSWERS) | set(fenced.ANSWERS) | set(pods.ANSWERS)) - made, set())


@test("P5 after all this the runner is the same and well")
def test_p5_after_all_this_the_runner_is_the_same():
    equal(sb.sh("echo fine; exit 5")["exit_code"], 5)
    equal(d.get(sb.path).json["state"], "ready")


try:
    main()
finally:
    VICTIM.kill()
    VICTIM.wait()
    d.__exit__()
