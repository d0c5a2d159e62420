#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The runtime kube end to end: a real daemon with its own broker, under the shipped role and admission policy, and
sandboxes that are pods of a real kubelet, by the ordinary API. Commands print known bytes while broker, control plane and
API server are killed in turn."""
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from world import *

WEAKER = {"runtime": "kube", "accept_weaker": ["network"]}
cluster, token = start_world()
FLAGS = daemon_flags(token)
d = Daemon(*FLAGS, "--kube-uid-first", "100000", "--kill-grace", "1s").start()


def spaces():
    """Namespaces of sandboxes, and whether they are being deleted; without those that try the network (test-network.py)."""
    return {s["metadata"]["name"]: bool(s["metadata"].get("deletionTimestamp"))
            for s in cluster.get("/api/v1/namespaces")["items"]
            if s["metadata"]["name"].startswith("sbx-") and not s["metadata"]["name"].startswith("sbx-wall-")}


def pod_of(sandbox):
    return cluster.get(f"/api/v1/namespaces/{sandbox}/pods/sandbox")


def last_exec_of(sandbox):
    return cluster.get(f"/api/v1/namespaces/{sandbox}")["metadata"]["annotations"].get("sbx.last_exec_at")


def create(**spec):
    a = d.post("/v1/sandboxes", dict(WEAKER, **spec), timeout=180)
    check(a.status == 201, f"create: {a}\n{d.log_text()}\n{read(f'{HOME}/kubelet.log')[-1500:]}")
    return Sandbox(d, a.json)


def nothing_left():
    wait_for(lambda: not spaces(), lambda: f"namespaces are left: {spaces()}\n{d.log_text()}", 2 * PATIENCE_S)


@test("the runtime says what it can do, and refuses what no pod can be by name")
def refusals():
    wait_for(lambda: runtime_report(d)["available"], lambda: f"the cluster is there: {runtime_report(d)}\n{d.log_text()}")
    wait_for(lambda: "does not enforce NetworkPolicies" in runtime_report(d)["why"], lambda: f"{runtime_report(d)}\n{d.log_text()}")
    report = runtime_report(d)
    check(report["version"].startswith("Kubernetes v1."), report)
    checks = {c["name"]: c for c in report["checks"]}
    equal({name: c["ok"] for name, c in checks.items()}, {"rights": True, "runtime classes": False, "storage classes": False,
                                                          "carrier": True, "network": False, "io": False}, "what it checks")
    check("enforces NetworkPolicies" in checks["network"]["advice"], checks)
    p = subprocess.run([os.path.join(BUILD, "sbx"), "doctor", "-addr", f"http://127.0.0.1:{d.port}"], capture_output=True, text=True, check=True)
    rows = p.stdout.split("Runtime kube")[1].split("\nRuntime ")[0]
    for words in ("yes rights", "carrier          exec", "no  network", "enforces NetworkPolicies", "no  io               Kubernetes has no limit"):
        check(words in rows, f"{words}: {rows}")
    check("systemd.unified_cgroup_hierarchy" not in rows, rows)
    for spec, words in (({"accept_weaker": []}, "network cannot be enforced in a pod"),
                        ({"limits": {"io_mb_per_s": 5}}, "io cannot be enforced in a pod"),
                        ({"workdir": "/x"}, "start in /workspace"), ({"image": "other.example/x:1"}, "beyond what the operator allows"),
                        ({"network": {"cidrs": ["192.0.2.0/24"]}}, "cannot have a network by address")):
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
    ({"cache_pvc_size": "1Gi"}, 400, "'cache_pvc_size' is of a claim"),
    (dict(PVC, cache_pvc_size="1Qi"), 400, "'cache_pvc_size': '1Qi' is no size"),
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


@test("the state of a pod that is made ahead is true: ready, then claimed, with the record of its sandbox")
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
        a = b.post("/v1/sandboxes", {"runtime": "kube"}, timeout=180)
        equal(a.status, 201, a)
        wait_for(lambda: state_of(member) == {("warm", "claimed", "true")}, lambda: f"it is claimed: {labels_of(member)}\n{b.log_text()}")
        record = json.loads(pod_of(member)["metadata"]["annotations"]["mas-sandbox/spec"])
        equal((record["id"], record["runtime_id"]), (a.json["id"], member), "its record")
        equal(Sandbox(b, a.json).exec("echo", "warm")["stdout"], "warm\n", "a command")
    nothing_left()


@test("an image that never comes says so")
def no_image():
    a = d.post("/v1/sandboxes", dict(WEAKER, image="docker.example/base:none"), timeout=180)
    check(a.status >= 400 and "ImagePullBackOff" in a.json["error"]["message"], a)
    nothing_left()


@test("the end of a pod is told with its reason: its link killed, deleted by hand, relabelled by hand")
def ends():
    with create() as sb:
        a = d.post(f"{sb.path}/exec", {"command": ["sleep", "600"], "async": True}).json
        for pid in [p for p in all_pids() if name_of(p) == "mas-link" and lives(p)]:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", lambda: f"it has crashed: {d.get(sb.path).json}")
        check("its pod has ended" in d.get(sb.path).body.decode(), d.get(sb.path).body)
        e = d.get(f"{sb.path}/execs/{a['exec_id']}").json
        check(e["status"] == "failed" and "its pod has ended" in e["error"], e)
    with create() as sb:
        cluster.call("DELETE", f"/api/v1/namespaces/{sb.id}/pods/sandbox")
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", lambda: f"it has crashed: {d.get(sb.path).json}")
        check("its pod was deleted, not by this daemon" in d.get(sb.path).body.decode(), d.get(sb.path).body)
    with create() as sb:
        cluster.call("PATCH", f"/api/v1/namespaces/{sb.id}/pods/sandbox", {"metadata": {"labels": {"mas-sandbox/instance": None}}},
                     kind="application/merge-patch+json")
        wait_for(lambda: d.get(sb.path).json["state"] == "crashed", lambda: f"it has crashed: {d.get(sb.path).json}")
        check("does not carry this daemon's labels any more" in d.get(sb.path).body.decode(), d.get(sb.path).body)
    nothing_left()


@test("broker, control plane and API server are killed while a command prints: not a byte is lost or doubled")
def killed():
    with create() as sb:
        script = "i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); echo line $i; [ $((i % 50)) = 0 ] && sleep 0.5; done; exit 5"
        want = "".join(f"line {i}\n" for i in range(1, 3001))
        a = d.post(f"{sb.path}/exec", {"command": ["sh", "-c", script], "async": True}).json
        at = f"{sb.path}/execs/{a['exec_id']}"
        warden = d.get("/v1/status").json["warden_pid"]

        def printed():
            return len(d.get(f"{at}/logs", timeout=180).body)

        def goes_on(what):
            before = printed()
            wait_for(lambda: printed() > before or d.get(at).json["status"] != "running",
                     lambda: f"it goes on after the death of {what}: {d.get(sb.path).json}\n{d.log_text()}", 2 * PATIENCE_S)
        goes_on("nothing")
        for pid in named("mas-kube", below(warden)):
            os.kill(pid, signal.SIGKILL)
        goes_on("the broker")
        d.kill_control()
        goes_on("the control plane")
        cluster.kill_server()
        cluster.start_server()
        goes_on("the API server")
        for pid in named("mas-kube", below(warden)):
            os.kill(pid, signal.SIGKILL)
        d.kill_control()
        goes_on("broker and control plane")
        wait_for(lambda: d.get(at).json["status"] != "running", lambda: f"its end: {d.get(at).json}\n{d.log_text()}", 3 * PATIENCE_S)
        e = d.get(at).json
        equal((e["status"], e["exit_code"]), ("completed", 5), e)
        text = "".join(json.loads(x).get("data", "") for x in d.get(f"{at}/logs").body.splitlines())
        equal(hashlib.sha256(text.encode()).hexdigest(), hashlib.sha256(want.encode()).hexdigest(), f"{len(text)} of {len(want)}")
        equal(sb.exec("echo", "alive")["stdout"], "alive\n", "it is still there")
    nothing_left()


@test("a create that loses its broker or its control plane is whole, or nothing is left of it")
def killed_while_made():
    warden = d.get("/v1/status").json["warden_pid"]
    answers = []

    def make():
        try:
            answers.append(d.post("/v1/sandboxes", WEAKER, timeout=180))
        except BROKEN as problem:
            answers.append(problem)
    t = threading.Thread(target=make)
    t.start()
    wait_for(spaces, "its namespace")
    for pid in named("mas-kube", below(warden)):
        os.kill(pid, signal.SIGKILL)
    t.join()
    check(getattr(answers[0], "status", 0) == 201, f"the create goes on with another broker: {answers}\n{d.log_text()}")
    equal(Sandbox(d, answers[0].json).exec("echo", "x")["stdout"], "x\n", "it works")
    d.delete("/v1/sandboxes/" + answers.pop().json["id"])
    nothing_left()
    t = threading.Thread(target=make)
    t.start()
    wait_for(spaces, "its namespace")
    d.kill_control()
    t.join()
    for s in d.get("/v1/sandboxes").json["sandboxes"]:
        wait_for(lambda s=s: d.get("/v1/sandboxes/" + s["id"]).json["state"] != "creating", "its end or its readiness")
        d.delete("/v1/sandboxes/" + s["id"])
    nothing_left()


def kill_daemon():
    """With its broker, which gives nothing back. In the usual run the operator, who knows that it is gone, deletes its Lease; else
    the next daemon waits for its end."""
    d.process.send_signal(signal.SIGKILL)
    d.process.wait()
    if not FULL:
        r = cluster.call("DELETE", "/apis/coordination.k8s.io/v1/namespaces/mas-sandbox/leases/mas-sandbox.mas-sandbox")
        equal(r.status, 200, r)


@test("a daemon that is started again takes its pods over, and deletes those that nothing names")
def started_again():
    sb = create()
    sb.sh("echo kept >/workspace/kept")
    kill_daemon()
    for name, notes in (("stranger", {"mas-sandbox/home": "mas-sandbox"}), ("homeless", {})):
        cluster.make("/api/v1/namespaces", {"metadata": {"name": "sbx-" + name, "annotations": notes, "labels": {
            "app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "mas-sandbox", "mas-sandbox/id": name}}})
    cluster.make("/api/v1/namespaces", {"metadata": {"name": "sbx-another", "labels": {
        "app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "other", "mas-sandbox/id": "another"}}})
    d.start()
    wait_for(lambda: d.get(sb.path).json["state"] == "ready", lambda: f"it is back: {d.get(sb.path).json}\n{d.log_text()}")
    equal(sb.exec("cat", "/workspace/kept")["stdout"], "kept\n", "what it had")
    equal(pod_of(sb.id)["metadata"]["annotations"]["mas-sandbox/generation"], "2", "its generation")
    check(d.get(sb.path).json["effective"]["memory"]["by"], "its walls were looked at again")
    wait_for(lambda: set(spaces()) == {"sbx-another", "sbx-homeless", sb.id}, lambda: f"strangers: {spaces()}\n{d.log_text()}")
    sb.delete()
    for name in ("another", "homeless"):
        cluster.call("DELETE", f"/api/v1/namespaces/sbx-{name}")
    nothing_left()


def foreign_pod(name, **notes):
    """A pod that carries this instance's labels and was not made by it; no node has room for it."""
    labels = {"app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "mas-sandbox", "mas-sandbox/id": name}
    cluster.make("/api/v1/namespaces", {"metadata": {"name": "sbx-" + name, "labels": labels, "annotations": notes}})
    cluster.make(f"/api/v1/namespaces/sbx-{name}/serviceaccounts", {"metadata": {"name": "sandbox"}})
    cluster.make(f"/api/v1/namespaces/sbx-{name}/pods", {"metadata": {"name": "sandbox", "labels": labels, "annotations": notes},
                 "spec": {"serviceAccountName": "sandbox", "nodeSelector": {"no": "where"}, "containers": [{"name": "c", "image": IMAGE}]}})


@test("with an empty state directory all is rebuilt from the cluster; lost output is a cut; what is another's stays as it is")
def rebuilt():
    sb = create(env={"KEPT": "value"}, limits={"memory_mb": 96})
    script = "seq 200000; until [ -e go ]; do sleep 0.2; done; echo after; exit 3"
    e = d.post(f"{sb.path}/exec", {"command": ["sh", "-c", script], "async": True}).json
    at = f"{sb.path}/execs/{e['exec_id']}"
    wait_for(lambda: b"200000" in d.get(f"{at}/logs").body, "it has printed")
    wait_for(lambda: last_exec_of(sb.id), "its last command is on record")
    before = d.get(sb.path).json
    kill_daemon()
    shutil.rmtree(d.state)
    foreign_pod("elsewhere", **{"mas-sandbox/home": "other"})
    foreign_pod("changed", **{"mas-sandbox/home": "mas-sandbox", "mas-sandbox/spec": '{"id": "sbx-changed", "spec": {"runtime": "local"}}'})
    foreign_pod("silent", **{"mas-sandbox/home": "mas-sandbox"})
    foreign_pod("helper", **{"mas-sandbox/home": "mas-sandbox", "mas-sandbox/spec": '{"helper":true}'})
    d.start()
    wait_for(lambda: d.get(sb.path).status == 200 and d.get(sb.path).json["state"] == "ready",
             lambda: f"it is back: {d.get(sb.path)}\n{d.log_text()}", 2 * PATIENCE_S)
    after = d.get(sb.path).json
    for member in ("id", "created_at", "runtime", "last_exec_at", "limits"):
        equal(str(after.get(member))[:19], str(before.get(member))[:19], member)
    equal(sb.sh("echo $KEPT")["stdout"], "value\n", "its environment")
    wait_for(lambda: d.get(at).status == 200, lambda: f"its command is known: {d.get(at)}")
    equal(d.get(at).json["status"], "running", d.get(at).json)
    sb.sh("touch go")
    wait_for(lambda: d.get(at).json["status"] == "completed", lambda: f"its end: {d.get(at).json}")
    equal(d.get(at).json["exit_code"], 3, d.get(at).json)
    events = [json.loads(x) for x in d.get(f"{at}/logs").body.splitlines()]
    want = "".join(f"{i}\n" for i in range(1, 200001)) + "after\n"
    got = "".join(v["data"] for v in events if v["type"] == "output")
    cuts = [v for v in events if v["type"] == "cut"]
    equal((len(cuts), events.index(cuts[0])), (1, 1), f"what the runner had given away is one cut, and comes first: {events[:3]}")
    check(got and want.endswith(got) and cuts[0]["dropped_bytes"] + len(got) == len(want), f"the rest is whole: {cuts} {len(got)} of {len(want)}")
    wait_for(lambda: set(spaces()) == {sb.id, "sbx-elsewhere", "sbx-changed", "sbx-silent"}, lambda: f"namespaces: {spaces()}\n{d.log_text()}")
    check("another runtime, 'local'" in d.log_text(), d.log_text())
    d.kill_control()
    wait_for(lambda: d.get(sb.path).json["state"] == "ready", lambda: f"and it has a row: {d.get(sb.path).json}")
    sb.delete()
    for name in ("elsewhere", "changed", "silent"):
        check(not spaces()["sbx-" + name], "it was not touched")
        cluster.call("DELETE", f"/api/v1/namespaces/sbx-{name}")
    nothing_left()


@test("nothing is left when the daemon ends")
def daemon_ends():
    create()
    equal(d.stop(), 0, d.log_text())
    nothing_left()


main()
