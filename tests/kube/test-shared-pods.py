#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon whose sandboxes share one namespace (deploy/kube/shared), with pods of a real kubelet: what every runtime must do,
claims that end with their pod, a daemon that is killed and loses its state directory, and nothing left but the namespace."""
import os
import shutil
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import FULL, skip_all

if not FULL:
    skip_all("another cluster; check-kube-full has the time, and test-pod.py runs one such pod")
from sandboxes import *

cluster, token = start_world()
apply_objects(cluster, "shared")
SPACE = "/api/v1/namespaces/mas-sandboxes"
FLAGS = daemon_flags(token) + ["--kube-shared-namespace", "mas-sandboxes", "--kube-storage-classes", "default,manual", "--cpu-request", "50m"]
d = Daemon(*FLAGS, "--kube-uid-first", "100000", "--kill-grace", "1s", "--kube-unproven-network", runtime="kube").start()


def names(kind):
    """Of sandboxes; without the pods that try the network."""
    return sorted(o["metadata"]["name"] for o in cluster.get(f"{SPACE}/{kind}")["items"] if not o["metadata"]["name"].startswith("sbx-wall-"))


def create(**spec):
    a = d.post("/v1/sandboxes", dict(WEAKER, **spec), timeout=180)
    check(a.status == 201, f"create: {a}\n{d.log_text()}")
    return Sandbox(d, a.json)


def nothing_left():
    for kind in ("pods", "persistentvolumeclaims"):
        wait_for(lambda kind=kind: not names(kind), lambda kind=kind: f"{kind} are left: {names(kind)}\n{d.log_text()}", 2 * PATIENCE_S)
    equal(cluster.get(SPACE)["status"]["phase"], "Active", "the namespace")


wait_for(lambda: runtime_report(d)["available"], lambda: f"the cluster is there: {runtime_report(d)}\n{d.log_text()}")
conform(d, create, "exit codes", "stdin:", "a timeout and a cancel", "a terminal", "files:")


@test("two sandboxes are two pods with one policy, and no namespace of their own")
def two():
    with create(limits={"memory_mb": 96, "max_processes": 40}) as one, create() as two:
        equal(names("pods"), sorted([one.id, two.id]), "pods")
        equal([s["metadata"]["name"] for s in cluster.get("/api/v1/namespaces")["items"] if s["metadata"]["name"].startswith("sbx-")], [],
              "namespaces")
        nets = {cluster.get(f"{SPACE}/pods/{sb.id}")["metadata"]["labels"]["mas-sandbox/net"] for sb in (one, two)}
        equal(len(nets), 1, nets)
        e = d.get(one.path).json["effective"]
        equal((e["memory"]["limit_mb"], e["processes"]["limit"], e["syscalls"]["by"]), (96, 40, "seccomp"), e)
        equal(one.exec("hostname")["stdout"], one.id[len("sbx-"):] + "\n")
        wait_for(lambda: "sbx.last_exec_at" in cluster.get(f"{SPACE}/pods/{one.id}")["metadata"]["annotations"], "its last command is on record")
    nothing_left()


@test("claims of a pod are made with it, and go with it")
def claims():
    storage(cluster, "first", "second")
    a = d.post("/sandboxes", {"id": "mine", "volume_mode": "pvc", "cache_mode": "pvc", "cache_pvc_size": "1Gi",
                              "cache_pvc_storage_class": "manual"}, timeout=180)
    equal(a.status, 200, f"{a}\n{d.log_text()}")
    equal(names("persistentvolumeclaims"), ["sbx-mine-cache", "sbx-mine-workspace"], "claims")
    a = d.post("/sandboxes/sbx-mine/exec", {"command": ["sh", "-c", "echo w >/workspace/w"], "async": False}, timeout=180)
    equal(a.json.get("exit_code"), 0, a)
    equal(sorted(os.listdir(f"{HOME}/first") + os.listdir(f"{HOME}/second")), ["w"], "it is on a volume")
    equal(d.delete("/sandboxes/sbx-mine", timeout=180).status, 200, "deleted")
    nothing_left()


@test("a daemon that is killed and has lost its state directory finds its sandboxes again, and deletes what no sandbox has")
def rebuilt():
    sb = create(env={"KEPT": "value"})
    e = d.post(f"{sb.path}/exec", {"command": ["sh", "-c", "until [ -e go ]; do sleep 0.2; done; echo after; exit 3"], "async": True}).json
    d.process.send_signal(signal.SIGKILL)
    d.process.wait()
    cluster.call("DELETE", "/apis/coordination.k8s.io/v1/namespaces/mas-sandbox/leases/mas-sandbox.mas-sandbox")
    shutil.rmtree(d.state)
    d.start()
    wait_for(lambda: d.get(sb.path).status == 200 and d.get(sb.path).json["state"] == "ready",
             lambda: f"it is back: {d.get(sb.path)}\n{d.log_text()}", 2 * PATIENCE_S)
    equal(sb.sh("echo $KEPT; touch go")["stdout"], "value\n", "its environment")
    at = f"{sb.path}/execs/{e['exec_id']}"
    wait_for(lambda: d.get(at).status == 200 and d.get(at).json["status"] == "completed", lambda: f"its command ends: {d.get(at)}")
    equal(d.get(at).json["exit_code"], 3, d.get(at).json)
    sb.delete()
    nothing_left()


@test("nothing is left when the daemon ends, but the namespace and a policy")
def daemon_ends():
    create()
    equal(d.stop(), 0, d.log_text())
    nothing_left()
    policies = [p["metadata"]["name"] for p in cluster.get("/apis/networking.k8s.io/v1/namespaces/mas-sandboxes/networkpolicies")["items"]]
    check("closed" in policies, f"the overlay's own stays: {policies}")
    check(len(policies) >= 2 and all(p.startswith("sandbox-") for p in policies if p != "closed"), policies)


main()
