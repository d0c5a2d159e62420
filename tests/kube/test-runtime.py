#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The runtime kube end to end: a real daemon with its own broker, under the shipped role and admission policy, and
sandboxes that are pods of a real kubelet, by the ordinary API. test-losses.py kills its parts."""
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from sandboxes import *

cluster, token = start_world()
FLAGS = daemon_flags(token)
d = Daemon(*FLAGS, "--kube-uid-first", "100000", "--kill-grace", "1s").start()
made = Sandboxes(cluster, d)
spaces, pod_of, last_exec_of, create, nothing_left = made.spaces, made.pod_of, made.last_exec_of, made.create, made.nothing_left


@test("the runtime says what it can do, and refuses what no pod can be by name")
def refusals():
    wait_for(lambda: runtime_report(d)["available"], lambda: f"the cluster is there: {runtime_report(d)}\n{d.log_text()}")
    wait_for(lambda: "does not enforce NetworkPolicies" in runtime_report(d)["why"], lambda: f"{runtime_report(d)}\n{d.log_text()}")
    report = runtime_report(d)
    check(report["version"].startswith("Kubernetes v1."), report)
    checks = {c["name"]: c for c in report["checks"]}
    equal({name: c["ok"] for name, c in checks.items()}, {"rights": True, "runtime classes": False, "storage classes": False, "agent-sandbox": False,
                                                          "carrier": True, "network": False, "io": False}, "what it checks")
    check("enforces NetworkPolicies" in checks["network"]["advice"], checks)
    p = subprocess.run([os.path.join(BUILD, "sbx"), "doctor", "-addr", f"http://127.0.0.1:{d.port}"], capture_output=True, text=True, check=True)
    rows = p.stdout.split("Runtime kube")[1].split("\nRuntime ")[0]
    for words in ("yes rights", "carrier          exec", "no  network", "enforces NetworkPolicies", "no  io               Kubernetes has no such limit"):
        check(words in rows, f"{words}: {rows}")
    check("systemd.unified_cgroup_hierarchy" not in rows, rows)
    for spec, words in (({"accept_weaker": []}, "network cannot be enforced in a pod"),
                        ({"limits": {"io_mb_per_s": 5}}, "io cannot be enforced in a pod"),
                        ({"workdir": "/x"}, "start in /workspace"), ({"image": "other.example/x:1"}, "beyond what the operator allows"),
                        ({"network": {"cidrs": ["192.0.2.0/24"]}}, "is not within the operator's network_cidrs")):
        a = d.post("/v1/sandboxes", dict(WEAKER, **spec), timeout=180)
        check(400 <= a.status < 500 and words in a.json["error"]["message"], f"{spec}: {a}")
    equal(spaces(), {}, "nothing was made of these")


# What a pod has to do like any other sandbox; test-conformance.py has the whole of it.
conform(d, create, "exit codes", "stdin:", "a timeout and a cancel", "a terminal", "files:")


@test("a sandbox is a pod: its marks, streams, the walls that were found, the end of it all")
def ordinary():
    with create(limits={"memory_mb": 128, "cpu_cores": 0.5, "disk_mb": 64, "max_processes": 40}) as sb:
        pod = pod_of(sb.id)
        labels = pod["metadata"]["labels"]
        equal((labels["app.kubernetes.io/managed-by"], labels["sbx.allocated"]), ("mas-sandbox", "true"), labels)
        equal(labels["sbx.state"], "claimed", labels)
        command = pod["spec"]["containers"][0]["command"]
        equal(command[command.index("--orphan-ttl") + 1], "86400", command)
        notes = pod["metadata"]["annotations"]
        equal((notes["mas-sandbox/generation"], notes["mas-sandbox/home"]), ("1", "mas-sandbox"), notes)
        equal(json.loads(notes["mas-sandbox/spec"])["spec"]["runtime"], "kube", notes)
        equal(sb.exec("echo", "out")["stdout"], "out\n")
        wait_for(lambda: last_exec_of(sb.id), "its last command is on record")
        check(abs(int(last_exec_of(sb.id)) - time.time()) < 300, "and when it was")
        equal(pod_of(sb.id)["metadata"]["annotations"], notes, "the pod was not written to")
        a = d.post(f"{sb.path}/exec", {"command": ["seq", "20000"], "async": True})
        events = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={a.json['exec_id']}").events()
        equal("".join(e["data"] for e in events if e["type"] == "output"), "".join(f"{i}\n" for i in range(1, 20001)), "a stream")
        e = d.get(sb.path).json["effective"]
        equal((e["memory"]["limit_mb"], e["cpu"]["limit_cores"], e["processes"]["limit"]), (128, 0.5, 40), e)
        equal((e["disk"]["by"], e["disk"]["limit_mb"] <= 64, e["disk"]["charged_to_memory"]), ("tmpfs", True, True), e)
        equal((e["network"], e["syscalls"]["by"], e["uid_separation"]), (None, "seccomp", False), e)
        check("cgroup" in e["memory"]["by"] and e["landlock"]["abi"] >= 1, e)
        equal(sb.sh("dd if=/dev/zero of=/workspace/big bs=1M count=200 2>/dev/null; test $(stat -c %s /workspace/big) -lt 40000000")
              ["exit_code"], 0, "the disk's limit")
        a = sb.sh("i=0; while [ $i -lt 80 ]; do sleep 3 & i=$((i + 1)); done; wait")
        check("fork" in a["stderr"] or a["exit_code"] != 0, f"the limit of processes: {a}")
        check(sb.id in [s["id"] for s in d.get("/v1/sandboxes").json["sandboxes"]], "it is listed")
        check(sb.id in d.get("/sandboxes").body.decode(), "by the sbx API, too")
        equal(d.get("/sandboxes").status, 200, "the list")
        equal(sb.delete().status in (200, 204), True, "deleted")
        check(sb.id not in spaces(), "the namespace is gone when the deletion is answered")


def run_b(daemon, sandbox, line):
    a = daemon.post(f"/sandboxes/{sandbox}/exec", {"command": ["sh", "-c", line], "async": False}, timeout=180)
    equal((a.status, a.json.get("exit_code")), (200, 0), a)
    return a.json["stdout"]


PVC = {"cache_mode": "pvc"}
REFUSED_VOLUMES = (
    ({"volume_mode": "floppy"}, 400, "'volume_mode': there is no volume 'floppy'"),
    ({"volume_mode": "hostpath"}, 400, "'volume_mode' is 'emptydir' or 'pvc'"),
    ({"cache_mode": "floppy"}, 400, "'cache_mode': there is no volume 'floppy'"),
    ({"cache_pvc_size": "1Gi"}, 400, "'cache_pvc_size' describes a volume claim"),
    (dict(PVC, cache_pvc_size="1Qi"), 400, "'cache_pvc_size': '1Qi' is not a size"),
    (dict(PVC, cache_pvc_access_mode="Never"), 400, "'cache_pvc_access_mode': there is no mode 'Never'"),
    (dict(PVC, cache_pvc_size="11Gi"), 403, "the size of '/cache' is beyond what the operator allows"),
    (dict(PVC, cache_pvc_storage_class="fast"), 403, "the storage class 'fast' is beyond what the operator allows"),
    ({"cache_mode": "hostpath"}, 403, "a directory of the node's for '/cache' is beyond what the operator allows"))


def check_volumes(daemon, sandbox):
    """Claims as they were asked for, the operator's requests and limits, and what is written is on the volumes."""
    claims = {c["metadata"]["name"]: c["spec"] for c in cluster.get(f"/api/v1/namespaces/{sandbox}/persistentvolumeclaims")["items"]}
    equal({n: (int(c["resources"]["requests"]["storage"]), c["storageClassName"], c["accessModes"]) for n, c in claims.items()},
          {"workspace": (10 << 30, "manual", ["ReadWriteOnce"]), "cache": (1 << 30, "manual", ["ReadWriteOnce"])}, claims)
    container = pod_of(sandbox)["spec"]["containers"][0]
    equal(container["resources"], {"limits": {"cpu": "1", "memory": str(128 << 20)}, "requests": {"cpu": "50m", "memory": str(64 << 20)}},
          container)
    equal(run_b(daemon, sandbox, "echo w >/workspace/w && echo c >/cache/c && echo $FROM_OPERATOR"), "yes\n", "its environment")
    equal(sorted(read(f"{HOME}/{place}/{name}") for place in ("first", "second") for name in os.listdir(f"{HOME}/{place}")),
          ["c\n", "w\n"], "both are on their volumes")
    equal(daemon.get(f"/v1/sandboxes/{sandbox}").json["effective"]["disk"], None, "a volume that is larger than its claim is no wall")


