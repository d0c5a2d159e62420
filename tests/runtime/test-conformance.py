#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What every runtime must do alike: one suite over each that works on this host.

    test-conformance.py [--image|--user] [RUNTIME] [NAME...]

With --image, sandboxes have an image in place of the host's programs; with --user, the daemon is an ordinary user's
where the kernel makes no namespaces. Without RUNTIME, all that the daemon has and can start, but for those that `make check-containers`
runs. A wall that a runtime says it enforces is
tried; one that it does not must make a request that asks for it fail by name."""
import hashlib
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

MIB = 1024 * 1024
if "--image" in sys.argv:
    sys.argv.remove("--image")
    os.environ["MAS_IMAGE"] = "1"
if "--user" in sys.argv:
    import masd
    from unprivileged import UserDaemon
    sys.argv.remove("--user")
    masd.Daemon = Daemon = UserDaemon
WITH_IMAGES = ("local", "crun", "runc", "gvisor", "kata", "podman", "docker")
CONTAINERS = ("crun", "runc", "gvisor", "kata", "podman", "docker", "podman-gvisor", "docker-gvisor",
              "microvm")
_suite = []


def each(name):
    def add(fn):
        _suite.append((name, fn))
        return fn
    return add


def daemon_of(runtime):
    return shared_daemon("--kill-grace", "1s", "--cgroup-prefix", f"mas-conf-{os.getpid()}", runtime=runtime)


class Under:
    """A runtime under test."""

    def __init__(self, name):
        self.name = name

    @property
    def d(self):
        return daemon_of(self.name)

    @property
    def report(self):
        return next(r for r in self.d.get("/v1/status").json["runtimes"] if r["name"] == self.name)

    @property
    def enforces(self):
        return self.report["enforces"]

    @property
    def own_kernel(self):
        """Its kernel is a process of the host's: what runs on it is no process that the host knows."""
        return self.report["isolation"] in ("user-space-kernel", "virtual-machine")

    @property
    def machine(self):
        """That kernel is Linux, on an emulated machine."""
        return self.report["isolation"] == "virtual-machine"

    @property
    def engine(self):
        """Its containers are children of an engine's processes, not of the warden's."""
        return self.name.split("-")[0] in ("podman", "docker")

    def pids(self, sb, marker):
        """Processes of a sandbox whose command line holds marker, as whoever runs them counts them."""
        if not self.own_kernel:
            return processes(marker)
        pattern = f"[{marker[0]}]{marker[1:]}"
        return sb.sh(f"for f in /proc/[0-9]*/cmdline; do grep -qa '{pattern}' $f && echo $f; done 2>/dev/null")["stdout"].split()

    def host_pids(self, marker, daemon=None, program="runsc-sandbox"):
        """The same on the host: where the kernel is a process, that one."""
        program = "qemu-system" if self.machine else program
        if not self.own_kernel:
            return processes(marker)
        if self.engine:  # no descendants of anybody's here; they name the engine's directory
            return sorted(set(processes(program)) & set(processes(os.environ["ENGINE_DIR"] + "/")))
        warden = (daemon or self.d).get("/v1/status").json["warden_pid"]
        return [p for p in processes(program) if warden in ancestors_of(p)]

    def sandbox(self, **spec):
        return self.d.sandbox(runtime=self.name, **spec)


def start(sb, *argv, **spec):
    a = sb.daemon.post(sb.path + "/exec", dict({"command": list(argv), "async": True}, **spec))
    equal(a.status, 200, a)
    return sb.path + "/execs/" + a.json["exec_id"]


def ended(sb, path, seconds=PATIENCE_S):
    wait_for(lambda: sb.daemon.get(path).json["status"] not in ("running", "canceling"), "the command ends", seconds)
    return sb.daemon.get(path).json


def output(sb, path):
    lines = sb.daemon.get(path + "/logs").body.splitlines()
    return "".join(e["data"] for e in map(json.loads, lines) if e["type"] == "output")


def gone(pids):
    return not any(map(stat_fields, pids))


# --- commands

