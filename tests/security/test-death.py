#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is left when parts of the daemon die, and what each part may do while it lives."""
import random
import re
import threading

from attempt import *

PREFIX = f"mas-sec-{os.getpid()}"
CONFIG = f"cgroup_prefix: {PREFIX}\nblanks: 2\noci_blanks: 0\n"


def cgroups():
    found = []
    for top in ["/sys/fs/cgroup"] + ["/sys/fs/cgroup/" + n for n in os.listdir("/sys/fs/cgroup")]:
        if os.path.isdir(top):
            found += [os.path.join(top, n) for n in os.listdir(top) if n.startswith(PREFIX)]
    return found


def sandbox_cgroups():
    found = []
    for c in cgroups():
        try:
            found += [os.path.join(c, n) for n in os.listdir(c) if os.path.isdir(os.path.join(c, n))]
        except FileNotFoundError:  # removed since
            pass
    return found


def loops(d):
    out = subprocess.run(["losetup", "-a"], stdout=subprocess.PIPE).stdout.decode()
    return [line for line in out.splitlines() if d.dir in line or PREFIX in line]


def kernel_of(d, sb):
    """gVisor's process that is the kernel of this sandbox: the first one made is the first one found."""
    order = [b["id"] for b in sorted(d.get("/v1/sandboxes").json["sandboxes"], key=lambda b: b["created_at"])]
    return sorted(p for p in kernels(d) if "runsc-sandbox" in command_of(p))[order.index(sb.id)]


LIMITED = on_landlock("it has no disk of its own", {"memory_mb": 64}, {"memory_mb": 64, "disk_mb": 200})
MARK = f"{100000000 + os.getpid()}"  # other suites run at the same time, over other runtimes
RUNNERS = "mas-toolrunner " + ("--fd" if LANDLOCK else "--pid1")


def start(sb, *argv):
    a = sb.daemon.post(sb.path + "/exec", {"command": list(argv), "async": True})
    check(a.status in (200, 201, 202), a)


@test("P19 a deleted sandbox leaves no process, mount, cgroup, loop device or file")
def test_p19_a_deleted_sandbox_leaves_no_process_mount():
    with Daemon(config=CONFIG) as d:
        shared = f"/dev/shm/mas-{os.getpid()}"

        def look():
            return host_mounts(d), loops(d), len(sandbox_cgroups()), os.path.exists(shared)
        before = settled(look, 0.5)  # blanks are made
        for limits in ({}, LIMITED):
            with d.sandbox(limits=limits) as sb:
                sb.sh(f"echo x > {shared}; (setsid sleep {MARK} &) >/dev/null 2>&1 </dev/null")
                wait_for(lambda: running(sb, f"sleep {MARK}"), "control: it runs")
        wait_for(lambda: left(d, f"sleep {MARK}") == [], "no process is left")
        wait_for(lambda: look() == before, "all is as before")
    wait_for(lambda: cgroups() == [], "no cgroups after the daemon's end")
    wait_for(lambda: loops(d) == [], "no loop devices after the daemon's end")


@test("P19 kill -9 of the warden: every process of every sandbox is gone at once")
def test_p19_kill_9_of_the_warden_every_process():
    d = Daemon(config=CONFIG)
    mounts_before = host_mounts(d)
    d.start()
    try:
        made = []
        for limits in ({}, LIMITED, {"max_processes": 40}):
            sb = d.sandbox(limits=limits)
            made.append(sb)
            put_attack(sb)
            sb.sh("(setsid sh -c 'trap \"\" TERM HUP; sleep %s' &) >/dev/null 2>&1 </dev/null" % MARK)
            start(sb, attack(sb), "take-fds", "1", MARK)
        wait_for(lambda: all(len(running(s, MARK)) >= 2 for s in made), "control: they run")
        start(sb, attack(sb), "fork-bomb", "60")
        state = d.get("/v1/status").json
        runners = kernels(d) if GVISOR else [p for p in below(state["warden_pid"]) if RUNNERS in command_of(p)]
        bombs = [] if GVISOR else [p for p in below(state["warden_pid"]) if "attack fork-bomb" in command_of(p)]
        check(len(runners) >= 3, "control: runners run")
        runners += below(state["warden_pid"]) if GVISOR else []
        os.kill(state["warden_pid"], signal.SIGKILL)
        begin = time.time()
        wait_for(lambda: GVISOR or not (processes(MARK) or any(map(lives, bombs))), "commands are gone")
        wait_for(lambda: not any(map(lives, runners)), "everything is gone")
        print(f"# gone after {(time.time() - begin) * 1e3:.0f} ms")
        wait_for(lambda: not lives(state["pid"]), "the control plane goes with it")
        equal(host_mounts(d), mounts_before, "mounts of the host")
        d.process.wait(60)
        with Daemon(config=CONFIG) as after:
            equal(after.run("echo", "again")["stdout"], "again\n")
            wait_for(lambda: not [c for c in cgroups() if f"-{state['warden_pid']}-" in c], "the next start sweeps them")
            wait_for(lambda: not loops(d) + loops(after), "loop devices")
    finally:
        d.process.poll() is None and d.process.kill()
        d.log.close()
        shutil.rmtree(d.dir, ignore_errors=True)
    wait_for(lambda: cgroups() == [], "no cgroups at the end")