@test("the sbx API over kube: the id is the namespace, the pod is called sandbox, volumes, requests, deleting while it is made")
def contract_b():
    storage(cluster, "first", "second")
    flags = FLAGS + ["--kube-instance", "second", "--kube-unproven-network", "--kube-storage-classes", "default,manual", "--cpu-request",
                     "50m", "--mem-request", "64Mi", "--mem-limit", "128Mi"]
    with Daemon(*flags, runtime="kube", env={"SANDBOX_ENV_FROM_OPERATOR": "yes"}) as b:
        wait_for(lambda: runtime_report(b)["available"], "the cluster is there")
        for body, status, words in REFUSED_VOLUMES:
            a = b.post("/sandboxes", body, timeout=180)
            check(a.status == status and words in a.json["error"], f"{body}: {a}")
        equal(spaces(), {}, "nothing was made of these")
        a = b.post("/sandboxes", dict(PVC, id="mine", volume_mode="pvc", cache_pvc_size="1Gi", cache_pvc_storage_class="manual",
                                      cache_pvc_access_mode="ReadWriteOnce"), timeout=180)
        check(a.status in (200, 201), f"{a}\n{b.log_text()}")
        check_volumes(b, "sbx-mine")
        pod = pod_of("sbx-mine")
        check(pod, f"its pod: {spaces()} {a}")
        equal((pod["metadata"]["labels"]["sbx.allocated"], pod["metadata"]["labels"]["mas-sandbox/instance"]), ("true", "second"), pod)
        check("sbx-mine" in b.get("/sandboxes").body.decode(), b.get("/sandboxes").body)
        check(b.post("/sandboxes", {"id": "mine"}, timeout=180).status == 409, "the same again")
        a = b.post("/sandboxes/sbx-mine/exec", {"command": ["echo", "hello"]}, timeout=180)
        check(a.status < 300, a)
        events = b.ws(f"/sandboxes/sbx-mine/stream?exec_id={a.json['exec_id']}").events()
        equal("".join(e.get("data", "") for e in events if e["type"] == "output"), "hello\n", events)
        check("sbx-mine" not in d.get("/sandboxes").body.decode(), "another daemon of the cluster has none of it")
        check(b.delete("/sandboxes/sbx-mine", timeout=180).status in (200, 204), "deleted")
        check("sbx-mine" not in spaces(), "gone")
        answers = []
        never = dict(WEAKER, image="docker.example/base:none", id="never")
        t = threading.Thread(target=lambda: answers.append(b.post("/v1/sandboxes", never, timeout=180)))
        t.start()
        wait_for(lambda: "sbx-never" in spaces(), "it is being made")
        wait_for(lambda: b.delete("/v1/sandboxes/sbx-never", timeout=180).status in (200, 204), "deleted")
        t.join()
        check(answers[0].status >= 400, answers)
        nothing_left()


