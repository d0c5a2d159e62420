#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of create, exec and delete on an OCI runtime: of the control plane at each step, of
the launcher, of everything. What was answered is there, the rest is gone, and nothing is left on the host.

MAS_RUNTIME is the one under test: crun, runc or gvisor."""
import os
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *

RUNTIME = os.environ.get("MAS_RUNTIME", "crun")
PREFIX = f"mas-ocid-{os.getpid()}"
# No blanks: what lives below the warden is a sandbox's.
FLAGS = ("--debug-endpoints", "--kill-grace", "1s", "--blanks", "0", "--oci-blanks", "0", "--control-restarts", "100",
         "--cgroup-prefix", PREFIX)
CREATE = ("create.before-row", "create.before-plan", "create.plan-sent", "create.started", "create.before-answer",
          "create.answered")
EXEC = ("exec.before-spawn", "exec.spawned", "output.before-append", "exit.received", "exit.before-row")
DELETE = ("delete.begin", "delete.before-kill", "delete.before-row", "delete.gone", "delete.answered")


class Host:
    """What there is on this host that a sandbox could leave."""

    def __init__(self, d):
        def asked():  # programs that are still being asked for their versions are no sandbox's
            return all(r.get("version") or r.get("why") for r in d.get("/v1/status").json["runtimes"]
                       if r["name"] in ("crun", "runc", "gvisor", "kata"))
        wait_for(asked, "the runtimes' versions")
        self.d, self.warden = d, d.get("/v1/status").json["warden_pid"]
        self.own = len(below(self.warden))  # control plane, gateway, janitor: never more
        self.before = self.look()

    def look(self):
        """Of this daemon's only: others may be at work."""
        with open("/proc/self/mountinfo") as f:
            mounts = [line for line in f if self.d.dir in line or " /run/" in line and "/sandbox" in line]
        loops = subprocess.run(["losetup", "-a"], stdout=subprocess.PIPE).stdout.decode()
        state = [p for p in ("/run/crun/sandbox", "/run/runc/sandbox", "/run/runsc/sandbox", "/var/run/runsc/sandbox")
                 if os.path.exists(p)]
        return mounts, [line for line in loops.splitlines() if self.d.dir in line], state, self.groups()

    def groups(self):
        found = subprocess.run(["find", "/sys/fs/cgroup", "-path", f"*/{PREFIX}-*/s*", "-type", "d"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return sorted(found.stdout.decode().split())

    def sandboxes(self):
        """Launchers: children of the warden beside those it started with."""
        return [p for p in below(self.warden) if self.is_launcher(p)]

    def is_launcher(self, pid):
        return parent_of(pid) == self.warden and len(status_of(pid).get("NSpid", "").split()) > 1

    def check_clean(self, what):
        for b in again(self.d, "GET", "/v1/sandboxes?limit=1000").json["sandboxes"]:
            check(again(self.d, "DELETE", "/v1/sandboxes/" + b["id"]).status in (200, 404), what)
        wait_for(lambda: len(below(self.warden)) <= self.own, f"{what}: no process is left of {below(self.warden)}")
        wait_for(lambda: self.look() == self.before, f"{what}: the host as it was")


def faults(names):
    """A daemon whose every other control plane dies at the next of these; the one after it clears up."""
    text = ",".join(f"{name}:1:{2 * i + 1}" for i, name in enumerate(names))
    return Daemon(*FLAGS, env={"MAS_FAULT": text}, runtime=RUNTIME)


def wait_killed(d, name, number):
    wait_for(lambda: generations(d) >= 2 * number, f"the fault {name}")
    equal(generations(d), 2 * number, "control planes")


def next_fault(d, number):
    """The one that cleared up goes too: its successor is armed with the next."""
    os.kill(again(d, "GET", "/v1/status").json["pid"], signal.SIGKILL)
    wait_for(lambda: generations(d) > 2 * number, "the next control plane")


@test("create: kill -9 of the control plane at each step")
def test_create_kill_9_of_the_control_plane_at_each_step():
    with faults(CREATE) as d:
        host = Host(d)
        for number, name in enumerate(CREATE, 1):
            a = once(d, "POST", "/v1/sandboxes", {})
            wait_killed(d, name, number)
            if a:  # it was answered: it is there, and works
                equal(a.status, 201, f"{name}: {a}")
                path = f"/v1/sandboxes/{a.json['id']}/exec"
                equal(again(d, "POST", path, {"command": ["echo", "on"]}).json["stdout"], "on\n", name)
            host.check_clean(name)
            next_fault(d, number)


@test("exec: kill -9 of the control plane at each step")
def test_exec_kill_9_of_the_control_plane_at_each_step():
    with faults(EXEC) as d:
        host = Host(d)
        for number, name in enumerate(EXEC, 1):
            sb = again(d, "POST", "/v1/sandboxes", {}).json["id"]
            once(d, "POST", f"/v1/sandboxes/{sb}/exec", {"command": ["sh", "-c", "echo out; sleep 0.1; exit 3"]})
            wait_killed(d, name, number)
            path = f"/v1/sandboxes/{sb}"
            wait_for(lambda: again(d, "GET", path).json["state"] == "ready", f"{name}: adopted")

            def done():
                return all(e["status"] not in ("running", "canceling") for e in again(d, "GET", path + "/execs").json["execs"])
            wait_for(done, f"{name}: its command ends")
            for e in again(d, "GET", path + "/execs").json["execs"]:
                check(e.get("exit_code") == 3 or "before it was started" in e.get("error", ""), f"{name}: {e}")
            equal(again(d, "POST", path + "/exec", {"command": ["echo", "on"]}).json["stdout"], "on\n", name)
            host.check_clean(name)
            next_fault(d, number)


@test("delete: kill -9 of the control plane at each step")
def test_delete_kill_9_of_the_control_plane_at_each_step():
    with faults(DELETE) as d:
        host = Host(d)
        for number, name in enumerate(DELETE, 1):
            sb = again(d, "POST", "/v1/sandboxes", {}).json["id"]
            a = once(d, "DELETE", "/v1/sandboxes/" + sb)
            wait_killed(d, name, number)
            found = again(d, "GET", "/v1/sandboxes/" + sb)
            check(not a or found.status == 404, f"{name}: it was answered, and is {found}")
            host.check_clean(name)
            next_fault(d, number)


def in_thread(fn):
    answers = []
    t = threading.Thread(target=lambda: answers.append(fn()))
    t.start()
    return t, answers


def end_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # it was ending
            pass


@test("kill -9 of the launcher during create, exec and delete: a failure that is told, and nothing left")
def test_kill_9_of_the_launcher_during_create_exec():
    with Daemon(*FLAGS, runtime=RUNTIME) as d:
        host = Host(d)
        for delay in (0, 0.01, 0.05):
            t, answers = in_thread(lambda: once(d, "POST", "/v1/sandboxes", {}))
            wait_for(host.sandboxes, "a launcher")
            time.sleep(delay)
            end_all(host.sandboxes())
            t.join()
            a = answers[0]
            check(a.status == 201 or "error" in a.json, a)
            if a.status == 201:
                wait_for(lambda: d.get("/v1/sandboxes/" + a.json["id"]).json["state"] == "crashed", "it is known")
            host.check_clean(f"create, {delay}")
        sb = d.sandbox()
        t, answers = in_thread(lambda: once(d, "POST", sb.path + "/exec", {"command": ["sleep", "100"]}))
        wait_for(lambda: d.get("/v1/status").json["counts"]["execs_running"] == 1, "it runs")
        os.kill(host.sandboxes()[0], signal.SIGKILL)
        t.join()
        check("sandbox_crash" in answers[0].json.get("error", ""), answers[0])
        equal(d.get(sb.path).json["state"], "crashed")
        host.check_clean("exec")
        sb = d.sandbox()
        t, answers = in_thread(lambda: once(d, "DELETE", sb.path))
        end_all(host.sandboxes())
        t.join()
        equal(answers[0].status, 200, answers[0])
        host.check_clean("delete")
        equal(d.run("echo", "fine")["stdout"], "fine\n")


@test("kill -9 of everything during create, exec and delete: gone at once, and the next start sweeps")
def test_kill_9_of_everything_during_create_exec():
    for name, act in (("create", lambda d, sb: once(d, "POST", "/v1/sandboxes", {})),
                      ("exec", lambda d, sb: once(d, "POST", sb.path + "/exec", {"command": ["sleep", "100"]})),
                      ("delete", lambda d, sb: once(d, "DELETE", sb.path))):
        d = Daemon(*FLAGS, runtime=RUNTIME).start()
        try:
            host = Host(d)
            sb = d.sandbox()
            t, _ = in_thread(lambda: act(d, sb))
            time.sleep(0.03)
            pids = below(host.warden)
            os.kill(host.warden, signal.SIGKILL)
            t.join()
            d.process.wait(60)
            wait_for(lambda: not any(map(lives, pids)), f"{name}: everything is gone")
            with Daemon(*FLAGS, runtime=RUNTIME) as after:
                equal(after.run("echo", "again")["stdout"], "again\n")
                wait_for(lambda: not [g for g in host.groups() if f"-{host.warden}-" in g], f"{name}: groups")
            wait_for(lambda: host.look() == host.before, f"{name}: the host as it was")
        finally:
            d.process.poll() is None and d.process.kill()
            d.log.close()
            shutil.rmtree(d.dir, ignore_errors=True)


main()