def below_warden(d):
    """What is a copy of the warden, or was: a fork keeps its parent's arguments."""
    return [p for p in processes(d.state) if lives(p)]


def keep_creating(d, spec, stop):
    while not stop.is_set():
        try:
            a = d.post("/v1/sandboxes", spec, timeout=5)
            if a.status == 201:
                d.delete("/v1/sandboxes/" + a.json["id"], timeout=5)
        except (OSError, http.client.HTTPException):
            time.sleep(0.001)


def is_refused(d):
    try:
        d.connect().close()
        return False
    except ConnectionRefusedError:
        return True


def kill_amid_creates(round_nr, shared):
    """One daemon that dies while helpers map owners, format and mount disks and remove boxes."""
    specs = [{"mounts": [{"source": shared, "target": f"/mnt/{i}"} for i in range(8)]}, {"limits": LIMITED}]
    if LANDLOCK:
        specs = [{}, {}]
    # A size of its own has to be formatted first.
    specs[1].setdefault("limits", {}).update({} if LANDLOCK else {"disk_mb": 70 + round_nr})
    d = Daemon(config=CONFIG + f"mounts_allow: [{shared}]\n").start()
    stop, threads = threading.Event(), []
    try:
        warden = d.get("/v1/status").json["warden_pid"]
        threads = [threading.Thread(target=keep_creating, args=(d, s, stop)) for s in specs * 2]
        for t in threads:
            t.start()
        time.sleep(random.random() * 0.25)
        os.kill(warden, signal.SIGKILL)
        stop.set()
        d.process.wait(PATIENCE_S)
        wait_for(lambda: is_refused(d), lambda: f"nothing listens: {[command_of(p) for p in below_warden(d)]}", 20)
        wait_for(lambda: below_warden(d) == [], lambda: f"no copy of the warden is left: {below_warden(d)}", 20)
    finally:
        stop.set()
        for t in threads:
            t.join()
        for p in below_warden(d):  # of a test that failed
            os.kill(p, signal.SIGKILL)
        d.__exit__()


@test("P19 kill -9 of the warden at any moment of creates: nothing listens, no copy of it is left")
def test_p19_kill_9_of_the_warden_at_any_moment():
    shared = tempfile.mkdtemp(prefix="mas-shared-")
    os.chown(shared, 4321, 4321)  # the owner is mapped, root's would not be
    seed = int(os.environ.get("MAS_DEATH_SEED", time.time_ns() % 1000000))
    random.seed(seed)
    print(f"# MAS_DEATH_SEED={seed}")
    try:
        for i in range(int(os.environ.get("MAS_DEATHS", "20"))):
            kill_amid_creates(i, shared)
    finally:
        shutil.rmtree(shared)


if RUNTIME == "local":
    @test("P19 no process but the warden has the audit's key in its memory")
    def test_p19_no_process_but_the_warden_has_the_audit_key():
        with Daemon(config=CONFIG) as d, d.sandbox():
            with open(os.path.join(d.state, "warden/audit.key")) as f:
                pem = "".join(line for line in f if "-" not in line)
            key = base64.b64decode(pem)[-32:]
            warden = d.get("/v1/status").json["warden_pid"]
            check(memory_has(warden, key), "control: the warden has it")
            equal([command_of(p) for p in below(warden) if memory_has(p, key)], [], "others")