@test("a directory of the node's as the sbx API's cache, where the operator and the admission policy let it")
def hostpath():
    if not FULL:
        raise Skip("two pods more; check-kube-full has the time")
    host = f"{HOME}/node-cache"
    os.mkdir(host)
    os.chmod(host, 0o777)
    flags = FLAGS + ["--kube-instance", "hostpath", "--kube-unproven-network", "--kube-hostpath", "--cache-mode", "hostpath",
                     "--cpu-request", "50m"]
    with Daemon(*flags, "--cache-hostpath", host, runtime="kube") as b:
        wait_for(lambda: runtime_report(b)["available"], "the cluster is there")
        a = b.post("/sandboxes", {"id": "early"}, timeout=180)
        check(a.status == 403 and "unless the settings let a node's directory in" in a.json["error"], a)
        cluster.call("PATCH", COLLECTIONS["ConfigMap"] + "/mas-kube", {"data": {"host_path": host}}, kind="application/merge-patch+json")
        wait_for(lambda: b.post("/sandboxes", {"id": "one"}, timeout=180).status == 200, "the policy has read its settings")
        equal(run_b(b, "sbx-one", "echo shared >/cache/f"), "", "the node's directory")
        a = b.post("/sandboxes", {"id": "two"}, timeout=180)
        equal(a.status, 200, a)
        equal(run_b(b, "sbx-two", "cat /cache/f"), "shared\n", "another pod has the same")
        equal(b.get("/v1/sandboxes/sbx-two").json["effective"]["disk"], None, "it is no wall")
    cluster.call("PATCH", COLLECTIONS["ConfigMap"] + "/mas-kube", {"data": {"host_path": None}}, kind="application/merge-patch+json")
    nothing_left()


