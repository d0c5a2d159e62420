#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attempts from inside a pod: at its link and its channel, the API server, the kubelet, the address of clouds' metadata, another
sandbox, the node's files, tokens, and what our system call filter and Landlock keep closed besides the cluster's own walls. The
sandboxes are reached by the direct carrier, so that every door is there."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../security"))
os.environ["MAS_RUNTIME"] = "kube"
from world import *
from attempt import put_attack, refused

cluster, token = start_world()
apply_objects(cluster, "direct")
HOST_LIKE = "docker.example/base:host"
host_like_image(HOST_LIKE)
d = Daemon(*daemon_flags(token, HOST_LIKE), *DIRECT, "--kube-uid-first", "100000", "--kube-unproven-network", "--default-cpu-cores", "0.4",
           runtime="kube").start()
wait_for(lambda: runtime_report(d)["available"], lambda: f"the cluster is there: {runtime_report(d)}\n{d.log_text()}")
a, b = (d.sandbox(runtime="kube") for _ in range(2))
put_attack(a)
NODE_FILE = "/etc/shadow"
# Without an enforcer of NetworkPolicies a packet may arrive; what counts is that nothing is given away.
FETCH = """
import http.client, ssl, sys
where, port, path, tls = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "tls"
kind = http.client.HTTPSConnection if tls else http.client.HTTPConnection
c = kind(where, port, timeout=5, **({"context": ssl._create_unverified_context()} if tls else {}))
try:
    c.request("GET", path)
    print(c.getresponse().status)
except OSError as e:
    print("closed")
"""


def fetch(where, port, path, tls="tls"):
    r = a.exec("python3", "-c", FETCH, where, str(port), path, tls, timeout_ms=20000)
    check(r["stdout"].strip(), r)
    return r["stdout"].strip()


def status_of(sandbox):
    return cluster.get(f"/api/v1/namespaces/{sandbox.id}/pods/sandbox")["status"]


def bash(sandbox, script):
    return sandbox.exec("bash", "-c", script, timeout_ms=20000)


@test("a command has our filter besides the cluster's, no rights, and no way to more")
def filter_and_rights():
    facts = a.sh("grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp|Seccomp_filters):' /proc/self/status | tr -d '\\t'")["stdout"].split()
    equal(facts[:4], ["CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"])
    check(int(facts[4].split(":")[1]) >= 2, f"filters: {facts}")
    equal(d.get(a.path).json["effective"]["syscalls"]["by"], "seccomp")
    # Each is allowed by the cluster's own filter, and works there or fails in another way.
    for attempt, errors in ((("socket", 16, 3, 15), "EPERM"), (("sys", 206, 0, 0), "ENOSYS"), (("unshare", 0x10000000), "EPERM"),
                            (("clone", 0x10000000), "EPERM"), (("sys", 317, 1, 0, 0), "EINVAL"), (("sys", 425, 1, 0), "ENOSYS EPERM")):
        refused(a, *attempt, errors=errors)
    for attempt in (("setuid", 0), ("setuid", 100001), ("setgid", 0), ("setgroups", 0), ("has-capability",), ("euid-root",),
                    ("chroot", "/tmp"), ("mount", "x", "/tmp", "tmpfs"), ("new-mount-api",), ("mknod", "/tmp/sda", "b", 8, 0)):
        refused(a, *attempt)


@test("the runner, the link and the node's processes are out of reach")
def processes_inside():
    for attempt in (("ptrace", 1), ("vm-read", 1, 4194304), ("kill", 1, 0), ("pidfd-kill", 1, 9), ("pidfd-getfd", 1, 3),
                    ("read", "/proc/1/environ"), ("read", "/proc/1/mem"), ("list", "/proc/1/fd"), ("list", "/proc/1/map_files"),
                    ("read", f"/proc/1/root{NODE_FILE}"), ("setns", "/proc/1/ns/net"), ("leaked-fds",)):
        refused(a, *attempt)
    names = a.sh("cat /proc/[0-9]*/comm")["stdout"]
    check("mas-toolrunner" in names and "mas-link" not in names and "kubelet" not in names, names)