@each("a sandbox is ready when its create answers, and says what holds")
def test_a_sandbox_is_ready_when_its_create_answers(r):
    with r.sandbox() as sb:
        equal((sb.created["state"], sb.created["runtime"]), ("ready", r.name))
        e = sb.created["effective"]
        equal(e["runtime"], r.name)
        for wall in ("memory", "cpu", "processes", "disk", "io", "network", "filesystem", "syscalls", "users", "landlock"):
            check(wall in e, f"{wall} is not reported")
            check(e[wall] is None or e[wall]["by"], f"{wall} names no mechanism")
        for wall, by in r.enforces.items():
            if wall in e and by is None:
                equal(e[wall], None, f"{wall} is reported and cannot be enforced")


@each("exit codes, both streams, signals as 128+n")
def test_exit_codes_both_streams_signals_as_128_n(r):
    with r.sandbox() as sb:
        v = sb.sh("echo out; echo err >&2; exit 7")
        equal((v["stdout"], v["stderr"], v["exit_code"], v["status"]), ("out\n", "err\n", 7, "completed"))
        for n in (2, 9, 11, 15):
            v = sb.sh(f"kill -{n} $$")
            equal((v["exit_code"], v["signal"], v["status"]), (128 + n, n, "failed"))
        equal(sb.exec("/no/such")["exit_code"], 127)
        equal(sb.exec("/etc")["exit_code"], 126)
        equal(sb.sh("exit 255")["exit_code"], 255)


@each("every byte of 8 MiB of output, in order, and exit after it")
def test_every_byte_of_8_mib_of_output_in_order_and_exit(r):
    with r.sandbox() as sb:
        path = start(sb, "python3", "-c", "import sys\nfor i in range(1 << 20): sys.stdout.write('%07d\\n' % i)")
        ended(sb, path, 300 if r.machine else 30)  # an emulated processor is slow
        events = [json.loads(x) for x in sb.daemon.get(path + "/logs").body.splitlines()]
        text = "".join(e["data"] for e in events if e["type"] == "output")
        equal(hashlib.md5(text.encode()).hexdigest(), hashlib.md5("".join("%07d\n" % i for i in range(1 << 20)).encode()).hexdigest())
        equal((events[0]["type"], events[-1]["type"]), ("start", "exit"))
        equal([e["seq"] for e in events], list(range(1, len(events) + 1)))


@each("stdin: given, empty, written piece by piece, unread")
def test_stdin_given_empty_written_piece_by_piece_unread(r):
    with r.sandbox() as sb:
        equal(sb.exec("cat", stdin="given\n")["stdout"], "given\n")
        equal(sb.exec("cat")["stdout"], "")
        data = os.urandom(3 * MIB)
        path = start(sb, "md5sum", open_stdin=True)
        for i in range(3):
            equal(sb.daemon.post(path + "/stdin", data[i * MIB:(i + 1) * MIB]).status, 200)
        equal(sb.daemon.post(path + "/stdin?close=1", b"").status, 200)
        ended(sb, path)
        equal(output(sb, path).split()[0], hashlib.md5(data).hexdigest())
        equal(sb.exec("true", stdin="x" * 500000)["exit_code"], 0)


@each("environment and working directory")
def test_environment_and_working_directory(r):
    with r.sandbox(env={"A": "1", "B": "2"}) as sb:
        v = sb.sh("echo $A $B $C; cd /; pwd", env={"B": "3", "C": "4"})
        equal(v["stdout"], "1 3 4\n/\n")
        equal(sb.sh("pwd", cwd="/usr")["stdout"], "/usr\n")
        equal(sb.sh("pwd", cwd="/no/such")["status"], "failed")
        leaked = sb.sh("env")["stdout"]
        check("BUILD=" not in leaked and "SANDBOX_" not in leaked, leaked)


