# SPDX-License-Identifier: Apache-2.0
"""What is otherwise on gVisor (runsc 20221219), attempt by attempt, and why.

Attempts are made there as everywhere; where its kernel answers otherwise than Linux with our filter,
the answer is here, and another one fails the test. "works": it does, and the reason says why it may."""

NO_CALL = "its kernel has no such call"
NO_FAMILY = "its kernel has no such family of sockets"
NO_FILE = "its kernel has no such file"
PROC = "/proc of another user's process can be read: the runner's has no secrets, and its connection is a socket"
OWN = "it concerns the sandbox's own kernel, which is nobody's but its own"
NUMBERS = "int 0x80 makes the 64-bit call of that number there"
POINTERS = NUMBERS + ", whose pointers these are not"

_TABLE = (
    ("EOPNOTSUPP", "its file systems have no handles", "P1 a file by its handle: open_by_handle_at",
     "P11 name_to_handle_at"),
    ("works", PROC, "P1 the runner's descriptors: /proc/1/fd", "P5 read the runner's environment",
     "P5 read the runner's memory map"),
    ("ENOENT", NO_FILE, "P1 mapped files of the runner: /proc/1/map_files",
     "P5 read the runner's registers: /proc/1/syscall", "P5 slow the runner down: timer slack",
     "P10 join the runner's namespaces: mnt", "P10 join its own: setns"),
    ("ENOSYS", NO_CALL, "P3 the new mount calls: fsopen, fsmount", "P3 the new mount calls: open_tree, move_mount",
     "P3 mount_setattr", "P5 read the runner's memory: process_vm_readv", "P5 signal the runner by pidfd"),
    ("works", OWN, "P5 slow the runner down: setpriority", "P5 slow the runner down: sched_setaffinity",
     "P9 a better nice value", "P9 be spared by the OOM killer", "P9 be killed after the daemon"),
    ("works", "that is /dev/null; a socket cannot be opened by its path",
     "P5 write to the runner's connection: /proc/1/fd/3"),
    ("EHOSTUNREACH", "its network has loopback alone, and says so in its own way", "P7 an address of the world",
     "P7 the cloud's metadata address"),
    ("EAFNOSUPPORT", NO_FAMILY, "P7 the hypervisor: AF_VSOCK", "P7 another family: AF_ALG",
     "P7 another family: AF_BLUETOOTH", "P7 another family: AF_CAN", "P7 another family: AF_TIPC",
     "P7 another family: AF_KEY", "P7 another family: AF_RDS", "P7 another family: AF_X25", "P7 another family: AF_XDP",
     "P7 another family: AF_QIPCRTR", "P7 other families through socketpair: AF_VSOCK"),
    ("EPROTONOSUPPORT", NO_FAMILY, "P7 netlink: audit", "P7 netlink: netfilter", "P7 netlink: generic",
     "P7 netlink: sock_diag", "P7 netlink: xfrm", "P7 netlink: connector", "P7 netlink: crypto"),
    ("works", OWN + "; nothing is ever sent there", "P7 netlink: uevents",
     "P7 other families through socketpair: netlink audit"),
    ("EINVAL", NO_FAMILY, "P7 other TCP: multipath"),
    ("works", OWN + "; its interfaces lead nowhere", "P7 add an interface"),
    ("ENOTTY", "its sockets have no such ioctl", "P7 take loopback down"),
    ("EBADFD", "it is of its own kernel, and belongs to no interface", "P8 open /dev/net/tun"),
    ("EINVAL", "its kernel has one scheduler", "P9 real-time priority"),
    ("works", OWN + "; what it gains there is tried below", "P10 unshare: user", "P10 unshare: mount",
     "P10 unshare: cgroup", "P10 unshare: time", "P10 clone into a user namespace"),
    ("EOPNOTSUPP", "its namespaces cannot be joined", "P10 join the runner's namespaces: user",
     "P10 join the runner's namespaces: pid", "P10 join the runner's namespaces: net"),
    ("EACCES", "its kernel has no keys", "P11 add_key", "P11 request_key", "P11 keyctl"),
    ("ENODEV", "its kernel has no counters", "P11 perf_event_open"),
    ("works", OWN + "; its log is made up", "P11 syslog"),
    ("works", OWN + "; a ring of Go, without a thread of the host's kernel", "P11 io_uring_setup"),
    ("EINVAL", "its kernel has one personality", "P11 personality"),
    ("EFAULT", POINTERS, "P11 i386: mount", "P11 i386: a user namespace by clone", "P11 i386: swapon"),
    ("ENOSYS", NUMBERS, "P11 i386: a user namespace by unshare", "P11 i386: bpf"),
    ("works", NUMBERS + ": msync, getuid", "P11 i386: ptrace the runner", "P11 i386: socketcall of a packet socket",
     "P11 i386: socketcall of netlink audit", "P11 i386: socketcall of a pair of another family"),
    ("EINVAL", NUMBERS, "P11 i386: keyctl", "P11 i386: io_uring_setup"),
    ("EINVAL", "its terminals have no such ioctl", "P12 type into a terminal: TIOCSTI",
     "P12 TIOCSTI with bits above 32", "P12 another line discipline, loaded for it: TIOCSETD", "P12 TIOCLINUX"),
)

ANSWERS = {name: (answer, reason) for answer, reason, *names in _TABLE for name in names}

# In a user namespace of its own a tool has all capabilities of that namespace: what it then tries.
IN_USER_NAMESPACE = r"""
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
own = os.getuid()
libc.unshare(0x10020000)
for name in ("uid_map", "gid_map"):
    open("/proc/self/" + name, "w").write(f"0 {own} 1")
print("uid", os.getuid())
def call(name, *args):
    print(name, "works" if getattr(libc, name)(*args) >= 0 else "refused")
def path(name, fn):
    try:
        fn()
        print(name, "works")
    except OSError:
        print(name, "refused")
call("mount", b"x", b"/tmp", b"tmpfs", 0, None)
call("mount", b"/", b"/tmp", None, 4096, None)
call("mount", None, b"/", None, 32, None)
call("umount2", b"/proc", 2)
call("kill", 1, 9)
call("ptrace", 0x4206, 1, 0, 0)
call("sethostname", b"x", 1)
path("connect", lambda: socket.socket(socket.AF_UNIX).connect("/.mas/link/runner.sock"))
path("list", lambda: os.listdir("/.mas/link"))
path("mem", lambda: open("/proc/1/mem", "rb"))
path("root", lambda: os.listdir("/proc/1/root"))
path("mknod", lambda: os.mknod("/workspace/node", 0o20666, os.makedev(1, 1)))
for p in ("/x", "/etc/x", "/usr/x", "/.mas/x", "/.mas/run/x", "/dev/x"):
    path("create", lambda: open(p, "w"))
"""
