#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is the OCI runtimes' own: names, isolation by level, bundles that leave nothing behind.

MAS_RUNTIME is the one under test: crun, runc or gvisor."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

RUNTIME = os.environ.get("MAS_RUNTIME", "crun")
PROGRAM = {"gvisor": "runsc"}.get(RUNTIME, RUNTIME)
PREFIX = f"mas-oci-{os.getpid()}"


def daemon():
    return shared_daemon("--kill-grace", "1s", "--cgroup-prefix", PREFIX, runtime="local")


def groups(prefix):
    return os.popen(f"find /sys/fs/cgroup -type d -name '{prefix}-*' -o -path '*/{prefix}-*/s*' -type d").read().split()


def programs(warden):
    """Processes of the host that descend from the warden, and their programs; not the one that it clones from."""
    lines = {pid: command_line(pid).split(b"\0") for pid in below(warden)}
    return {pid: os.path.basename(words[0]).decode(errors="replace") for pid, words in lines.items()
            if words[0] and b"--zygote" not in words}


@test("by its own name, by oci with oci_runtime, and by the operator's choice")
def test_by_its_own_name_by_oci_with_oci_runtime():
    d = daemon()
    for spec in ({"runtime": RUNTIME}, {"runtime": "oci", "oci_runtime": PROGRAM}):
        with d.sandbox(**spec) as sb:
            equal((sb.created["runtime"], sb.created["effective"]["runtime"]), (RUNTIME, RUNTIME))
            equal(sb.sh("echo in")["stdout"], "in\n")
    with Daemon("--oci-runtime", PROGRAM, runtime="oci") as other:
        equal(other.get("/v1/status").json["default_runtime"], RUNTIME)
        equal(other.run("echo", "in")["stdout"], "in\n")


@test("what is wrong is refused by name")
def test_what_is_wrong_is_refused_by_name():
    d = daemon()
    for spec, words in (({"runtime": "oci", "oci_runtime": "nothing"}, "nothing"), ({"runtime": "local", "oci_runtime": "crun"}, "oci_runtime"),
                        ({"min_isolation": "much"}, "much"), ({"runtime": "oci", "oci_runtime": 7}, "oci_runtime")):
        a = d.post("/v1/sandboxes", spec)
        equal(a.status, 400, a)
        check(words in a.json["error"]["message"], a)
    if not any(r["available"] for r in d.get("/v1/status").json["runtimes"] if r["name"] == "kata"):
        a = d.post("/v1/sandboxes", {"runtime": "kata"})
        equal((a.status, a.json["error"]["code"]), (400, "unsupported"), a)
        check("kata is not installed" in a.json["error"]["message"], a)


@test("by how much isolation it wants")
def test_by_how_much_isolation_it_wants():
    d = daemon()
    levels = {r["name"]: r["isolation"] for r in d.get("/v1/status").json["runtimes"]}
    equal((levels["local"], levels["crun"], levels["gvisor"], levels["kata"]),
          ("namespaces", "namespaces", "user-space-kernel", "virtual-machine"))
    with d.sandbox(min_isolation="namespaces") as sb:
        equal(sb.created["runtime"], "local")
    with d.sandbox(min_isolation=levels[RUNTIME], runtime=RUNTIME) as sb:
        equal(sb.created["runtime"], RUNTIME)
    a = d.post("/v1/sandboxes", {"runtime": "local", "min_isolation": "user-space-kernel"})
    equal((a.status, a.json["error"]["code"]), (422, "unenforceable"), a)
    a = d.post("/v1/sandboxes", {"min_isolation": "virtual-machine"})
    check(a.status == 422 or a.json["runtime"] == "kata", a)
    if RUNTIME == "gvisor":
        with d.sandbox(min_isolation="user-space-kernel") as sb:
            equal(sb.created["runtime"], "gvisor")
            check("gVisor" in sb.sh("dmesg")["stdout"] or sb.sh("uname -r")["stdout"] == "4.4.0\n", "whose kernel is it?")
        with Daemon("--min-isolation", "user-space-kernel") as strict:
            equal(strict.get("/v1/status").json["default_runtime"], "gvisor")
            equal(strict.post("/v1/sandboxes", {"runtime": "crun"}).status, 422)


@test("the runner is the container's init: an exec starts no other program of the runtime's")
def test_the_runner_is_the_container_init_an_exec_starts():
    with Daemon("--cgroup-prefix", PREFIX + "-init", "--blanks", "0", "--oci-blanks", "0") as d, d.sandbox(runtime=RUNTIME) as sb:
        warden = d.get("/v1/status").json["warden_pid"]

        def theirs():
            return {p for p, n in programs(warden).items() if PROGRAM in n}
        before = settled(theirs)  # programs that are asked for their versions end
        for i in range(5):
            equal(sb.sh(f"echo {i}")["stdout"], f"{i}\n")
        check(theirs() <= before, programs(warden))