@each("a timeout and a cancel end what ignores SIGTERM, and its children")
def test_a_timeout_and_a_cancel_end_what_ignores_sigterm(r):
    with r.sandbox() as sb:
        mark = f"300.{os.getpid()}1"
        v = sb.sh(f"trap '' TERM; sleep {mark} & while :; do sleep 0.05; done", timeout_ms=300)
        equal(v["status"], "timed_out")
        path = start(sb, "sh", "-c", f"trap '' TERM; sleep {mark}2 & echo on; while :; do sleep 0.05; done")
        wait_for(lambda: "on" in output(sb, path), "it runs")
        equal(sb.daemon.post(path + "/cancel").status, 200)
        equal(ended(sb, path)["status"], "canceled")
        wait_for(lambda: not r.pids(sb, mark), "children are gone")


@each("a background child does not hold back the exit, and lives on")
def test_a_background_child_does_not_hold_back_the_exit(r):
    with r.sandbox() as sb:
        started = time.time()
        v = sb.sh("sleep 300 & echo $!")
        check(v["exit_code"] == 0 and time.time() - started < PATIENCE_S, v)
        child = v["stdout"].strip()
        if r.enforces["uid_separation"] or r.report["isolation"] == "none":
            equal(sb.sh(f"kill -0 {child} && echo alive")["stdout"], "alive\n")
        else:  # one user for all: what keeps a command from the runner keeps it from other calls' commands, too
            check("not permitted" in sb.sh(f"kill -0 {child}")["stderr"], child)


@each("a terminal: size, echo, interrupt")
def test_a_terminal_size_echo_interrupt(r):
    with r.sandbox() as sb:
        path = start(sb, "sh", "-c", "stty size; trap 'echo INT; exit 3' INT; read x; echo got $x; while :; do sleep 0.05; done", pty=True, rows=33, cols=77)
        ws = sb.daemon.ws(path + "/attach")
        frames, seen = ws.messages(), ""
        def until(word):
            nonlocal seen
            while word not in seen:
                m = next(frames)
                if isinstance(m, bytes):
                    seen += m[1:].decode()
        until("33 77")
        ws.send(b"word\n")
        until("got word")
        if r.own_kernel and not r.machine:  # gVisor's terminals make no signals of characters (20221219)
            equal(sb.daemon.post(path + "/signal", {"signal": "INT"}).status, 200)
        else:
            ws.send(b"\x03")
        until("INT")
        equal(json.loads([m for m in frames if isinstance(m, str)][-1])["exit_code"], 3)
        path = start(sb, "sh", "-c", "echo all of it", pty=True)
        wait_for(lambda: sb.daemon.get(path).json["status"] == "completed", "its end")
        last = json.loads(sb.daemon.get(path + "/logs").body.splitlines()[-1])
        equal((last["type"], last.get("background_output_dropped")), ("exit", None), "an ended terminal has no more output")