@test("a pod that is made ahead outlives its control plane, is claimed once, with the record of its sandbox, and its state is true")
def pooled():
    def labels_of(space):
        return cluster.get(f"/api/v1/namespaces/{space}")["metadata"]["labels"], pod_of(space)["metadata"]["labels"]

    def state_of(space):
        return {(x["sbx.pool"], x["sbx.state"], x["sbx.allocated"]) for x in labels_of(space)}
    with Daemon(*FLAGS, "--kube-instance", "third", "--kube-unproven-network", "--warm-pool-size", "1", runtime="kube") as b:
        wait_for(lambda: [x for x in spaces() if pod_of(x)], "a pod is made ahead", 2 * PATIENCE_S)
        member = list(spaces())[0]
        wait_for(lambda: state_of(member) == {("warm", "ready", "false")}, lambda: f"it is ready: {labels_of(member)}\n{b.log_text()}",
                 2 * PATIENCE_S)
        uid = pod_of(member)["metadata"]["uid"]
        b.kill_control()
        wait_for(lambda: "sandbox_warm_pool_ready 1" in b.get("/metrics").body.decode(), lambda: f"it is the pool's again\n{b.log_text()}",
                 2 * PATIENCE_S)
        equal((list(spaces()), pod_of(member)["metadata"]["uid"]), ([member], uid), "there is no second one")
        equal(pod_of(member)["metadata"]["annotations"]["mas-sandbox/generation"], "2", "its generation")
        a = b.post("/v1/sandboxes", {"runtime": "kube", "env": {"OF": "caller"}}, timeout=180)
        pod = pod_of(member)
        equal((a.status, a.json["id"], pod["metadata"]["uid"]), (201, member, uid), f"{a}\n{b.log_text()}")
        equal((pod["metadata"]["labels"]["sbx.state"], pod["metadata"]["labels"]["sbx.allocated"]), ("claimed", "true"), "when it is answered")
        record = json.loads(pod["metadata"]["annotations"]["mas-sandbox/spec"])
        equal((record["id"], record["runtime_id"]), (a.json["id"], member), "its record")
        sb = Sandbox(b, a.json)
        equal(sb.sh("echo $OF")["stdout"], "caller\n", "a command")
        wait_for(lambda: state_of(member) == {("warm", "claimed", "true")}, lambda: f"so says its namespace: {labels_of(member)}\n{b.log_text()}")
        b.kill_control()
        wait_for(lambda: b.get(sb.path).json["state"] == "ready", lambda: f"{b.get(sb.path).json}\n{b.log_text()}", 2 * PATIENCE_S)
        equal(sb.sh("echo $OF")["stdout"], "caller\n", "it is still its caller's")
        wait_for(lambda: len(spaces()) == 2, "another one is made ahead", 2 * PATIENCE_S)
    nothing_left()