@test("host directories: read-only everywhere; to write to, where files keep their owners")
def test_host_directories_read_only_everywhere_to_write():
    with tempfile.TemporaryDirectory(prefix="mas-oci-") as host:
        os.chmod(host, 0o755)
        with open(host + "/file", "w") as f:
            f.write("of the host")
        with Daemon(config=f"mounts:\n  allow:\n    - {host}\n") as d:
            mount = {"source": host, "target": "/workspace/in", "read_only": True}
            with d.sandbox(runtime=RUNTIME, mounts=[mount]) as sb:
                equal(sb.sh("cat /workspace/in/file")["stdout"], "of the host")
                check(sb.sh("echo x > /workspace/in/new")["exit_code"] != 0, "it can be written to")
            a = d.post("/v1/sandboxes", {"runtime": RUNTIME, "mounts": [dict(mount, read_only=False)]})
            equal(a.status, 400 if RUNTIME == "gvisor" else 201, a)
            check(RUNTIME != "gvisor" or "read_only" in a.json["error"]["message"], a)


@test("a deleted one leaves no process and no control group")
def test_a_deleted_one_leaves_no_process_and_no_control():
    with Daemon("--cgroup-prefix", PREFIX + "-gone", "--blanks", "0", "--oci-blanks", "0") as d:
        warden = d.get("/v1/status").json["warden_pid"]
        before = set(below(warden))
        groups_before = set(groups(PREFIX + "-gone"))
        for _ in range(3):
            with d.sandbox(runtime=RUNTIME) as sb:
                sb.sh("sleep 1000 & echo on")
        wait_for(lambda: set(below(warden)) <= before, "no process")
        wait_for(lambda: set(groups(PREFIX + "-gone")) <= groups_before, "no control group")
    wait_for(lambda: groups(PREFIX + "-gone") == [], "no control group of the daemon's")


@test("kill -9 of the warden, while sandboxes run and are made: nothing is left, and the next start sweeps")
def test_kill_9_of_the_warden_while_sandboxes_run():
    prefix = PREFIX + "-dead"
    d = Daemon("--cgroup-prefix", prefix, "--blanks", "2").start()
    d.sandbox(runtime=RUNTIME).sh("sleep 1000 & echo on")
    making = threading.Thread(target=lambda: quietly(d, {"runtime": RUNTIME}))
    making.start()
    time.sleep(0.05)
    warden = d.get("/v1/status").json["warden_pid"]
    pids = below(warden)
    os.kill(warden, signal.SIGKILL)
    making.join()
    wait_for(lambda: not any(map(lives, pids)), "everything is gone")
    d.process.wait(60)
    with Daemon("--cgroup-prefix", prefix) as after:
        equal(after.run("echo", "again", runtime=RUNTIME)["stdout"], "again\n")
        wait_for(lambda: not [g for g in groups(prefix) if f"-{warden}-" in g], "its control groups are swept")


def quietly(d, spec):
    try:
        d.post("/v1/sandboxes", spec)
    except (OSError, http.client.HTTPException):
        pass


@test("kill -9 of the control plane during a create: the half-made one is ended, not forgotten")
def test_kill_9_of_the_control_plane_during_a_create():
    with Daemon("--cgroup-prefix", PREFIX + "-half", "--blanks", "0") as d:
        warden = d.get("/v1/status").json["warden_pid"]
        for delay in (0.005, 0.03, 0.1):
            making = threading.Thread(target=lambda: quietly(d, {"runtime": RUNTIME}))
            making.start()
            time.sleep(delay)
            d.kill_control()
            making.join()
        for sb in d.get("/v1/sandboxes").json["sandboxes"]:
            equal(d.delete("/v1/sandboxes/" + sb["id"]).status, 200)
        wait_for(lambda: not any(PROGRAM in n or "toolrunner" in n for n in programs(warden).values()), f"nobody's sandbox: {programs(warden)}")
        equal(d.run("echo", "fine", runtime=RUNTIME)["stdout"], "fine\n")


@test("its version is known, and what it can enforce")
def test_its_version_is_known_and_what_it_can_enforce():
    d = daemon()

    def report():
        return next(r for r in d.get("/v1/status").json["runtimes"] if r["name"] == RUNTIME)
    wait_for(lambda: report().get("version"), "it has answered")
    words = subprocess.run([PROGRAM, "--version"], stdout=subprocess.PIPE).stdout.decode().splitlines()[0].split()
    equal(report()["version"], words[-1])
    for wall in ("memory", "processes", "disk", "network", "filesystem", "syscalls", "users"):
        check(report()["enforces"][wall], f"{wall}: {report()}")
    out = subprocess.run([SBX, "doctor", "-addr", f"127.0.0.1:{d.port}"], stdout=subprocess.PIPE).stdout.decode()
    check(f"Runtime {RUNTIME} {words[-1]}: available" in out, out)


