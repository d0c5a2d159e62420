#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are real pods: made by the broker under the shipped role and admission policy, scheduled by a real
scheduler, started by a real kubelet with containerd and runc, and reached through API server, kubelet, mas-link and the
runner by the exec carrier. What is said of their walls is looked at from inside."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from world import *
from broker import *

PEER = os.path.join(BUILD, "tests/kube/pod-peer")
cluster, token = start_world()


def broker():
    return Broker(kubeconfig=kubeconfig({}, {"token": token}))


def events_of(space):
    return [(e["reason"], e["message"]) for e in cluster.get(f"/api/v1/namespaces/{space}/events")["items"]]


def make(b, name, **members):
    """A pod that runs."""
    b.do(order(CREATE, name, **members))
    try:
        b.wait_told(lambda r: r.name == name and r.phase == RUNNING, "it runs")
    except AssertionError as problem:
        raise AssertionError(f"{problem}\n{events_of('sbx-' + name)}") from problem


def run(b, name, script, generation=1):
    """What a shell command in the pod prints, by a connection of its own. A server that is being killed is tried again."""
    said = []

    def ran():
        r = b.ask(order(CONNECT, name))
        if r.error:
            said.append(r)
            return False
        try:
            p = subprocess.run([PEER, str(r.fds[0]), str(generation), script], pass_fds=r.fds, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
        finally:
            os.close(r.fds[0])
        said.append(p)
        return p.returncode != 99
    wait_for(ran, lambda: f"a command in {name}: {said[-3:]}\n{b.log()}")
    return said[-1].stdout


def pids_of(name):
    """Of the programs with this name, of which this namespace sees all."""
    return [pid for pid in all_pids() if name_of(pid) == name and lives(pid)]


@test("a pod of the broker's manifest runs, and a command in it through the exec carrier")
def pod():
    with broker() as b:
        make(b, "first")
        equal(run(b, "first", "echo hello; echo $((6 * 7))"), "hello\n42\n")
        equal(run(b, "first", "seq 100000"), "".join(f"{i}\n" for i in range(1, 100001)), "half a megabyte")
        b.do(order(DELETE, "first"))
        equal(cluster.get("/api/v1/namespaces/sbx-first"), None, "what the controllers left of it")


@test("its walls, from inside: user, rights, filter, root, limits, no token, no door, no other process")
def walls():
    with broker() as b:
        make(b, "walls", slot=3)
        facts = run(b, "walls", "id -u; id -g; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'")
        equal(facts.split(), ["100006", "100006", "CapEff:0000000000000000", "CapBnd:0000000000000000", "NoNewPrivs:1", "Seccomp:2"])
        check(int(run(b, "walls", "sed -n 's/^Seccomp_filters:[^0-9]*//p' /proc/self/status")) >= 2, "our filter besides the cluster's")
        equal(run(b, "walls", "touch /x /usr/x /mas/x 2>/dev/null; ls -d /x /usr/x /mas/x 2>/dev/null"), "", "what was written")
        equal(run(b, "walls", "for d in /workspace /cache /tmp /home/sandbox; do echo x >$d/x && cat $d/x; done"), "x\n" * 4)
        equal(run(b, "walls", "ls /mas-channel /mas-link-door /var/run/secrets 2>/dev/null"), "/mas-channel:\n", "doors and tokens")
        equal(run(b, "walls", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max").strip(),
              str(256 * MIB), "the limit of memory")
        equal(run(b, "walls", "cat /etc/resolv.conf").strip(), "nameserver 127.0.0.1")
        equal(run(b, "walls", "cat /proc/1/comm").strip(), "mas-toolrunner")
        equal(run(b, "walls", "cat /proc/[0-9]*/comm | grep -c mas-link").strip(), "0", "processes of the link that it sees")
        equal(run(b, "walls", "df -k /workspace | tail -n 1 | awk '{print $2}'").strip(), str(64 * 1024), "the size of /workspace")
        equal(run(b, "walls", "dd if=/dev/zero of=/workspace/big bs=1M count=80 2>/dev/null; stat -c %s /workspace/big").strip(),
              str(64 * MIB - 4096), "bytes that went into it beside the small file")
        b.do(order(DELETE, "walls"))


@test("the broker's death, the API server's and a closed connection end nothing in the pod")
def survives():
    with broker() as b:
        make(b, "lives")
        run(b, "lives", "echo kept >/workspace/kept")
        begun = run(b, "lives", "stat -c %Y /proc/1")
        equal(run(b, "lives", "cat /workspace/kept; stat -c %Y /proc/1"), "kept\n" + begun, "after a closed connection")
        cluster.kill_server()
        cluster.start_server()
        equal(run(b, "lives", "cat /workspace/kept; stat -c %Y /proc/1"), "kept\n" + begun, "after the API server's death")
    with broker() as b:  # the one before was killed
        check("lives" in b.list(), "its successor knows the pod")
        equal(run(b, "lives", "cat /workspace/kept; stat -c %Y /proc/1"), "kept\n" + begun, "after the broker's death")
        wait_for(lambda: len(pids_of("mas-link")) == 1, lambda: f"processes of closed connections: {pids_of('mas-link')}")
        b.do(order(DELETE, "lives"))


@test("the link's death ends the pod, and that is told")
def link():
    with broker() as b:
        make(b, "ends")
        equal(run(b, "ends", "echo up"), "up\n")
        for pid in pids_of("mas-link"):
            os.kill(pid, signal.SIGKILL)
        b.wait_told(lambda r: r.name == "ends" and r.phase == ENDED, "its end")
        check(not pids_of("mas-toolrunner"), "the runner has ended")
        b.do(order(DELETE, "ends"))


def direct_broker(key="direct.key"):
    return Broker(kubeconfig=kubeconfig({}, {"token": token}), direct_key=f"{HOME}/{key}",
                  ceiling={"direct_port": 7443, "direct_from": "mas-sandbox"})


@test("the direct carrier: with the overlay's right alone, without the API server, with a successor, and by exec with a lost key")
def direct():
    with direct_broker() as b:
        r = b.ask(order(PROBE))
        check(r.error == UNAVAILABLE and r.text.endswith("no right to: get pods/log"), f"what the base lacks for it: {r}")
        r = b.ask(order(CREATE, "direct"))
        check(r.error == FORBIDDEN and "lets nothing in but" in r.text, f"a way in, where the settings name no port: {r}")
        b.do(order(DELETE, "direct"))
    apply_objects(cluster, "direct")
    with direct_broker() as b:
        wait_for(lambda: b.ask(order(PROBE)).error == 0, lambda: f"all rights: {b.ask(order(PROBE))}")
        make(b, "direct")
        equal(run(b, "direct", "seq 100000"), "".join(f"{i}\n" for i in range(1, 100001)), "half a megabyte")
        check("by exec" not in b.log().split("id=direct")[-1] and len(pids_of("mas-link")) == 1, f"no exec: {b.log()}")
        closed = "for a in 127.0.0.1 $(hostname -i); do (exec 3<>/dev/tcp/$a/7443 && head -c 1 <&3 | wc -c); done"
        equal(run(b, "direct", f"bash -c '{closed}'").split(), ["0", "0"], "bytes that a command gets from the link's port")
        cluster.kill_server()
        equal(run(b, "direct", "echo alone"), "alone\n", "without the API server")
        cluster.start_server()
        cluster.wait_ready()
    with direct_broker() as b:  # the one before was killed
        wait_for(lambda: "direct" in b.list(), "its successor knows the pod")
        equal(run(b, "direct", "echo again"), "again\n")
        check("by exec" not in b.log(), b.log())
    with direct_broker("other.key") as b:
        wait_for(lambda: "direct" in b.list(), "one with another key knows the pod")
        equal(run(b, "direct", "echo exec"), "exec\n", "with a key that the link does not know")
        check("is not reached directly" in b.log(), b.log())
        for pid in pids_of("mas-link-tls"):
            os.kill(pid, signal.SIGKILL)
        b.wait_told(lambda r: r.name == "direct" and r.phase == ENDED, "its end without the TLS program")
        b.do(order(DELETE, "direct"))


@test("a pod whose image cannot be had says so")
def no_image():
    with broker() as b:
        b.do(order(CREATE, "nothing", image="docker.example/base:none"))
        r = b.wait_told(lambda r: r.name == "nothing" and r.reason, "why it does not start")
        check(r.phase == PENDING and r.reason in (b"ErrImagePull", b"ImagePullBackOff"), r)
        b.do(order(DELETE, "nothing"))


@test("a pod in a namespace that all sandboxes share, under a role of that namespace")
def shared():
    apply_objects(cluster, "shared")
    with Broker(kubeconfig=kubeconfig({}, {"token": token}), ceiling={"shared_namespace": "mas-sandboxes"}) as b:
        wait_for(lambda: b.ask(order(PROBE)).error == 0, lambda: f"all rights: {b.ask(order(PROBE))}")
        made = order(CREATE, "first", slot=4)
        wait_for(lambda: b.ask(made).error == 0, lambda: f"the admission policy has read its settings: {b.ask(made)}")
        b.wait_told(lambda r: r.name == "first" and r.phase == RUNNING, "it runs")
        equal(run(b, "first", "hostname; id -u"), "first\n100008\n")
        b.do(order(DELETE, "first"))
        equal(cluster.get("/api/v1/namespaces/mas-sandboxes/pods")["items"], [], "pods that are left")


main()
