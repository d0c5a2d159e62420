#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The landlock runtime: on hosts without namespaces of six kinds, and what only it does: a keeper for
each sandbox, boxes, user ids of the host."""
import glob
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *
from unprivileged import *


def gone(pids):
    return not any(map(lives, pids))


def boxes(d):
    return [b for b in glob.glob(os.path.join(d.boxes, "mas-boxes-*", "*"))]


def in_background(sb, marker):
    """A command that leaves its session, its parent and all that might find it."""
    sb.sh(f"(setsid sh -c '(setsid sleep {marker} &)' &) >/dev/null 2>&1 </dev/null")
    sleeping = []
    def runs():
        sleeping[:] = [p for p in processes(f"sleep {marker}") if name_of(p) == "sleep"]
        return sleeping
    wait_for(runs, "it runs")
    return sleeping


def make(command=None, uid=None, *flags, **kw):
    d = Daemon("--kill-grace", "1s", "--cgroup-prefix", f"mas-ll-{os.getpid()}", *flags, command=command or [PROGRAM], **kw)
    d.boxes = os.path.join(d.dir, "boxes")
    os.mkdir(d.boxes)
    d.flags += ["--landlock-dir", d.boxes]
    if uid:
        os.chown(d.dir, uid, uid)
        os.chown(d.boxes, uid, uid)
    return d


# --- hosts without namespaces

def chroot_daemon():
    """In a plain chroot: the root directory is no mount."""
    d = make()
    root = os.path.join(d.dir, "root")
    binds = []
    for name in ("usr", "etc", "proc", "sys", "dev", d.dir.lstrip("/"), os.path.dirname(PROGRAM).lstrip("/")):
        binds.append(f"mkdir -p {root}/{name}; mount --bind /{name} {root}/{name}")
    links = [f"ln -s {os.readlink('/' + n)} {root}/{n}" for n in os.listdir("/") if os.path.islink("/" + n)]
    script = "; ".join(binds + links) + f"; exec chroot {root} {PROGRAM} \"$@\""
    d.command = ["unshare", "--mount", "sh", "-c", script, "sh"]
    return d


def user_daemon():
    return make([NO_NAMESPACES] + AS_STRANGER + [PROGRAM], STRANGER)


HOSTS = {
    "root without CAP_SYS_ADMIN": (lambda: make(["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", PROGRAM]), True),
    "root where the kernel makes none": (lambda: make([NO_NAMESPACES, PROGRAM]), True),
    "root without user namespaces": (lambda: make([NO_NAMESPACES, "--only", "user", PROGRAM]), True),
    "root where a filter refuses them": (lambda: make([NO_NAMESPACES, "--filter", PROGRAM]), True),
    "a user where the kernel makes none": (user_daemon, False),
    "a plain chroot": (chroot_daemon, True),
}


def on_each_host(name):
    def add(fn):
        for host, (how, separate) in HOSTS.items():
            test(f"{host}: {name}")(lambda how=how, separate=separate: fn(how, separate))
        return fn
    return add


@on_each_host("the daemon starts, says what is missing, and refuses it by name")
def test_the_daemon_starts_says_what_is_missing(how, separate):
    with how() as d:
        s = d.get("/v1/status").json
        check(not s["namespaces"]["available"] and s["namespaces"]["why"], s["namespaces"])
        check("this host allows no namespaces" in d.log_text(), d.log_text())
        names = {r["name"]: r for r in s["runtimes"]}
        for name in ("local", "process", "crun", "runc", "gvisor"):
            check(not names[name]["available"] and names[name]["why"], names[name])
        check("no namespaces" in names["local"]["why"], names["local"])
        check(names["landlock"]["available"], names["landlock"])
        for spec in ({}, {"runtime": "local"}, {"min_isolation": "namespaces"}):
            a = d.post("/v1/sandboxes", spec)
            check(a.status in (400, 422) and re.search("namespaces", a.json["error"]["message"]), a)
        a = d.post("/v1/run", {"command": ["true"]})
        check(a.status == 400 and "'local' needs namespaces" in a.json["error"]["message"], a)


@on_each_host("sandboxes work, and are behind their walls")
def test_sandboxes_work_and_are_behind_their_walls(how, separate):
    with how() as d, d.sandbox(runtime="landlock") as sb, d.sandbox(runtime="landlock") as other:
        e = sb.created["effective"]
        equal(e["uid_separation"], separate)
        check(any("user id" in s for s in e["shares"]) != separate, e["shares"])
        equal(sb.created["workdir"], sb.sh("pwd")["stdout"].strip())
        equal(sb.sh("echo x > f; cat f; echo $HOME $TMPDIR; touch $HOME/a $TMPDIR/b; exit 3")["exit_code"], 3)
        secret = other.created["workdir"] + "/secret"
        other.sh("echo secret > secret; chmod 666 secret; chmod 777 . .. 2>/dev/null")
        for path in (secret, d.state + "/control/state.db", "/etc/shadow", "/etc/passwd", "/proc/self/status"):
            r = sb.sh(f"cat {path}")
            check(r["exit_code"] != 0 and "denied" in r["stderr"], (path, r))
        for path in ("/tmp/x", "/var/tmp/x", d.boxes + "/x", "/dev/shm/x", os.path.dirname(secret) + "/x"):
            check(sb.sh(f"echo > {path}")["exit_code"] != 0, path)
        r = sb.exec("python3", "-c", "import socket\nfor f in (socket.AF_UNIX, socket.AF_INET, socket.AF_NETLINK):\n"
                    "    try: socket.socket(f)\n    except PermissionError: print('no')")
        equal(r["stdout"], "no\n" * 3, r)
        mark = f"50.{os.getpid()}7"
        pids = in_background(other, mark)
        r = sb.sh(f"kill -9 {pids[0]} {parent_of(pids[0])} {d.process.pid} {os.getpid()}; kill -9 -1")
        check(not gone(pids) and "not permitted" in r["stderr"], r)
        equal(other.sh("echo there")["stdout"], "there\n")


@on_each_host("what it cannot enforce is refused by name, or given up")
def test_what_it_cannot_enforce_is_refused_by_name(how, separate):
    with how() as d:
        for wall, limits in (("disk", {"disk_mb": 16}), ("io", {"io_mb_per_s": 5}), ("memory", {"memory_mb": 64}), ("processes", {"max_processes": 9})):
            a = d.post("/v1/sandboxes", {"runtime": "landlock", "limits": limits})
            if a.status == 201:
                check(a.json["effective"][wall], a.json)
                continue
            check(a.status == 422 and wall in a.json["error"]["message"], a)
            d.sandbox(runtime="landlock", limits=limits, accept_weaker=[wall]).delete()
        for spec in ({"workdir": "/usr"}, {"mounts": [{"source": "/usr", "target": "/mnt/x"}]}):
            a = d.post("/v1/sandboxes", dict(spec, runtime="landlock"))
            check(a.status in (400, 403), a)


@on_each_host("a delete, a dead control plane, a dead warden")
def test_a_delete_a_dead_control_plane_a_dead_warden(how, separate):
    d = how().start()
    try:
        mark = f"51.{os.getpid()}"
        sb, kept = d.sandbox(runtime="landlock"), d.sandbox(runtime="landlock")
        pids = in_background(sb, mark + "1")
        equal(sb.delete().status, 200)
        wait_for(lambda: gone(pids), "what the deleted one left")
        equal(len(boxes(d)), 1)
        kept.sh("echo here > f")
        left = in_background(kept, mark + "2")
        os.kill(d.get("/v1/status").json["pid"], signal.SIGKILL)
        wait_for(lambda: d.get(kept.path).status == 200, "the next control plane")
        equal(kept.sh("cat f")["stdout"], "here\n")
        check(not gone(left), "adopted with all its processes")
        os.kill(d.get("/v1/status").json["warden_pid"], signal.SIGKILL)
        d.process.wait()
        wait_for(lambda: gone(left), "everything ends with the warden")
        wait_for(lambda: not boxes(d), "the keeper removes the box")
        d.start()
        wait_for(lambda: len(glob.glob(d.boxes + "/mas-boxes-*")) == 1, "the sweep")
    finally:
        d.__exit__()


CHANGE = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
path = sys.argv[1]
def attempt(name, fn):
    try:
        r = fn()
        print("worked" if r in (None, 0) else "refused", name)
    except OSError as e:
        print("refused", name)
held = os.open(path, os.O_PATH)
parent = os.open(os.path.dirname(path), os.O_PATH)
os.symlink(path, "link")
up = os.path.relpath(path)
for name, where in (("path", path), ("relative", up), ("link", "link"), ("descriptor", f"/proc/self/fd/{held}"), ("dev", f"/dev/fd/{held}")):
    attempt("chmod " + name, lambda: os.chmod(where, 0o777))
    attempt("utime " + name, lambda: os.utime(where, (1, 1)))
attempt("fchmodat", lambda: os.chmod(os.path.basename(path), 0o777, dir_fd=parent))
attempt("fchmodat2", lambda: libc.syscall(452, held, b"", 0o777, 0x1000))
attempt("chown", lambda: os.chown(path, os.getuid(), os.getgid()))
attempt("setxattr", lambda: os.setxattr(path, "user.x", b"x"))
attempt("truncate", lambda: os.truncate(path, 0))
attempt("rename", lambda: os.rename(path, "taken"))
attempt("link into the box", lambda: os.link(path, "taken"))
open("own", "w").close(); os.mkdir("dir")
attempt("own chmod", lambda: os.chmod("own", 0o750))
attempt("own utime", lambda: os.utime("dir/../own", (1, 1)))
attempt("own by absolute path", lambda: os.chmod(os.path.abspath("dir"), 0o711))
print(oct(os.stat("own").st_mode & 0o777), int(os.stat("own").st_mtime), oct(os.stat("dir").st_mode & 0o777))
"""


