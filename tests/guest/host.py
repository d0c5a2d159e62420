# SPDX-License-Identifier: Apache-2.0
"""What the guest's tests share: the cgroup version 2 tree of a host with nothing else on it."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../security"))
from attempt import *

TREE = "/sys/fs/cgroup"
PREFIX = "mas-sandbox"
USER, STRANGER = 1000, 1001  # with subordinate ids in /etc/subuid, and without


def groups():
    """Every cgroup of ours, and every one below, as paths."""
    return sorted(path for path, _, _ in os.walk(TREE) if "/" + PREFIX in path)


def group_of(sb):
    """The cgroup of a sandbox, found by the one that a command of its own is in."""
    marker = f"group-of-{sb.id}"
    a = sb.daemon.post(sb.path + "/exec",
                       {"command": ["sh", "-c", f": {marker}; sleep 60"], "async": True})
    check(a.status in (200, 201, 202), a)
    wait_for(lambda: processes(marker), "the command runs")
    path = TREE + proc_text(processes(marker)[0], "cgroup").strip().split("::", 1)[1]
    sb.daemon.post(f"{sb.path}/execs/{a.json['exec_id']}/signal", {"signal": "KILL"})
    return path


def read(group, name):
    with open(os.path.join(group, name)) as f:
        return f.read().strip()


def number(group, name, key):
    """The value behind a key of a file like cpu.stat."""
    for line in read(group, name).splitlines():
        if line.split()[0] == key:
            return int(line.split()[1])
    raise AssertionError(f"{name} has no {key}")


def write(group, name, text):
    with open(os.path.join(group, name), "w") as f:
        f.write(text)


def make_group(name, controllers="cpu io memory pids", owner=None):
    """A group whose parents hand it these controllers; with an owner, delegated to it."""
    path = TREE
    for part in name.split("/"):
        wanted = " ".join("+" + c for c in controllers.split())
        if path != TREE and read(path, "cgroup.subtree_control") == "":
            write(path, "cgroup.subtree_control", wanted)
        path = os.path.join(path, part)
        os.makedirs(path, exist_ok=True)
    if owner is not None:
        for file in (".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
            os.chown(os.path.join(path, file), owner, owner)
    return path


def start_time(pid):
    """When a process started, as the names of our groups have it."""
    return stat_fields(pid)[19]


def daemon_in(group, *flags, user=None, **kw):
    """A daemon that is started in a group, as a service manager does it, maybe as a user."""
    script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    command = ["/bin/sh", "-c", script, "sh"]
    if user is not None:
        command += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    d = Daemon(*flags, command=command + [SANDBOXD], **kw)
    if user is not None:
        os.chown(d.dir, user, user)
    return d


def effective(d, **spec):
    """The report of a sandbox that is deleted again."""
    with d.sandbox(**spec) as sb:
        return sb.created["effective"]


def by(report, *walls):
    return [report[w]["by"] if report[w] else None for w in walls]


def refused_create(d, wall, **spec):
    """A create that must fail because of this wall, by its name."""
    a = d.post("/v1/sandboxes", spec)
    equal(a.status, 422, f"create with {spec}: {a}")
    equal(a.json["error"]["code"], "unenforceable", "code")
    check(a.json["error"]["message"].startswith(wall + " "), a)