@test("pause under load: nothing moves, all goes on; and a paused one that is busy can be deleted")
def test_pause_under_load_nothing_moves_all_goes():
    d = daemon()
    sb = d.sandbox(runtime=RUNTIME, limits={"max_processes": 100})
    spin = "i=0; while :; do i=$((i+1)); case $i in *000) echo $i;; esac; done"
    for _ in range(4):
        equal(d.post(sb.path + "/exec", {"command": ["sh", "-c", spin], "async": True}).status, 200)

    def used():
        return d.get(sb.path + "/stats").json["cpu_ms"]
    for _ in range(3):
        before = used()
        wait_for(lambda: used() > before + 20, "they run")
        equal(d.post(sb.path + "/pause").json["state"], "paused")
        time.sleep(0.1)
        still = used()
        time.sleep(0.4)
        check(used() - still <= 5, f"{used() - still} ms of processor time while it is paused")
        equal(d.post(sb.path + "/resume").json["state"], "ready")
    equal(sb.sh("echo fine")["stdout"], "fine\n")
    d.post(sb.path + "/pause")
    begin = time.time()
    equal(sb.delete().status, 200)
    check(time.time() - begin < PATIENCE_S, "slow to go")
    equal(d.get(sb.path).status, 404)


# --- programs that are not what they should be

# One that passes descriptors, and one that dials: what becomes of them is the same for the others.
FAKE = "kata" if RUNTIME == "gvisor" else "crun"
fake_test = test if RUNTIME != "runc" else lambda name: lambda fn: fn


def with_fake(script, *flags, name=None):
    """A daemon whose /usr/local/sbin has a program of ours in the place of the runtime's, for itself alone."""
    d = Daemon("--blanks", "0", "--oci-blanks", "0", "--cgroup-prefix", PREFIX + "-fake", *flags, runtime="local", command=[
        "unshare", "--mount", "--propagation", "private", "sh", "-c",
        'mount -t tmpfs -o mode=755 fake /usr/local/sbin && cp "$0" "/usr/local/sbin/$1" && shift && exec "$@"'])
    path = os.path.join(d.dir, "fake")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)
    d.command += [path, name or {"kata": "kata-runtime"}.get(FAKE, FAKE), SANDBOXD]
    return d


def reported(d):
    return next(r for r in d.get("/v1/status").json["runtimes"] if r["name"] == FAKE)


def create_fails(d, *words):
    warden = d.get("/v1/status").json["warden_pid"]
    a = d.post("/v1/sandboxes", {"runtime": FAKE})
    check(a.status >= 500 or a.status == 422, a)
    message = a.json["error"]["message"]
    check(all(w in message for w in words), message)
    check(message.isprintable() and len(message) < 400, repr(message))
    wait_for(lambda: not any(n in ("sh", "sleep", "fake") or "toolrunner" in n for n in programs(warden).values()),
             lambda: f"nothing of it is left: {programs(warden)}")
    equal(d.run("echo", "fine")["stdout"], "fine\n", "other runtimes")
    return message


@fake_test("a runtime that hangs: the create ends at its time, and says so")
def test_a_runtime_that_hangs_the_create_ends_at_its_time():
    mark = f"sleep 1000.{os.getpid()}"
    with with_fake(f"{mark} & {mark}\n", "--create-ready-timeout", "2s") as d:
        begin = time.time()
        create_fails(d, "time")
        check(1.5 < time.time() - begin < 25, f"after {time.time() - begin} s")
        wait_for(lambda: "why" in reported(d), "asked for its version it is ended")
        check("does not answer" in reported(d)["why"], reported(d))
        wait_for(lambda: not processes(mark), "nothing that it started is left")


@fake_test("a runtime that prints garbage, much of it, and fails")
def test_a_runtime_that_prints_garbage_much():
    garbage = "head -c 3000000 /dev/urandom; printf '\\033[31m\\000\\377'\n"
    log = 'while [ $# -gt 0 ]; do [ "$1" = --log ] && head -c 300000 /dev/urandom > "$2"; shift; done\n'
    with with_fake(f"case $1 in --version) printf 'fake \\033[1mv\\377\\n';; esac\n{log}{garbage}exit 9\n") as d:
        create_fails(d, FAKE)
        wait_for(lambda: "why" in reported(d) or "version" in reported(d), "it was asked")
        check(json.dumps(reported(d)).isprintable() and "\\u001b" not in json.dumps(reported(d)), reported(d))


@fake_test("a runtime whose version is a long line: cut, and harmless")
def test_a_runtime_whose_version_is_a_long_line_cut():
    with with_fake("printf 'x version 1.\\0337\\377'; head -c 20000 /dev/zero | tr '\\0' z\n") as d:
        wait_for(lambda: "version" in reported(d), "it was asked")
        version = reported(d)["version"]
        check(version.startswith("1.?7?zzz") and len(version) <= 63, version)


@fake_test("a runtime that says that all is well, and made nothing")
def test_a_runtime_that_says_that_all_is_well_and_made():
    for script in ("exit 0\n", 'while [ $# -gt 0 ]; do [ "$1" = --pid-file ] && echo 1 > "$2"; shift; done\n',
                   'while [ $# -gt 0 ]; do [ "$1" = --pid-file ] && echo 99999 > "$2"; shift; done\n'):
        with with_fake(script, "--create-ready-timeout", "5s") as d:
            create_fails(d)


main()
