# SPDX-License-Identifier: Apache-2.0
"""What the security tests share: the attack program in and outside of sandboxes.

An attempt is one run of build/tests/security/attack: exit 0 means that it worked. Inside it must be
refused; the control runs the same attempt where the wall is missing and must work, so that a test
that cannot fail is noticed. Test names start with the promise of SECURITY.md they try: "P3 ...".
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
import fenced
import gvisor
import pods
from masd import *

ATTACK = os.path.join(BUILD, "tests/security/attack")
INSIDE = "/workspace/attack"  # where the runtime has a root of its own
RUNTIME = os.environ.get("MAS_RUNTIME", "local")

# Private namespaces for controls that would otherwise change something of the host.
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--ipc", "--net", "--uts", "--cgroup",
              "--mount-proc"]


GVISOR = RUNTIME.split("-")[-1] == "gvisor"
LANDLOCK = RUNTIME == "landlock"
POD = RUNTIME == "kube"
LOOK_MS = 10000  # a look at command lines in a kernel of its own, on a busy host
ANSWERS = gvisor.ANSWERS if GVISOR else fenced.ANSWERS if LANDLOCK else pods.ANSWERS if POD else {}
# docker without user namespaces of its own: the runner is the host's root with three rights, the tool has an
# id of the daemon's range inside, too. `effective` says "host uids".
DOCKER = RUNTIME.split("-")[0] == "docker"


def on_gvisor(reason, there, elsewhere):
    """What a test expects there, and elsewhere; the reason is said."""
    if GVISOR:
        print(f"# on gVisor: {reason}")
    return there if GVISOR else elsewhere


def on_landlock(reason, there, elsewhere):
    """The same for a runtime without namespaces."""
    if LANDLOCK:
        print(f"# on landlock: {reason}")
    return there if LANDLOCK else elsewhere


def in_pod(reason, there, elsewhere):
    """The same for pods."""
    if POD:
        print(f"# in a pod: {reason}")
    return there if POD else elsewhere


def workdir(sb):
    return sb.created["workdir"]


def tmpdir(sb):
    return os.path.dirname(workdir(sb)) + "/tmp" if LANDLOCK else "/tmp"


def tool_uid(sb):
    return sb.sh("id -u")["stdout"].strip() if LANDLOCK or DOCKER or POD else "1000"


def attack(sb):
    return workdir(sb) + "/attack"


def runner_of(sb):
    """The runner's pid as its commands see it."""
    if not LANDLOCK:
        return 1
    return next(p for p in processes("mas-toolrunner --fd") if workdir(sb) in command_of(p))


def put_attack(sb, path=None):
    path = path or attack(sb)
    with open(ATTACK, "rb") as f:
        a = sb.daemon.put(f"{sb.path}/files/content?path={path}&mode=755", f.read())
    check(a.status in (200, 201, 204), f"upload of the attack program: {a}")


def inside(sb, *args, path=None, **spec):
    """The attempt's (exit code, stdout) inside."""
    r = sb.exec(path or attack(sb), *[str(a) for a in args], **spec)
    return r["exit_code"], r["stdout"]


def refused(sb, *args, errors=None, **spec):
    code, out = inside(sb, *args, **spec)
    if code == 128 + signal.SIGSYS and args[0] == "x32" and RUNTIME in ("crun", "runc", "podman", "docker"):
        return "SIGSYS"  # the container runtime's own filter kills for a foreign architecture
    check(code == 1, f"the attempt {args} was not refused: exit {code}, {out[:500]!r}")
    name = out.split("refused ")[-1].strip()
    check(errors is None or name in errors.split(), f"{args}: refused with {name}, not {errors}")
    return name


def terminal(sb, *argv):
    """What a command writes to a terminal of the API's."""
    a = sb.daemon.post(sb.path + "/exec", {"command": list(argv), "pty": True, "async": True})
    check(a.status in (200, 201, 202), a)
    path = f"/sandboxes/{sb.id}/stream?exec_id={a.json['exec_id']}"
    return "".join(e.get("data", "") for e in sb.daemon.ws(path).events())


