#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""mas-sandboxd is replaced while commands run: another build takes over and nothing is lost, and one that cannot take over
is refused before anything stops. The daemon runs from a directory of its own, into which other builds are installed."""
import os
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from faults import *

BUILD = os.path.dirname(SANDBOXD)
SBX = os.path.join(BUILD, "sbx")
NEXT = os.path.join(BUILD, "tests/fault/mas-sandboxd-next")  # version 0.9.9, the same protocol
OTHER = os.path.join(BUILD, "tests/fault/mas-sandboxd-other")  # another major
MUTE, LEAVES, SLOW = (os.path.join(BUILD, "tests/fault/mas-sandboxd-" + x) for x in ("mute", "leaves", "slow"))  # stub-control.c
PROGRAMS = ["mas-sandboxd", "mas-warden", "mas-toolrunner", "mas-tool-net"]


class Installed:
    """A daemon whose programs are copies in a directory."""

    def __init__(self, *flags, user=None):
        self.dir = tempfile.mkdtemp(prefix="mas-upgrade-")
        os.chmod(self.dir, 0o755)
        for name in PROGRAMS:
            shutil.copy(os.path.join(BUILD, name), self.dir)
        self.program = os.path.join(self.dir, "mas-sandboxd")
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"] if user else []
        self.daemon = Daemon(*flags, command=become + [self.program])
        if user:
            os.chown(self.daemon.dir, user, user)

    def install(self, program, mode=0o755):
        shutil.copy(program, self.program + ".new")
        os.chmod(self.program + ".new", mode)
        os.rename(self.program + ".new", self.program)

    def runs(self):
        """The number of the file that the control plane is a process of."""
        return os.stat(f"/proc/{control_pid(self.daemon)}/exe").st_ino

    def is_installed(self):
        return self.runs() == os.stat(self.program).st_ino

    def __enter__(self):
        self.daemon.start()
        return self

    def __exit__(self, *exc):
        try:
            self.daemon.__exit__(*exc)
        finally:
            shutil.rmtree(self.dir, ignore_errors=True)


def upgrade(d):
    p = subprocess.run([SBX, "upgrade", "-addr", f"http://127.0.0.1:{d.port}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       text=True, timeout=PATIENCE_S)
    return p.returncode, p.stdout + p.stderr


def start_lines(d, sb, count):
    script = f"i=0; while [ $i -lt {count} ]; do echo line $i; i=$((i+1)); sleep 0.01; done; exit 3"
    return d.post(f"/sandboxes/{sb.id}/exec", {"command": ["sh", "-c", script], "async": True}).json["exec_id"]


def expect_lines(d, sb, exec_id, count):
    """Every byte once, and the command's own exit status."""
    path = f"{sb.path}/execs/{exec_id}"
    wait_for(lambda: again(d, "GET", path).json["status"] != "running", "its end")
    equal((d.get(path).json["status"], d.get(path).json["exit_code"]), ("completed", 3))
    events = [json.loads(x) for x in d.get(path + "/logs").body.splitlines()]
    equal([v["seq"] for v in events], list(range(1, len(events) + 1)))
    equal("".join(v["data"] for v in events if v["type"] == "output"), "".join(f"line {i}\n" for i in range(count)))


@test("sbx upgrade: another build takes over, and a running command loses no byte")
def test_sbx_upgrade_another_build_takes():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        e = start_lines(d, sb, 300)
        warden = d.get("/v1/status").json["warden_pid"]
        i.install(NEXT)
        code, text = upgrade(d)
        equal(code, 0, text)
        check("version=0.9.9" in text, text)
        check(i.is_installed(), "the control plane is not the installed program")
        equal(d.get("/v1/status").json["warden_pid"], warden)
        expect_lines(d, sb, e, 300)
        equal(sb.sh("echo goes on")["stdout"], "goes on\n")
        check("died" not in d.log_text(), d.log_text())


@test("a stream is taken up where it was after an upgrade")
def test_a_stream_is_taken_up():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        e = start_lines(d, sb, 200)
        ws = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={e}")
        messages = ws.messages()
        events = [json.loads(next(messages)) for _ in range(3)]
        i.install(NEXT)
        equal(upgrade(d)[0], 0)
        events += [json.loads(m) for m in messages]
        rest = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={e}&since={events[-1]['seq']}")
        if events[-1]["type"] != "exit":
            events += [json.loads(m) for m in rest.messages()]
        equal([v["seq"] for v in events], list(range(1, len(events) + 1)))
        equal("".join(v["data"] for v in events if v["type"] == "output"), "".join(f"line {i}\n" for i in range(200)))