@test("a user where the kernel makes none: attributes of files are changed in the box, and nowhere else")
def test_a_user_where_the_kernel_makes_none_attributes():
    with user_daemon() as d, d.sandbox(runtime="landlock") as sb:
        path = os.path.join(d.dir, "of-the-caller")
        with open(path, "w") as f:
            f.write("x")
        os.chown(path, STRANGER, STRANGER)
        os.chmod(path, 0o600)
        equal(subprocess.run(AS_STRANGER + ["chmod", "600", path]).returncode, 0, "control: the user may")
        before = os.stat(path)
        out = sb.exec("python3", "-c", CHANGE, path)["stdout"].splitlines()
        worked = [line for line in out if line.startswith("worked")]
        equal(worked, ["worked own chmod", "worked own utime", "worked own by absolute path"], out)
        equal(out[-1], "0o750 1 0o711", out)
        check(len(out) > 15, out)
        after = os.stat(path)
        equal((after.st_mode, after.st_mtime, after.st_size), (before.st_mode, before.st_mtime, before.st_size))
        equal(sb.sh("git init -q r && cd r && echo x > f && chmod +x f && git add f && git -c user.name=n -c user.email=e commit -qm m && git ls-files -s | cut -c1-6")["stdout"],
              "100755\n")


# --- the keeper