@test("link and channel: no socket that a command could use, and its port is closed before a byte")
def link_doors():
    equal(a.sh("ls -A /mas-channel; ls -d /mas-link-door 2>/dev/null; find / -xdev -type s 2>/dev/null")["stdout"], "", "sockets")
    for path in ("/mas-channel/socket", "/mas-link-door/socket", "/run/containerd/containerd.sock", SOCKET):
        refused(a, "connect-path", path, errors="ENOENT ECONNREFUSED EACCES")
    refused(a, "create", "/mas-channel/socket")
    refused(a, "write", "/mas/mas-toolrunner", "x")
    address = status_of(a)["podIP"]
    for where in ("127.0.0.1", address):
        equal(bash(a, f"exec 3<>/dev/tcp/{where}/7443 && head -c 1 <&3 | wc -c")["stdout"].strip(), "0", where)
    equal(a.sh("echo alive")["stdout"], "alive\n", "its connection")


@test("another sandbox: its link lets no stranger in, and its files and processes are not there")
def other_sandbox():
    b.sh("echo secret >/workspace/secret-of-b; (sleep 4321 >/dev/null 2>&1 &)")
    address = status_of(b)["podIP"]
    answer = bash(a, f"exec 3<>/dev/tcp/{address}/7443 && printf 'hello\\n\\n' >&3 && timeout 10 cat <&3 | od -An -c | head")
    check("M A S R U N" not in answer["stdout"] and "secret" not in answer["stdout"], answer)
    equal(a.sh("find / -name secret-of-b 2>/dev/null; cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[4]321'")["stdout"].strip(), "0")
    equal(b.sh("cat /workspace/secret-of-b")["stdout"], "secret\n", "the other one goes on")


@test("no token, and nothing that the API server or the kubelet would take for one")
def tokens():
    equal(a.sh("ls -A /var/run/secrets /run/secrets 2>/dev/null; env | grep -i -E 'token|kube|secret'; "
               "find / -xdev \\( -name token -o -name '*.kubeconfig' -o -name ca.crt \\) 2>/dev/null")["stdout"], "", "found")
    check(token not in a.sh("cat /proc/self/environ /proc/self/mountinfo | tr '\\0' '\\n'")["stdout"], "the broker's token")
    for port, path in ((PORT, "/api/v1/namespaces/kube-system/secrets"), (PORT, f"/api/v1/namespaces/{a.id}/pods/sandbox"),
                       (10250, "/pods"), (10250, "/runningpods/"), (10250, f"/exec/{b.id}/sandbox/sandbox?command=id")):
        check(fetch(ADDRESS, port, path) in ("401", "403", "closed"), f"{port}{path}: {fetch(ADDRESS, port, path)}")
    check(fetch(ADDRESS, 10255, "/pods", "plain") == "closed", "the kubelet's port without authentication")
    check(fetch(ADDRESS, ETCD, "/version") == "closed", "etcd")


@test("clouds' metadata does not answer")
def metadata():
    equal(fetch("169.254.169.254", 80, "/latest/meta-data/", "plain"), "closed")


@test("the node's paths: nothing of its disk but what the kubelet puts into every container, and that is not writable")
def node_paths():
    mounts = [line.split() for line in a.sh("cat /proc/self/mountinfo")["stdout"].splitlines()]
    disk = {m[4] for m in mounts if "/run/kube" in m[3] or m[m.index("-") + 1] not in (
        "tmpfs", "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "overlay")}
    check(disk <= {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log", "/mas", "/mas-channel", "/workspace",
                   "/cache", "/tmp", "/home/sandbox", "/dev/shm"}, disk)
    for path in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/proc/sys/kernel/core_pattern",
                 "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run", "/sys/fs/cgroup/cgroup.procs"):
        refused(a, "write", path, "x")
    for path in ("/proc/kcore", "/proc/kmsg", "/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda"):
        refused(a, "read", path)
    equal(a.sh(f"cat {NODE_FILE} 2>/dev/null | grep -c root")["stdout"].strip(), "0", "the node's passwords")
    for path in ("/var/lib/kubelet", f"{HOME}", "/var/lib/containerd", "/run/containerd"):
        refused(a, "list", path, errors="ENOENT EACCES")


@test("a command that lowers its runner's limits ends its own sandbox at most")
def own_harm():
    put_attack(b)
    b.exec("/workspace/attack", "prlimit", "1")
    b.exec("python3", "-c", "import resource as r\nfor n in (r.RLIMIT_NOFILE, r.RLIMIT_CPU, r.RLIMIT_FSIZE): r.prlimit(1, n, (0, 0))")
    for _ in range(2):
        answer = d.post(b.path + "/exec", {"command": ["true"]})
        check(answer.status in (200, 404, 409, 410, 422, 429, 502, 503, 507), answer)
    equal(a.sh("echo here")["stdout"], "here\n", "the neighbour")


main()