@test("SIGHUP upgrades where another program is installed, and only there")
def test_sighup_upgrades_where_another_program():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        pid = control_pid(d)
        d.process.send_signal(signal.SIGHUP)
        equal(sb.sh("echo same")["stdout"], "same\n")
        equal(control_pid(d), pid)
        i.install(NEXT)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: again(d, "GET", "/v1/status").json["pid"] != pid, "another control plane")
        check(i.is_installed(), "the control plane is not the installed program")
        equal(sb.sh("echo goes on")["stdout"], "goes on\n")


@test("another protocol is refused by name, and the control plane that runs goes on")
def test_another_protocol_is_refused_by_name():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        pid = control_pid(d)
        i.install(OTHER)
        a = d.post("/v1/upgrade", None)
        equal(a.status, 409, a)
        check("speaks protocol 99." in a.json["error"]["message"], a)
        equal(control_pid(d), pid)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: d.log_text().count("not upgraded") == 2, "the log says so")
        equal((control_pid(d), sb.sh("echo goes on")["stdout"]), (pid, "goes on\n"))


@test("a control plane that dies under another protocol: sandboxes live on until one comes that fits")
def test_a_control_plane_that_dies_under_another_protocol():
    with Installed("--control-restarts", "2") as i, i.daemon.sandbox() as sb:
        d = i.daemon
        e = start_lines(d, sb, 100)
        i.install(OTHER)
        os.kill(control_pid(d), signal.SIGKILL)
        wait_for(lambda: d.log_text().count("this mas-sandboxd") > 3, "tries")
        check("sandboxes live on" in d.log_text(), d.log_text())
        equal(d.process.poll(), None, "the daemon lives")
        i.install(NEXT)
        again(d, "GET", "/v1/status")
        check(i.is_installed(), "the control plane is not the installed program")
        expect_lines(d, sb, e, 100)


@test("a program that others may write to, of nobody's, or none at all is not started")
def test_a_program_that_others_may_write_to_of_nobodys():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        i.install(NEXT, 0o757)
        a = d.post("/v1/upgrade", None)
        equal(a.status, 409, a)
        check("others may write to it" in a.json["error"]["message"], a)
        if os.geteuid() == 0:
            i.install(NEXT)
            os.chown(i.program, 12399, 12399)
            a = d.post("/v1/upgrade", None)
            check("belongs to user 12399" in a.json["error"]["message"], a)
        os.unlink(i.program)
        a = d.post("/v1/upgrade", None)
        check("No such file" in a.json["error"]["message"], a)
        os.kill(control_pid(d), signal.SIGKILL)
        wait_for(lambda: d.log_text().count("is not started: No such file") > 1, "tries")
        i.install(NEXT)
        again(d, "GET", "/v1/status")
        equal(sb.sh("echo goes on")["stdout"], "goes on\n")


@test("a program of the daemon's that others may write to is not started at all")
def test_a_program_of_the_daemon_that_others_may_write():
    for name in ("mas-warden", "mas-toolrunner", "mas-sandboxd"):
        i = Installed()
        os.chmod(os.path.join(i.dir, name), 0o757)
        try:
            with i:
                raise AssertionError(f"{name} was started")
        except RuntimeError as e:
            check("others may write to it" in str(e), f"{name}: {e}")
        finally:
            i.__exit__()


@test("as an ordinary user, from root's programs")
def test_as_an_ordinary_user_from_root_programs():
    if os.geteuid():
        raise Skip("this is one already")
    with Installed(user=64996) as i, i.daemon.sandbox() as sb:
        e = start_lines(i.daemon, sb, 200)
        i.install(NEXT, 0o757)
        check("others may write to it" in i.daemon.post("/v1/upgrade", None).json["error"]["message"], "refused")
        i.install(NEXT)
        code, text = upgrade(i.daemon)
        equal(code, 0, text)
        check(i.is_installed(), "the control plane is not the installed program")
        expect_lines(i.daemon, sb, e, 200)


@test("a program that is none, or crashes, is refused before anything stops")
def test_a_program_that_is_none_or_crashes_is_refused():
    with Installed() as i, i.daemon.sandbox() as sb:
        pid = control_pid(i.daemon)
        for program in ("/bin/true", "/bin/false"):
            i.install(program)
            a = i.daemon.post("/v1/upgrade", None)
            equal(a.status, 409, a)
            check("does not say which protocol it speaks" in a.json["error"]["message"], a)
        equal((control_pid(i.daemon), sb.sh("echo goes on")["stdout"]), (pid, "goes on\n"))


