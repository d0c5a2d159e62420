# SPDX-License-Identifier: Apache-2.0
"""SHARE=1: what is measured gets nearly all of the processors, on a machine that does other work beside it.

A latency's 99th percentile on a busy machine is the time that a process waits for its turn, whatever the daemon does. With
this the daemon, its sandboxes and the load are in control groups whose weight leaves the rest about one part in a hundred,
and the kernel's threads that take networks apart and end grace periods come first, since a create waits for locks that they
hold. Caches are still shared, and threads that the kernel adds meanwhile are not among these: it is nearer to a quiet machine
than without, and not the same. For runs of seconds: others stand still."""
import atexit
import glob
import os

ROOT, WEIGHT = ("/sys/fs/cgroup/cpu", ("cpu.shares", "262144")) if os.path.isdir("/sys/fs/cgroup/cpu") else \
               ("/sys/fs/cgroup", ("cpu.weight", "10000"))
OWN = f"{ROOT}/mas-bench-{os.getpid()}"
WANTED = os.environ.get("SHARE") == "1"


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def weigh(group):
    write(os.path.join(group, WEIGHT[0]), WEIGHT[1])


def kernel_threads():
    for comm in glob.glob("/proc/[0-9]*/comm"):
        pid = int(comm.split("/")[2])
        try:
            with open(comm) as f:
                if f.read().startswith(("kworker/", "rcu", "ksoftirqd/")) and os.getpriority(os.PRIO_PROCESS, pid) == 0:
                    yield pid
        except OSError:
            pass  # it ended


def set_priority(pids, value):
    for pid in pids:
        try:
            os.setpriority(os.PRIO_PROCESS, pid, value)
        except OSError:
            pass


def leave():
    with open(f"{OWN}/cgroup.procs") as f:
        for pid in f.read().split():
            write(f"{ROOT}/cgroup.procs", pid)
    os.rmdir(OWN)


def enter():
    """This process and what it starts from now on; before the first daemon."""
    if WANTED and not os.path.isdir(OWN):
        os.mkdir(OWN)
        weigh(OWN)
        write(f"{OWN}/cgroup.procs", str(os.getpid()))
        atexit.register(leave)
        threads = list(kernel_threads())
        set_priority(threads, -19)
        atexit.register(set_priority, threads, 0)


def add_sandboxes(warden_pid):
    """The group in which that warden makes its sandboxes' own."""
    if WANTED:
        for group in glob.glob(f"{ROOT}/mas-sandbox-{warden_pid}-*"):
            weigh(group)
