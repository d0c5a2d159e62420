#!/usr/bin/env python3
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


def below(warden):
    """Processes of the host that descend from the warden, and their programs."""
    parents, names = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                text = f.read()
            parents[int(pid)] = int(text.rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                names[int(pid)] = os.path.basename(f.read().split(b"\0")[0]).decode(errors="replace")
        except OSError:
            pass
    found = {warden}
    while True:
        more = {p for p, parent in parents.items() if parent in found} - found
        if not more:
            return {p: names.get(p, "") for p in found - {warden}}
        found |= more


@test("by its own name, by oci with oci_runtime, and by the operator's choice")
def _():
    d = daemon()
    for spec in ({"runtime": RUNTIME}, {"runtime": "oci", "oci_runtime": PROGRAM}):
        with d.sandbox(**spec) as sb:
            equal((sb.created["runtime"], sb.created["effective"]["runtime"]), (RUNTIME, RUNTIME))
            equal(sb.sh("echo in")["stdout"], "in\n")
    with Daemon("--oci-runtime", PROGRAM, runtime="oci") as other:
        equal(other.get("/v1/status").json["default_runtime"], RUNTIME)
        equal(other.run("echo", "in")["stdout"], "in\n")


@test("what is wrong is refused by name")
def _():
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
def _():
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
def _():
    d = daemon()
    with d.sandbox(runtime=RUNTIME) as sb:
        warden = d.get("/v1/status").json["warden_pid"]
        before = {p for p, n in below(warden).items() if PROGRAM in n}
        for i in range(5):
            equal(sb.sh(f"echo {i}")["stdout"], f"{i}\n")
        check({p for p, n in below(warden).items() if PROGRAM in n} <= before, below(warden))


@test("host directories: read-only everywhere; to write to, where files keep their owners")
def _():
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
def _():
    with Daemon("--cgroup-prefix", PREFIX + "-gone", "--blanks", "0", "--oci-blanks", "0") as d:
        warden = d.get("/v1/status").json["warden_pid"]
        before = set(below(warden))
        groups_before = set(groups(PREFIX + "-gone"))
        for _ in range(3):
            with d.sandbox(runtime=RUNTIME) as sb:
                sb.sh("sleep 1000 & echo on")
        wait_for(lambda: set(below(warden)) <= before, "no process", 10)
        wait_for(lambda: set(groups(PREFIX + "-gone")) <= groups_before, "no control group", 10)
    equal(groups(PREFIX + "-gone"), [])


@test("kill -9 of the warden, while sandboxes run and are made: nothing is left, and the next start sweeps")
def _():
    prefix = PREFIX + "-dead"
    d = Daemon("--cgroup-prefix", prefix, "--blanks", "2").start()
    d.sandbox(runtime=RUNTIME).sh("sleep 1000 & echo on")
    making = threading.Thread(target=lambda: quietly(d, {"runtime": RUNTIME}))
    making.start()
    time.sleep(0.05)
    warden = d.get("/v1/status").json["warden_pid"]
    pids = list(below(warden))
    os.kill(warden, signal.SIGKILL)
    making.join()
    wait_for(lambda: not any(os.path.exists(f"/proc/{p}") and state(p) not in "ZX" for p in pids), "everything is gone", 5)
    d.process.wait(10)
    with Daemon("--cgroup-prefix", prefix) as after:
        equal(after.run("echo", "again", runtime=RUNTIME)["stdout"], "again\n")
        equal([g for g in groups(prefix) if f"-{warden}-" in g], [])


def quietly(d, spec):
    try:
        d.post("/v1/sandboxes", spec)
    except (OSError, http.client.HTTPException):
        pass


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


@test("kill -9 of the control plane during a create: the half-made one is ended, not forgotten")
def _():
    with Daemon("--cgroup-prefix", PREFIX + "-half", "--blanks", "0") as d:
        warden = d.get("/v1/status").json["warden_pid"]
        for delay in (0.005, 0.03, 0.1):
            old = d.get("/v1/status").json["pid"]
            making = threading.Thread(target=lambda: quietly(d, {"runtime": RUNTIME}))
            making.start()
            time.sleep(delay)
            os.kill(old, signal.SIGKILL)
            making.join()

            def back():
                try:
                    return d.get("/v1/status").json["pid"] != old
                except (OSError, http.client.HTTPException):
                    return False
            wait_for(back, "a new control plane", 20)
        for sb in d.get("/v1/sandboxes").json["sandboxes"]:
            equal(d.delete("/v1/sandboxes/" + sb["id"]).status, 200)
        wait_for(lambda: not any(PROGRAM in n or "toolrunner" in n for n in below(warden).values()), f"nobody's sandbox: {below(warden)}", 10)
        equal(d.run("echo", "fine", runtime=RUNTIME)["stdout"], "fine\n")


main()