def outside(*args, private=False, user=None, prefix=()):
    """The same attempt on the host: (exit code, stdout)."""
    argv = list(prefix) + (NAMESPACES if private else [])
    if user is not None:
        argv += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    p = subprocess.run(argv + [ATTACK] + [str(a) for a in args], stdout=subprocess.PIPE,
                       stdin=subprocess.DEVNULL, timeout=60)
    return p.returncode, p.stdout.decode(errors="replace")


def works(*args, **how):
    """The control: fails unless the attempt works outside."""
    code, out = outside(*args, **how)
    check(code == 0, f"the control of {args} does not work: exit {code}, {out[:500]!r}")
    return out


def reaches_kernel(*args, **how):
    """The control of what is too dangerous to let work: outside it is not refused as inside."""
    code, out = outside(*args, **how)
    check(code == 0 or not any(e in out for e in ("EPERM", "EACCES")),
          f"the control of {args} is refused like inside: {out!r}")


HELPER_SPY = r"""
import os, subprocess, time
end = time.time() + 60
found = None
while not found and time.time() < end:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                if int(pid) not in (1, os.getpid()) and "mas-toolrunner" in f.read():
                    found = pid
        except OSError:
            pass
print("helper", found)
for path in ("mem", "environ", "maps", "fd", "map_files", "root/", "cwd/"):
    try:
        full = f"/proc/{found}/{path}"
        os.listdir(full) if path[-1] in "/ds" and path != "maps" else open(full, "rb").read(1)
        print("worked", path)
    except OSError as e:
        print("refused", path, e.strerror)
print(subprocess.run(["ATTACK", "ptrace", found], stdout=subprocess.PIPE).stdout.decode())
"""


def spy_on_helper(sb):
    """Looks into the process that serves a slow upload: a copy of the runner, as the tool's user."""
    d = sb.daemon
    def start(found):
        spy = HELPER_SPY.replace("found = None", f"found = {found!r}", 1).replace("ATTACK", attack(sb))
        a = d.post(sb.path + "/exec", {"command": ["python3", "-c", spy], "async": True})
        check(a.status in (200, 201, 202), a)
        return a
    if not LANDLOCK:
        a = start(None)
    s = d.connect()
    head = (f"PUT {sb.path}/files/content?path={workdir(sb)}/slow HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{d.port}\r\nContent-Length: 100000\r\n\r\n")
    s.sendall(head.encode() + b"x" * 1000)
    if LANDLOCK:  # commands see no process, so this one is told which
        runner = runner_of(sb)
        wait_for(lambda: below(runner), "the helper")
        a = start(str(below(runner)[0]))
    stream = f"/sandboxes/{sb.id}/stream?exec_id={a.json['exec_id']}"
    out = "".join(e.get("data", "") for e in d.ws(stream).events())
    s.close()
    check("helper None" not in out and "helper " in out, f"control: a helper was there: {out}")
    seen = on_gvisor(gvisor.PROC, {"environ", "maps", "fd"}, set())
    equal({line.split()[1] for line in out.splitlines() if line.startswith("worked")}, seen, out)
    check("refused EPERM" in out, out)


def kernels(d):
    """gVisor's own processes on this host: the kernels of this daemon's sandboxes, and who serves their files."""
    if DOCKER:  # nobody's children here; they name the engine's directory
        return [p for p in processes(os.environ["ENGINE_DIR"] + "/") if command_of(p).startswith("runsc-")]
    return [p for p in below(d.get("/v1/status").json["warden_pid"]) if command_of(p).startswith("runsc-")]


def running(sb, marker):
    """Command lines with the marker: on the host, or inside, where the host's kernel knows none of them."""
    if not GVISOR:
        return processes(marker)
    look = sb.sh("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null", timeout_ms=LOOK_MS)
    if look["exit_code"] != 0:  # what is looked for may have stopped the one who looks
        raise OSError(f"the command lines were not read: {look}")
    out = look["stdout"]
    return [line for line in out.splitlines() if marker in line]


def left(d, marker):
    """What of a deleted sandbox still runs on this host."""
    return kernels(d) if GVISOR else processes(marker)
