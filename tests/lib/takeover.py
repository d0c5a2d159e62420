# SPDX-License-Identifier: Apache-2.0
"""What a process of ours could still do if its code were an attacker's: calls are made in it by
build/tests/security/take-over, and what the kernel holds of it is in /proc."""
import os
import struct
import subprocess

from masd import BUILD, Skip, check, equal, status_of

PROGRAM = os.path.join(BUILD, "tests/security/take-over")
CLONE_NEWUSER, SIGCHLD, EPERM, ENOSYS = 0x10000000, 17, 1, 38
CLONE_ARGS = "hex:" + struct.pack("=8Q", CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0).hex()

# Numbers of x86-64, on which alone take-over works.
NAMESPACES = {"unshare": (272, CLONE_NEWUSER), "clone": (56, CLONE_NEWUSER | SIGCHLD), "clone3": (435, CLONE_ARGS, 64)}
# Nothing of these works in any process that has a list, whatever its arguments are.
OTHERS = {"mount": (165, "text:x", "text:/", "text:tmpfs"), "pivot_root": (155, "text:/", "text:/"), "ptrace": (101, 16, 1),
          "bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0), "userfaultfd": (323, 0), "io_uring_setup": (425, 1, 0),
          "keyctl": (250, 0, 0, 0), "init_module": (175, 0, 0, "text:"), "kexec_load": (246, 0, 0, 0, 0), "reboot": (169, 0, 0, 0),
          "open_by_handle_at": (304, -100, 0, 0), "process_vm_writev": (311, 1, 0, 0, 0, 0, 0)}


def take_over(pid, number, *arguments):
    """What the call answers in that process; an error is negative."""
    p = subprocess.run([PROGRAM, str(pid), str(number), *map(str, arguments)], capture_output=True, text=True, timeout=60)
    if p.returncode == 77:
        raise Skip(p.stderr.strip())
    check(p.returncode == 0, f"take-over of {pid}: {p.stderr}")
    return int(p.stdout)


def control():
    """That each namespace can be made where there is no wall, so that a refusal means something."""
    for name, call in NAMESPACES.items():
        with subprocess.Popen(["sleep", "60"]) as p:
            try:
                check(take_over(p.pid, *call) >= 0, f"control: {name} makes a user namespace in a process without walls")
            finally:
                p.kill()


def refuses(pid, who, calls):
    for name, call in calls.items():
        equal(take_over(pid, *call) in (-EPERM, -ENOSYS), True, f"{who}: {name} is refused")


def confined(pid, who, bounding=0, effective=0):
    """A list of system calls in every thread, no new privileges, no capability beyond those; no namespace."""
    for task in os.listdir(f"/proc/{pid}/task"):
        s = status_of(pid, task)
        equal((s["Seccomp"], s["NoNewPrivs"]), ("2", "1"), f"{who}, thread {task}: filter, no_new_privs")
        equal(int(s["CapBnd"], 16) & ~bounding, 0, f"{who}: bounding set {s['CapBnd']}")
        equal(int(s["CapEff"], 16) & ~effective, 0, f"{who}: capabilities {s['CapEff']}")
    refuses(pid, who, NAMESPACES)
    refuses(pid, who, OTHERS)