def ours():
    """One daemon for the tests below, on the host as it is."""
    if not hasattr(ours, "d"):
        ours.d = make().start()
        atexit.register(ours.d.__exit__)
    return ours.d


def keeper_of(sb):
    runner = next(p for p in processes("mas-toolrunner --fd") if sb.created["workdir"].encode() in command_line(p))
    return parent_of(runner), runner


@test("the runner has no rights, half the commands' user, and is out of their reach")
def test_the_runner_has_no_rights_half_the_commands_user():
    d = ours()
    with d.sandbox(runtime="landlock") as sb:
        uid = int(sb.sh("id -u")["stdout"])  # and the runner has begun its work
        keeper, runner = keeper_of(sb)
        s = status_of(runner)
        real, effective, saved = map(int, s["Uid"].split()[:3])
        check(real == saved != effective and effective == uid, s["Uid"])
        for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"):
            equal(int(s[name], 16), 0, name)
        equal((s["NoNewPrivs"], s["Seccomp"], s["Groups"].strip()), ("1", "2", ""))
        check(not int(status_of(keeper)["CapEff"], 16) >> 21 & 1, "the keeper has CAP_SYS_ADMIN")
        for signo in (0, 9, 19):
            check("not permitted" in sb.sh(f"kill -{signo} {runner}")["stderr"], signo)
            check("not permitted" in sb.sh(f"kill -{signo} {keeper}")["stderr"], signo)
        for call in (f"os.setpriority(os.PRIO_PROCESS, {runner}, 19)", f"os.sched_setaffinity({runner}, [0])",
                     f"resource.prlimit({runner}, resource.RLIMIT_NOFILE, (9, 9))"):
            r = sb.exec("python3", "-c", f"import os, resource; {call}")
            check("PermissionError" in r["stderr"], (call, r))
        equal(sb.sh("echo alive")["stdout"], "alive\n")