@each("twenty commands at once")
def test_twenty_commands_at_once(r):
    with r.sandbox() as sb:
        out = [None] * 20
        def run(i):
            out[i] = sb.sh(f"sleep 0.1; echo {i}; exit {i}")
        threads = [threading.Thread(target=run, args=(i,)) for i in range(20)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        equal([(v["stdout"], v["exit_code"]) for v in out], [(f"{i}\n", i) for i in range(20)])


@each("threads, and programs that start programs")
def test_threads_and_programs_that_start_programs(r):
    with r.sandbox() as sb:
        v = sb.exec("python3", "-c", "import subprocess, threading\nt = threading.Thread(target=print, args=('thread',))\n"
                    "t.start(); t.join(); print(subprocess.run(['true']).returncode)")
        equal((v["stdout"], v["exit_code"]), ("thread\n0\n", 0), v)


# --- files and tools

@each("files: write, read, list, move, remove, tar")
def test_files_write_read_list_move_remove_tar(r):
    with r.sandbox() as sb:
        d, f = sb.daemon, sb.path + "/files"
        base = sb.sh("mktemp -d")["stdout"].strip()
        equal(d.put(f"{f}/content?path={base}/a/b", bytes(range(256)) * 5000).status, 200)
        equal(d.get(f"{f}/content?path={base}/a/b").body, bytes(range(256)) * 5000)
        equal(d.get(f"{f}/stat?path={base}/a/b").json["size"], 1280000)
        equal([e["name"] for e in d.get(f"{f}?path={base}").json["entries"]], ["a"])
        equal(d.post(f + "/move", {"from": base + "/a/b", "to": base + "/c"}).status, 200)
        tar = d.get(f"{f}/tar?path={base}").body
        equal(d.put(f"{f}/tar?path={base}/copy", tar).status, 200)
        equal(sb.sh(f"cmp {base}/c $(find {base}/copy -name c -type f) && echo same")["stdout"], "same\n")
        equal(d.delete(f"{f}?path={base}&recursive=1").status, 200)
        equal(d.get(f"{f}?path={base}").status, 404)


@each("tools of the MAS API run in it")
def test_tools_of_the_mas_api_run(r):
    def call(sid, tool, args, **more):
        return r.d.post("/v1/sandbox/execute", dict({"sandbox_id": sid, "tool": {"name": tool, "args": args}}, **more)).json
    with r.sandbox() as sb:
        equal(call(sb.id, "calculator", {"expression": "6*7"})["result"]["result"], 42)
        equal(call(sb.id, "shell", {"command": "echo hi"})["result"]["stdout"], "hi\n")
        equal(call(sb.id, "code", {"language": "python", "code": "print(1)"})["result"]["stdout"], "1\n")
        base = sb.sh("mktemp -d")["stdout"].strip()
        policy = {"AllowedPaths": [base]}
        v = call(sb.id, "file_system", {"action": "write", "path": base + "/f", "content": "x"}, policy=policy)
        if r.own_kernel and not r.machine:  # has no Landlock: what would need it is refused, not run without
            check(v["status"] == "error" and "narrow" in v["error"]["message"], v)
            return
        equal(v["status"], "ok", v)
        equal(call(sb.id, "file_system", {"action": "read", "path": base + "/f"}, policy=policy)["result"]["content"], "x")
        equal(call(sb.id, "file_system", {"action": "read", "path": "/etc/passwd"}, policy=policy)["error"]["message"], "path not allowed")
        v = call(sb.id, "shell", {"command": "echo y > /tmp/outside; cat /tmp/outside"}, policy=policy)
        equal(v["status"], "error", "AllowedPaths did not hold for a command")


# --- the end of it

@each("deleting ends everything in it, whatever it does")
def test_deleting_ends_everything(r):
    mark = f"400.{os.getpid()}"
    sb = r.sandbox()
    start(sb, "sh", "-c", f"trap '' TERM INT HUP; (setsid sleep {mark} &) ; while :; do sleep 0.05; done")
    wait_for(lambda: r.pids(sb, mark), "it runs")
    pids = r.host_pids(mark)
    started = time.time()
    equal(sb.delete().status, 200)
    check(time.time() - started < PATIENCE_S, "slow to go")
    wait_for(lambda: gone(pids), "everything is gone")
    equal(r.d.get(sb.path).status, 404)


@each("one that dies by itself is a crash that says so, and can be deleted")
def test_one_that_dies_by_itself_is_a_crash_that_says(r):
    mark = f"500.{os.getpid()}"
    sb = r.sandbox()
    path = start(sb, "sleep", mark)
    wait_for(lambda: r.pids(sb, mark), "it runs")
    warden, pids = r.d.get("/v1/status").json["warden_pid"], r.host_pids(mark)
    chain = pids[:1] + ancestors_of(pids[0])
    if r.engine:  # the runner's parent is the engine's, and so is a kernel's
        os.kill(chain[0 if r.own_kernel else 1], signal.SIGKILL)
    else:
        check(warden in chain[1:], "the warden is no ancestor")
        os.kill(chain[chain.index(warden) - 1], signal.SIGKILL)
    wait_for(lambda: r.d.get(sb.path).json.get("state") == "crashed", "it is seen")
    s = ended(sb, path)
    equal(s["status"], "failed")
    check("sandbox_crash" in s["error"], s)
    a = r.d.post(sb.path + "/exec", {"command": ["true"]})
    equal((a.status, a.json["error"]["code"]), (502, "sandbox_crash"))
    wait_for(lambda: gone(pids), "its processes are gone")
    equal(sb.delete().status, 200)
    with r.sandbox() as other:
        equal(other.sh("echo fine")["stdout"], "fine\n")


@each("one sandbox's files are not another's")
def test_one_sandbox_files_are_not_anothers(r):
    if not r.enforces["filesystem"]:
        raise Skip("not enforced by this runtime")
    with r.sandbox() as a, r.sandbox() as b:
        a.sh("echo secret > marker-of-a")
        equal(b.sh("cat marker-of-a 2>/dev/null || echo none")["stdout"], "none\n")


@each("one-shot runs leave nothing")
def test_one_shot_runs_leave_nothing(r):
    before = r.d.get("/v1/status").json["counts"]["sandboxes"]
    for _ in range(5):
        v = r.d.run("sh", "-c", "echo x > f; cat f", runtime=r.name)
        equal(v["stdout"], "x\n")
    wait_for(lambda: r.d.get("/v1/status").json["counts"]["sandboxes"] == before, "all gone")


@each("stats")
def test_stats(r):
    with r.sandbox() as sb:
        a = r.d.get(sb.path + "/stats")
        check(a.status in (200, 409), a)
        if a.status == 200:
            check(all(isinstance(v, int) for v in a.json.values()), a)


# --- walls

@each("a limit is enforced, or the create fails by its name, or weaker was accepted")
def test_a_limit_is_enforced_or_the_create_fails(r):
    for wall, limits in (("memory", {"memory_mb": 64}), ("cpu", {"cpu_cores": 0.5}), ("processes", {"max_processes": 20}),
                         ("disk", {"disk_mb": 16}), ("io", {"io_mb_per_s": 50})):
        a = r.d.post("/v1/sandboxes", {"runtime": r.name, "limits": limits})
        if a.status == 201:
            check(a.json["effective"][wall], f"{wall} was taken and is not enforced")
            r.d.delete("/v1/sandboxes/" + a.json["id"])
            continue
        equal((a.status, a.json["error"]["code"]), (422, "unenforceable"), a)
        check(wall in a.json["error"]["message"], a)
        with r.sandbox(limits=limits, accept_weaker=[wall]) as sb:
            equal(sb.sh("echo weaker")["stdout"], "weaker\n")


@each("memory, where enforced, is")
def test_memory_where_enforced(r):
    if not r.enforces["memory"]:
        raise Skip("not enforced by this runtime")
    with r.sandbox(limits={"memory_mb": 192 if r.machine else 64}) as sb:
        v = sb.exec("python3", "-c", "x = bytearray(300 << 20)")
        if r.machine:  # its own kernel refuses the memory, or ends the tool, which nobody outside hears of
            check(v["exit_code"] == 137 or "MemoryError" in v["stderr"], v)
            equal(sb.sh("echo alive")["stdout"], "alive\n")
            return
        if r.own_kernel:  # whose memory is its tools': the host ends it, and all of them
            equal(v["status"], "failed", v)
            check("sandbox_crash" in v["error"], v)
            return
        equal((v["status"], v["exit_code"]), ("oom_killed", 137))
        equal(sb.sh("echo alive")["stdout"], "alive\n")


@each("when memory is short, commands go before their runner")
def test_commands_go_before_their_runner(r):
    if r.own_kernel and r.name != "microvm":
        raise Skip("under a kernel of its own that is not ours there is no such order")
    with r.sandbox() as sb:
        if r.own_kernel:
            v = sb.sh("read own </proc/self/oom_score_adj; sleep 0.5; read its </proc/$PPID/oom_score_adj; echo $own $its")
            own, its = map(int, v["stdout"].split())
            check(own > its, v)
            return
        start(sb, "sleep", f"300.{os.getpid()}")
        wait_for(lambda: processes(f"sleep 300.{os.getpid()}"), "it runs")
        pid = processes(f"sleep 300.{os.getpid()}")[0]
        score = lambda p: int(proc_text(p, "oom_score_adj"))
        wait_for(lambda: score(parent_of(pid)) < score(pid), "the runner's is less")


@each("processes and disk, where enforced, are")
def test_processes_and_disk_where_enforced(r):
    e = r.enforces
    if not e["processes"] or not e["disk"]:
        raise Skip("not enforced by this runtime")
    with r.sandbox(limits={"max_processes": 20, "disk_mb": 16}) as sb:
        v = sb.sh("for i in $(seq 40); do sleep 5 & done")
        check("fork" in v["stderr"].lower() or v["exit_code"] != 0, v)
    with r.sandbox(limits={"disk_mb": 16}) as sb:
        check("No space" in sb.sh("head -c 60000000 /dev/zero > /workspace/x")["stderr"], "no wall on the disk")


@each("filesystem, network and users, where enforced, are")
def test_filesystem_network_and_users_where_enforced(r):
    e = r.enforces
    if not (e["filesystem"] and e["network"] and e["users"]):
        raise Skip("not enforced by this runtime")
    with tempfile.NamedTemporaryFile(prefix="mas-conf-", dir="/var/tmp") as secret, r.sandbox() as sb:
        os.chmod(secret.name, 0o644)
        check(sb.sh(f"cat {secret.name}")["exit_code"] != 0, "a host file is seen")
        if e["network"] == "seccomp":  # no network to be had, not even loopback
            check("PermissionError" in sb.exec("python3", "-c", "import socket; socket.socket()")["stderr"], "a socket")
        else:
            equal(sb.exec("python3", "-c", "import socket; print([n for _, n in socket.if_nameindex()])")["stdout"], "['lo']\n")
        check(sb.sh("cat /etc/shadow")["exit_code"] != 0, "the host's passwords")
        path = start(sb, "sleep", f"600.{os.getpid()}")
        mark = f"600.{os.getpid()}"
        wait_for(lambda: r.pids(sb, mark), "it runs")
        # gVisor's kernel is nobody in an empty root; its files are served by another process, which with an
        # engine that maps no ids is the host's root, as that engine's containers are: then it is the kernel that counts.
        served = not r.engine
        pids = r.host_pids(mark, program="runsc-gofer" if served else "runsc-sandbox")
        uid = os.stat(f"/proc/{pids[0]}").st_uid
        if r.own_kernel and not served:
            equal(uid, 65534, "the host uid of the kernel")
        else:
            check(uid >= 100000 or not e["uid_separation"], f"the tool has host uid {uid}")


@each("nothing is left when the daemon stops")
def test_nothing_is_left_when_the_daemon_stops(r):
    mark = f"700.{os.getpid()}"
    d = Daemon("--cgroup-prefix", f"mas-left-{os.getpid()}", runtime=r.name).start()
    mounts = host_mounts(d)
    sb = d.sandbox(runtime=r.name)
    start(sb, "sleep", mark)
    d.run("true", runtime=r.name)
    wait_for(lambda: r.pids(sb, mark), "it runs")
    pids = r.host_pids(mark, d)
    equal(d.stop(), 0)
    wait_for(lambda: gone(pids), "processes gone")
    left = f"find /sys/fs/cgroup -type d -name 'mas-left-{os.getpid()}*'"
    wait_for(lambda: os.popen(left).read() == "", "cgroups are gone")
    wait_for(lambda: host_mounts(d) == mounts, "mounts as before")
    loops = os.popen("losetup -a").read()
    check(d.dir not in loops, loops)
    shutil.rmtree(d.dir)


def available():
    d = shared_daemon(runtime="process")
    return [x["name"] for x in d.get("/v1/status").json["runtimes"] if x["available"]]


def register():
    names = available()
    if sys.argv[1:] and sys.argv[1] in CONTAINERS and sys.argv[1] not in names:
        sys.exit(f"runtime {sys.argv[1]} is not available here")
    if sys.argv[1:] and sys.argv[1] in names:
        names = [sys.argv.pop(1)]
    else:
        names = [n for n in names if n not in CONTAINERS]
    if os.environ.get("MAS_IMAGE"):
        names = [n for n in names if n in WITH_IMAGES]
    for runtime in names:
        for name, fn in _suite:
            test(f"{runtime}: {name}")(lambda fn=fn, runtime=runtime: fn(Under(runtime)))


if __name__ == "__main__":  # tests/kube runs the suite over pods
    register()
    main()
