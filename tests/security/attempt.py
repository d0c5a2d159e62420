"""What the security tests share: the attack program in and outside of sandboxes.

An attempt is one run of build/tests/security/attack: exit 0 means that it worked. Inside it must be
refused; the control runs the same attempt where the wall is missing and must work, so that a test
that cannot fail is noticed. Test names start with the promise of SECURITY.md they try: "P3 ...".
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ATTACK = os.path.join(BUILD, "tests/security/attack")
INSIDE = "/workspace/attack"
RUNTIME = os.environ.get("MAS_RUNTIME", "local")

# Private namespaces for controls that would otherwise change something of the host.
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--ipc", "--net", "--uts", "--cgroup",
              "--mount-proc"]


# What is otherwise on gVisor (20221219), and why: the attempt is made, and must end as the reason says.
PROC = "its /proc of another user's process can be read: the runner's has no secrets, and its connection is a socket"
OWN = "it concerns the sandbox's own kernel, which is nobody's but its own"
HOST = "the test looks for processes on the host, which knows only the kernel that they run on"
NUMBERS = "int 0x80 makes the 64-bit call of that number there, through the same filter"
OWN_GVISOR = {
    "P1 the runner's descriptors: /proc/1/fd": PROC,
    "P1 the host's directories are not there": "ls fails on a flag of statx that it does not know",
    "P5 read the runner's environment": PROC,
    "P5 read the runner's memory map": PROC,
    "P5 slow the runner down: setpriority": OWN,
    "P5 slow the runner down: sched_setaffinity": OWN,
    "P5 write to the runner's connection: /proc/1/fd/3": "that is /dev/null; a socket cannot be opened by its path",
    "P5 a command's own streams are its own: it may open them again, and nobody else's": "its pipes have no modes",
    "P5 the runner's helpers: what serves an upload cannot be looked into": PROC,
    "P6 the neighbour's processes: neither seen nor signalled": HOST,
    "P6 two sandboxes have no host user in common": HOST,
    "P7 add an interface": OWN,
    "P7 netlink: uevents": OWN,
    "P7 other families through socketpair: netlink audit": OWN,
    "P10 unshare: user": OWN,
    "P10 unshare: mount": OWN,
    "P10 unshare: cgroup": OWN,
    "P10 unshare: time": OWN,
    "P10 clone into a user namespace": OWN,
    "P11 io_uring_setup": OWN,
    "P11 syslog": "its log is its own, and made up",
    "P8 only the harmless devices exist": "its /dev has tun and fuse, of its own kernel",
    "P9 a better nice value": OWN,
    "P9 be spared by the OOM killer": OWN,
    "P9 be killed after the daemon": OWN,
    "P9 no_new_privs, an empty bounding set but for the runner's, a filter": "its /proc/self/status has no NoNewPrivs",
    "P11 i386: ptrace the runner": NUMBERS,
    "P11 i386: socketcall of a packet socket": NUMBERS,
    "P11 i386: socketcall of netlink audit": NUMBERS,
    "P11 i386: socketcall of a pair of another family": NUMBERS,
    "P12 a terminal of the API is its own: no typing, no other's": "it has no TIOCSTI to refuse",
    "P13 the cgroup's place on the host does not show": "it has no cgroups",
    "P17 no gateway where the network was not asked for": "ls fails on a flag of statx that it does not know",
}
STOPPED = "P5 stopping every process does not stop the sandbox's end"
OWN_GVISOR[STOPPED] = "a tool that stops each new process of its own sandbox keeps commands from starting there"
CHANCE = {STOPPED}  # a race that a tool may lose
if RUNTIME == "gvisor":
    plain_test = test

    def test(name):
        """As ever; but for the tests above, which must not pass, or their reason is none any more."""
        def add(fn):
            def differs():
                try:
                    fn()
                except (AssertionError, OSError):
                    print(f"# on gVisor: {OWN_GVISOR[name]}")
                    return
                if name in CHANCE:
                    return
                raise AssertionError(f"passes on gVisor now: {OWN_GVISOR[name]!r} is out of date")
            plain_test(name)(differs if name in OWN_GVISOR else fn)
            return fn
        return add


def put_attack(sb, path=INSIDE):
    with open(ATTACK, "rb") as f:
        a = sb.daemon.put(f"{sb.path}/files/content?path={path}&mode=755", f.read())
    check(a.status in (200, 201, 204), f"upload of the attack program: {a}")


def inside(sb, *args, path=INSIDE, **spec):
    """The attempt's (exit code, stdout) inside."""
    r = sb.exec(path, *[str(a) for a in args], **spec)
    return r["exit_code"], r["stdout"]


def refused(sb, *args, errors=None, **spec):
    code, out = inside(sb, *args, **spec)
    if code == 128 + signal.SIGSYS and args[0] == "x32" and RUNTIME in ("crun", "runc"):
        return "SIGSYS"  # the container runtime's own filter kills for a foreign architecture
    if RUNTIME == "gvisor":
        errors = None  # its own kernel's answer: ENOSYS, EAFNOSUPPORT, ...
        if code != 0 and args[0].startswith(("i386", "x32")):
            return "killed"  # it has no other call tables
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
end = time.time() + 5
found = None
while not found and time.time() < end:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                if int(pid) > 1 and "mas-toolrunner" in f.read():
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
print(subprocess.run(["/workspace/attack", "ptrace", found], stdout=subprocess.PIPE).stdout.decode())
"""


def spy_on_helper(sb):
    """Looks into the process that serves a slow upload: a copy of the runner, as the tool's user."""
    d = sb.daemon
    path = "/exec"
    a = d.post(sb.path + path, {"command": ["python3", "-c", HELPER_SPY], "async": True})
    check(a.status in (200, 201, 202), a)
    s = d.connect()
    head = (f"PUT {sb.path}/files/content?path=/workspace/slow HTTP/1.1\r\n"
            f"Host: 127.0.0.1:{d.port}\r\nContent-Length: 100000\r\n\r\n")
    s.sendall(head.encode() + b"x" * 1000)
    stream = f"/sandboxes/{sb.id}/stream?exec_id={a.json['exec_id']}"
    out = "".join(e.get("data", "") for e in d.ws(stream).events())
    s.close()
    check("helper None" not in out and "helper " in out, f"control: a helper was there: {out}")
    check("worked" not in out and "refused EPERM" in out, out)


def processes(marker):
    """Pids on this host whose command line contains the marker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if marker.encode() in f.read().replace(b"\0", b" "):
                    found.append(int(pid))
        except OSError:
            pass
    return found