@test("a killed keeper: its sandbox crashes, and nothing of it is left")
def test_a_killed_keeper_its_sandbox_crashes_and_nothing():
    d = ours()
    sb = d.sandbox(runtime="landlock")
    pids = in_background(sb, f"52.{os.getpid()}")
    sb.sh("mkdir -p a/b; echo x > a/b/c")
    os.kill(keeper_of(sb)[0], signal.SIGKILL)
    wait_for(lambda: d.get(sb.path).json.get("state") == "crashed", "the crash is seen")
    wait_for(lambda: gone(pids), "strays are ended")
    wait_for(lambda: not os.path.exists(sb.created["workdir"]), "the box is removed")
    equal(sb.delete().status, 200)


@test("warden and keeper killed at once: the next start ends and removes what is left")
def test_warden_and_keeper_killed_at_once_the_next_start():
    d = make().start()
    try:
        sb = d.sandbox(runtime="landlock")
        pids = in_background(sb, f"53.{os.getpid()}")
        keeper = keeper_of(sb)[0]
        for pid in (keeper, d.process.pid):
            os.kill(pid, signal.SIGSTOP)
        for pid in (keeper, d.process.pid):
            os.kill(pid, signal.SIGKILL)
        d.process.wait()
        d.start()
        wait_for(lambda: gone(pids), "the sweep ends them")
        check(not os.path.exists(sb.created["workdir"]), "the sweep removes the box")
    finally:
        d.__exit__()


@test("a paused one and a killed warden: nothing is left")
def test_a_paused_one_and_a_killed_warden_nothing_is_left():
    d = make().start()
    try:
        sb = d.sandbox(runtime="landlock")
        if not next(r for r in d.get("/v1/status").json["runtimes"] if r["name"] == "landlock")["pause"]:
            raise Skip("no freezer here")
        pids = in_background(sb, f"54.{os.getpid()}")
        equal(d.post(sb.path + "/pause").status, 200)
        d.process.kill()
        d.process.wait()
        wait_for(lambda: gone(pids), "thawed and ended")
        wait_for(lambda: not boxes(d), "the box")
    finally:
        d.__exit__()


@test("pause and resume")
def test_pause_and_resume():
    d = ours()
    with d.sandbox(runtime="landlock") as sb:
        if not next(r for r in d.get("/v1/status").json["runtimes"] if r["name"] == "landlock")["pause"]:
            raise Skip("no freezer here")
        pids = in_background(sb, f"55.{os.getpid()}")
        equal(d.post(sb.path + "/pause").status, 200)
        check("frozen" in status_of(pids[0])["State"] or status_of(pids[0])["State"][0] in "DS", status_of(pids[0])["State"])
        equal(d.post(sb.path + "/exec", {"command": ["true"]}).status, 409)
        equal(d.post(sb.path + "/resume").status, 200)
        equal(sb.sh("echo on")["stdout"], "on\n")
        equal(d.post(sb.path + "/pause").status, 200)
    wait_for(lambda: gone(pids), "a paused one can be deleted")


@test("a fork bomb and processes that ignore every signal end with the delete")
def test_a_fork_bomb_and_processes_that_ignore():
    d = ours()
    sb = d.sandbox(runtime="landlock", limits={"max_processes": 64})
    d.post(sb.path + "/exec", {"command": ["python3", "-c", "import os, signal, sys\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
           "    except (OSError, ValueError): pass\nwhile True:\n    try:\n        if not os.fork(): os.setsid()\n    except OSError: pass",
           f"bomb.{os.getpid()}"], "async": True})
    wait_for(lambda: len(processes(f"bomb.{os.getpid()}")) > 20, "it goes off")
    started = time.time()
    equal(sb.delete().status, 200)
    wait_for(lambda: not processes(f"bomb.{os.getpid()}"), "all of it is gone")
    check(time.time() - started < PATIENCE_S, "slow")


@test("a box is removed, however deep, and whatever its modes")
def test_a_box_is_removed_however_deep():
    def removed(d):
        sb = d.sandbox(runtime="landlock")
        r = sb.exec("python3", "-c", "import os\nfor i in range(1500):\n    os.mkdir('d'); os.chdir('d')\n    if i % 100 == 0: open('f', 'w').close()\n")
        equal(r["exit_code"], 0, r)
        r = sb.sh("mkdir -p closed/in; echo x > closed/in/f; chmod 000 closed/in closed && ln -s /etc out && ln -s / $HOME/root")
        equal(r["exit_code"], 0, r)
        equal(sb.delete().status, 200)
        wait_for(lambda: not os.path.exists(os.path.dirname(sb.created["workdir"])), "the box")
        check(os.path.exists("/etc/passwd"), "and nothing else")
    removed(ours())
    with user_daemon() as d:
        removed(d)