@test("P19 kill -9 of the control plane: the sandboxes' processes gain nothing")
def test_p19_kill_9_of_the_control_plane_the_sandboxes():
    with Daemon(config=CONFIG) as d:
        sb = d.sandbox()
        start(sb, "sleep", MARK)
        wait_for(lambda: running(sb, f"sleep {MARK}"), "it runs")
        pid = kernel_of(d, sb) if GVISOR else processes(f"sleep {MARK}")[0]
        keys = ("Uid", "Gid", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp",
                "Seccomp_filters", "NSpid")
        before = {k: status_of(pid)[k] for k in keys}
        links = {n: os.readlink(f"/proc/{pid}/ns/{n}") for n in os.listdir(f"/proc/{pid}/ns")}
        fds = sorted(os.listdir(f"/proc/{pid}/fd"))
        old = d.get("/v1/status").json["pid"]
        os.kill(old, signal.SIGKILL)

        def new_pid():
            try:
                return d.get("/v1/status").json["pid"]
            except (OSError, http.client.HTTPException):
                return old
        wait_for(lambda: new_pid() != old, "the next control plane")
        if lives(pid):
            equal({k: status_of(pid)[k] for k in keys}, before, "rights")
            equal({n: os.readlink(f"/proc/{pid}/ns/{n}") for n in links}, links, "namespaces")
            if not on_gvisor("a kernel opens and closes what its commands do", True, False):
                equal(sorted(os.listdir(f"/proc/{pid}/fd")), fds, "descriptors")
        else:
            print("# the command ended with its control plane")
        equal(d.run("echo", "again")["stdout"], "again\n", "the next control plane works")


@test("P19 kill -9 of a runner: its sandbox is over, the others are not")
def test_p19_kill_9_of_a_runner_its_sandbox():
    with Daemon(config=CONFIG) as d:
        a, b = d.sandbox(), d.sandbox()
        start(a, "sleep", MARK)
        wait_for(lambda: running(a, f"sleep {MARK}"), "it runs")
        if on_gvisor("what can be killed from the host is its kernel", True, False):
            os.kill(kernel_of(d, a), signal.SIGKILL)
            wait_for(lambda: len(kernels(d)) == 2, "its kernel's end")
        else:
            pid = processes(f"sleep {MARK}")[0]
            os.kill(parent_of(pid), signal.SIGKILL)
            wait_for(lambda: not processes(f"sleep {MARK}"), "its command ends")
        answer = d.post(a.path + "/exec", {"command": ["true"]})
        check(answer.status in (404, 409, 410, 502), answer)
        equal(b.exec("/bin/echo", "here")["stdout"], "here\n")


# --- P22: the daemon's own parts

def zygote_of(warden):
    """Of what has its name only the zygote itself is in the host's pid namespace."""
    for p in processes("mas-toolrunner --zygote"):
        if parent_of(p) == warden and len(status_of(p).get("NSpid", "").split()) == 1 and lives(p):
            return p
    return None


@test("P19 a daemon that starts sweeps nothing of one that lives in another pid namespace")
def test_p19_a_daemon_that_starts_sweeps_nothing():
    elsewhere = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", SANDBOXD]
    with Daemon(config=CONFIG, command=elsewhere) as far, far.sandbox() as sb:
        with Daemon(config=CONFIG) as near:
            equal(near.run("echo", "near")["stdout"], "near\n")
        equal(sb.sh("echo lives")["stdout"], "lives\n", "a sandbox of the other")
        check(sandbox_cgroups(), "its cgroups are there")
        os.kill(below(far.process.pid)[0], signal.SIGTERM)  # who made the namespace only waits
        far.process.wait(PATIENCE_S)
        sb.delete = lambda: None
    wait_for(lambda: cgroups() == [], "no cgroups at the end")