@test("only an admin may ask for it")
def test_only_an_admin_may_ask():
    i = Installed("--auth-token", "of-the-operator")
    i.daemon.token = "of-the-operator"
    with i:
        for role, status in (("operator", 403), ("agent", 403), ("admin", 200)):
            key = i.daemon.post("/v1/keys", {"name": role, "roles": [role]}).json["secret"]
            a = i.daemon.request("POST", "/v1/upgrade", None, {"Authorization": "Bearer " + key})
            equal(a.status, status, f"{role}: {a}")


def stage_pids(d, stage):
    """The processes of the warden's that are in that stage."""
    return [pid for pid in children_of(d.process.pid) if stage in words_of(pid)]


@test("a program that knows nothing of the state: sandboxes live on until one comes that does")
def test_a_program_that_knows_nothing_of_the_state():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        e = start_lines(d, sb, 100)
        with contextlib.closing(sqlite3.connect(os.path.join(d.state, "control/state.db"), isolation_level=None)) as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            db.execute("PRAGMA user_version = 999")
            i.install(NEXT)
            d.process.send_signal(signal.SIGHUP)
            wait_for(lambda: d.log_text().count("the database is of version 999") > 1, "tries")
            equal(d.process.poll(), None, "the daemon lives")
            db.execute(f"PRAGMA user_version = {version}")
        again(d, "GET", "/v1/status")
        check(i.is_installed(), "the control plane is not the installed program")
        expect_lines(d, sb, e, 100)


@test("a control plane that is asked to make way while it starts has not crashed")
def test_a_control_plane_that_is_asked_to_make_way():
    with Installed("--control-restarts", "0") as i, i.daemon.sandbox() as sb:
        d = i.daemon
        i.install(SLOW)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "made way" in d.log_text(), "the start of a slow one")
        i.install(NEXT)
        d.process.send_signal(signal.SIGHUP)
        again(d, "GET", "/v1/status")
        check(i.is_installed(), "the control plane is not the installed program")
        check("died" not in d.log_text(), d.log_text())
        equal(sb.sh("echo goes on")["stdout"], "goes on\n")


@test("a control plane that says that it made way without being asked has failed, and is started again after a pause")
def test_a_control_plane_that_says_that_it_made_way():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        i.install(LEAVES)
        equal(d.post("/v1/upgrade", None).status, 200)
        wait_for(lambda: d.log_text().count("exit_code=76") > 2, "tries")
        equal(d.log_text().count("made way"), 1)
        i.install(NEXT)
        again(d, "GET", "/v1/status")
        equal(sb.sh("echo goes on")["stdout"], "goes on\n")


@test("a control plane of a program that does nothing, and does that well, does not end the daemon")
def test_a_control_plane_of_a_program_that_does_nothing():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        pid = control_pid(d)
        i.install("/bin/true")
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.log_text().count("control plane failed") > 2, "tries")
        i.install(NEXT)
        again(d, "GET", "/v1/status")
        equal(sb.sh("echo goes on")["stdout"], "goes on\n")


@test("an upgrade ends with the control plane that was to make way: the next does not have to")
def test_an_upgrade_ends_with_the_control_plane():
    with Installed() as i, i.daemon.sandbox() as sb:
        d = i.daemon
        i.install(MUTE)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: stage_pids(d, "--probe-stage"), "the question")
        i.install(NEXT)
        pid = stage_pids(d, "--control-stage")[0]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: again(d, "GET", "/v1/status").json["pid"] != pid, "another control plane")
        equal(stage_pids(d, "--probe-stage"), [])
        check("not upgraded" not in d.log_text(), d.log_text())
        equal(sb.sh("echo goes on")["stdout"], "goes on\n")


@test("a stop during an upgrade is a stop: requests have its grace, and the daemon ends well")
def test_a_stop_during_an_upgrade_is_a_stop_requests_have():
    with Installed() as i:
        d, sb, answers = i.daemon, i.daemon.sandbox(), []
        command = ["sh", "-c", "touch started; sleep 4; echo done"]  # longer than one has that makes way
        request = threading.Thread(target=lambda: answers.append(once(d, "POST", sb.path + "/exec", {"command": command})))
        request.start()
        wait_for(lambda: sb.sh("ls")["stdout"] == "started\n", "its start")
        i.install(NEXT)
        d.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "making way" in d.log_text(), "the signal to make way")
        d.process.terminate()
        request.join()
        check(answers[0] and answers[0].json["stdout"] == "done\n", answers)
        equal(d.process.wait(PATIENCE_S), 0)


main()