@test("no two sandboxes share a user, also of two daemons with one range")
def test_no_two_sandboxes_share_a_user_also_of_two():
    with make() as a, make() as b:
        made = [d.sandbox(runtime="landlock") for d in (a, b, a, b)]
        uids = [sb.sh("id -u; id -g; id -G")["stdout"].split() for sb in made]
        check(all(len(set(u)) == 1 for u in uids), uids)
        equal(len({u[0] for u in uids}), 4, uids)


@test("sockets in the file system, shared memory, queues: not to be had")
def test_sockets_in_the_file_system_shared_memory_queues():
    d = ours()
    server = socket.socket(socket.AF_UNIX)
    path = os.path.join(d.dir, "host.sock")
    server.bind(path)
    os.chmod(path, 0o777)
    server.listen(5)
    reach = f"import socket\ns = socket.socket(socket.AF_UNIX); s.connect({path!r}); print('reached')"
    as_any = ["setpriv", "--reuid=64996", "--regid=64996", "--clear-groups", "/usr/bin/python3", "-c", reach]
    equal(subprocess.run(as_any, capture_output=True, text=True).stdout, "reached\n", "control: any user may")
    datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    datagram.bind(path + "2")
    os.chmod(path + "2", 0o777)
    with d.sandbox(runtime="landlock") as sb:
        check("PermissionError" in sb.exec("python3", "-c", reach)["stderr"], "a host's socket was reached")
        pair = f"import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\na.sendto(b'x', {path + '2'!r})"
        check("PermissionError" in sb.exec("python3", "-c", pair)["stderr"], "a pair can send elsewhere")
        equal(sb.exec("python3", "-c", "import socket\na, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))")["stdout"], "b'x'\n")
        for call in ("shmget(1, 4096, 0o1600)", "msgget(1, 0o1600)", "semget(1, 1, 0o1600)", "mq_open(b'/x', 0o102, 0o600, None)", "inotify_init()"):
            r = sb.exec("python3", "-c", f"import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nprint(c.{call}, ctypes.get_errno())")
            check(r["stdout"].split()[0] == "-1" and r["stdout"].split()[1] in ("1", "38"), (call, r))
    datagram.close()
    server.close()


@test("ps shows the sandbox's processes and no others")
def test_ps_shows_the_sandbox_processes_and_no_others():
    d = ours()
    with d.sandbox(runtime="landlock") as sb:
        pids = in_background(sb, f"56.{os.getpid()}")
        a = d.get(sb.path + "/processes")
        if a.status == 404:
            raise Skip("no such route")
        seen = {p["pid"] for p in a.json["processes"]}
        check(set(pids) <= seen and os.getpid() not in seen and 1 not in seen, a.json)


@test("isolation: restricted is more than none and less than namespaces")
def test_isolation_restricted_is_more_than_none_and_less():
    d = ours()
    a = d.post("/v1/sandboxes", {"runtime": "landlock", "min_isolation": "namespaces"})
    check(a.status == 422 and "restricted" in a.json["error"]["message"], a)
    d.sandbox(runtime="landlock", min_isolation="restricted").delete()
    with make(None, None, "-runtime", "process") as p:
        sb = p.sandbox(min_isolation="restricted")
        equal(sb.created["runtime"], "landlock")


@test("programs that people use work in it")
def test_programs_that_people_use_work():
    with ours().sandbox(runtime="landlock") as sb:
        for script, want in (("bash -c 'cat <(echo substituted)'", "substituted\n"), ("python3 -c 'import ssl, sqlite3, subprocess; print(subprocess.check_output([\"echo\", \"sub\"]).decode())'", "sub\n\n"),
                             ("perl -e 'print \"perl\\n\"'", "perl\n"), ("echo a | tee f | wc -c; cmp f f && tar c f | tar t", "2\nf\n"),
                             ("command -v git >/dev/null || { echo x; exit; }; git init -q r && cd r && echo x > f && git add f && git -c user.name=n -c user.email=e commit -qm m && cat f", "x\n"),
                             ("command -v node >/dev/null || { echo 2; exit; }; node -e 'console.log(1 + 1)'", "2\n")):
            r = sb.sh(script)
            equal(r["stdout"], want, r)


main()