@test("P19 kill -9 of the zygote: no sandbox ends, and new ones are made")
def test_p19_kill_9_of_the_zygote_no_sandbox_ends_and_new():
    with Daemon(config=CONFIG) as d, d.sandbox() as sb:
        warden = d.get("/v1/status").json["warden_pid"]
        zygote = zygote_of(warden)
        check(zygote, "control: there is one")
        os.kill(zygote, signal.SIGKILL)
        wait_for(lambda: zygote_of(warden) not in (None, zygote), "another one")
        for _ in range(4):  # more than there are blanks
            equal(d.run("echo", "made")["stdout"], "made\n")
        equal(sb.sh("echo lives")["stdout"], "lives\n")


def secrets_of(pid):
    """The random bytes of a program's start, of which its C library makes the stack protector's mark."""
    with open(f"/proc/{pid}/auxv", "rb") as f:
        auxv = f.read()
    pairs = [struct.unpack_from("=QQ", auxv, i) for i in range(0, len(auxv) - 15, 16)]
    with open(f"/proc/{pid}/mem", "rb") as f:
        f.seek(dict(pairs)[25])  # AT_RANDOM
        return f.read(16)


if RUNTIME == "local":
    @test("P5 no two runners have the same secrets, though none of them was executed")
    def test_p5_no_two_runners_have_the_same_secrets_though():
        with Daemon(config=CONFIG) as d, d.sandbox(), d.sandbox():
            warden = d.get("/v1/status").json["warden_pid"]
            runners = [p for p in below(warden) if "mas-toolrunner --pid1" in command_of(p)]
            found = [secrets_of(p) for p in runners + [zygote_of(warden)]]
            check(len(found) >= 3, "control: two runners and the zygote")
            equal(len(set(found)), len(found), "different ones")


@test("P22 the control plane has no rights: user, capabilities, root, descriptors")
def test_p22_the_control_plane_has_no_rights_user():
    with Daemon(config=CONFIG) as d:
        pid = d.get("/v1/status").json["pid"]
        s = status_of(pid)
        check(set(s["Uid"].split()) & {"0"} == set(), s["Uid"])
        check(set(s["Gid"].split()) & {"0"} == set(), s["Gid"])
        equal(s["Groups"].split(), [], "groups")
        for key in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"):
            equal(int(s[key], 16), 0, key)
        equal(s["NoNewPrivs"], "1")
        root = f"/proc/{pid}/root"
        for path in ("/root", "/home", "/usr/bin", "/usr/lib", "/bin", "/boot", "/sys",
                     "/proc", "/dev/vda", "/etc/shadow"):
            check(not os.path.exists(root + path), f"{path} is in the control plane's root")
        for target in descriptors_of(pid).values():
            check(not re.match(r"/(sys|proc/|dev/(?!null|urandom|random))", target), target)


@test("P22 the control plane cannot touch warden, gateway or runners")
def test_p22_the_control_plane_cannot_touch_warden():
    with Daemon(config=CONFIG) as d, d.sandbox() as sb:
        start(sb, "sleep", MARK)
        state = d.get("/v1/status").json
        user = int(status_of(state["pid"])["Uid"].split()[0])
        wait_for(lambda: running(sb, f"sleep {MARK}"), "it runs")
        tool = kernel_of(d, sb) if GVISOR else processes(f"sleep {MARK}")[0]
        for pid in (state["warden_pid"], tool):
            for attack in (("kill", pid, 9), ("ptrace", pid), ("read", f"/proc/{pid}/environ"),
                           ("list", f"/proc/{pid}/fd"), ("read", f"/proc/{pid}/root/etc/passwd")):
                code, out = outside(*attack, user=user)
                check(code == 1, f"as the control plane's user: {attack}: {out}")
        code, out = outside("kill", state["pid"], 0, user=user)
        equal(code, 0, "control: its own process can be signalled")


@test("P22 the gateway has no rights either, and another user")
def test_p22_the_gateway_has_no_rights_either_and_another():
    with Daemon(config=CONFIG) as d:
        state = d.get("/v1/status").json
        found = named("mas-gateway", children_of(state["warden_pid"]))
        equal(len(found), 1, "one gateway")
        gateway = status_of(found[0])
        taken = {"0", status_of(state["pid"])["Uid"].split()[0]}
        equal(set(gateway["Uid"].split()) & taken, set(), "users of others")
        for key in ("CapEff", "CapPrm"):
            equal(int(gateway[key], 16), 0, key)
        equal(gateway["NoNewPrivs"], "1")


main()