@test("whatever the daemon believes of its pool, the cluster decides: a pod that another has is passed over, and the next one given")
def passed_over():
    if not FULL:
        raise Skip("two pods more; check-kube-full has the time")

    def members():
        return [p for x in spaces() if (p := pod_of(x)) and p["metadata"]["labels"]["sbx.state"] == "ready"]
    with Daemon(*FLAGS, "--kube-instance", "fifth", "--kube-unproven-network", "--cpu-request", "50m", "--warm-pool-size", "2",
                runtime="kube") as b:
        wait_for(lambda: len(members()) == 2, lambda: f"the pool is full: {spaces()}\n{b.log_text()}", 2 * PATIENCE_S)
        first, second = [p["metadata"]["namespace"] for p in sorted(members(), key=lambda p: p["metadata"]["creationTimestamp"])]
        r = cluster.call("PATCH", f"/api/v1/namespaces/{first}/pods/sandbox", {"metadata": {
            "labels": {"sbx.allocated": "true"}, "annotations": {"mas-sandbox/spec": '{"id":"other"}'}}}, kind="application/merge-patch+json")
        equal(r.status, 200, "another has the first")
        a = b.post("/v1/sandboxes", {"runtime": "kube"}, timeout=180)
        equal(a.status, 201, f"{a}\n{b.log_text()}")
        sb = Sandbox(b, a.json)
        equal(sb.exec("echo", "next")["stdout"], "next\n", "a command")
        record = json.loads(pod_of(second)["metadata"]["annotations"]["mas-sandbox/spec"])
        equal((record["id"], record["runtime_id"]), (sb.id, second), "it has the next one")
        equal(pod_of(first)["metadata"]["annotations"]["mas-sandbox/spec"], '{"id":"other"}', "the first was not written to")
        b.kill_control()
        wait_for(lambda: b.get(sb.path).json["state"] == "ready", lambda: f"{b.get(sb.path).json}\n{b.log_text()}", 2 * PATIENCE_S)
        equal(sb.exec("echo", "still")["stdout"], "still\n", "after another control plane has begun")
        check(first in spaces(), "what another has is not deleted")
    cluster.call("DELETE", f"/api/v1/namespaces/{first}")
    nothing_left()


@test("the end of a pod is told with its reason: its link killed, deleted or relabelled by hand; and that an image never comes")
def ends():
    with create() as sb:
        a = d.post(f"{sb.path}/exec", {"command": ["sleep", "600"], "async": True}).json
        for pid in [p for p in all_pids() if name_of(p) == "mas-link" and lives(p)]:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", lambda: f"it has crashed: {d.get(sb.path).json}")
        check("its pod has ended" in d.get(sb.path).body.decode(), d.get(sb.path).body)
        e = d.get(f"{sb.path}/execs/{a['exec_id']}").json
        check(e["status"] == "failed" and "its pod has ended" in e["error"], e)
    answers = []
    never = dict(WEAKER, image="docker.example/base:none")
    t = threading.Thread(target=lambda: answers.append(d.post("/v1/sandboxes", never, timeout=180)))
    t.start()  # a kubelet tries twice, with a pause, before it says so
    with create() as sb:
        cluster.call("DELETE", f"/api/v1/namespaces/{sb.id}/pods/sandbox")
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", lambda: f"it has crashed: {d.get(sb.path).json}")
        check("its pod was deleted, not by this daemon" in d.get(sb.path).body.decode(), d.get(sb.path).body)
    with create() as sb:
        cluster.call("PATCH", f"/api/v1/namespaces/{sb.id}/pods/sandbox", {"metadata": {"labels": {"mas-sandbox/instance": None}}},
                     kind="application/merge-patch+json")
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", lambda: f"it has crashed: {d.get(sb.path).json}")
        check("does not carry this daemon's labels any more" in d.get(sb.path).body.decode(), d.get(sb.path).body)
    t.join()
    check(answers[0].status >= 400 and "ImagePullBackOff" in answers[0].json["error"]["message"], answers)
    nothing_left()


@test("nothing is left when the daemon ends")
def daemon_ends():
    create()
    equal(d.stop(), 0, d.log_text())
    nothing_left()


main()
