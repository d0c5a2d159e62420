#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The runtime kube end to end: a real daemon with its own broker, under the shipped role and admission policy, and
sandboxes that are pods of a real kubelet, by the ordinary API. Commands print known bytes while broker, control plane and
API server are killed in turn."""
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from broker import kubeconfig
from node import *

if why_not():
    skip_all(why_not())
enter(("etcd", "kube-apiserver", "node"), remove_groups)
PAUSE = "int pause(void); int main(void) { for (;;) pause(); }"
WEAKER = {"runtime": "kube", "accept_weaker": ["network"]}
cluster = NodeCluster()
cluster.start()
subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", f"{HOME}/pause"], input=PAUSE, text=True, check=True)
image("our.example/pause:1", {"pause": (data_of(f"{HOME}/pause"), 0o755)}, {"Entrypoint": ["/pause"]})
image(LINK_IMAGE, {name: (data_of(os.path.join(BUILD, name)), 0o755) for name in ("mas-link", "mas-toolrunner")}, {})
image(IMAGE, data_of(os.path.join(BUILD, "default-image.tar")), {"Cmd": ["/bin/sh"]})
wait_for(cluster.node_is_ready, lambda: "the node is ready:\n" + read(f"{HOME}/kubelet.log")[-3000:], STARTUP_S)
for kind, name, text in base_objects():
    cluster.make(COLLECTIONS[kind] + "?fieldValidation=Strict", text, kind="application/yaml")
cluster.call("PATCH", COLLECTIONS["ConfigMap"] + "/mas-kube",
             {"data": {"link_image": LINK_IMAGE, "images": "docker.example/base:\n"}}, kind="application/merge-patch+json")
token = cluster.make("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token",
                     {"spec": {"expirationSeconds": 7200}})["status"]["token"]
# The broker's user reads neither of these: the daemon has read them before.
FLAGS = ["--kube-config", kubeconfig({}, {"token": token}), "--kube-images", "docker.example/base:", "--kube-link-image",
         LINK_IMAGE, "--kube-image", IMAGE, "--create-ready-timeout", "120s"]
d = Daemon(*FLAGS, "--kube-uid-first", "100000").start()


def spaces():
    """Namespaces of sandboxes, to those that are being deleted."""
    return {s["metadata"]["name"]: bool(s["metadata"].get("deletionTimestamp"))
            for s in cluster.get("/api/v1/namespaces")["items"] if s["metadata"]["name"].startswith("sbx-")}


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


def runtime_report(daemon):
    return [r for r in daemon.get("/v1/status").json["runtimes"] if r["name"] == "kube"][0]


@test("the runtime says what it can do, and refuses what no pod can be by name")
def refusals():
    wait_for(lambda: runtime_report(d)["available"], lambda: f"the cluster is there: {runtime_report(d)}\n{d.log_text()}")
    report = runtime_report(d)
    check(report["version"].startswith("Kubernetes v1."), report)
    for spec, words in (({"accept_weaker": []}, "network cannot be enforced in a pod"),
                        ({"limits": {"io_mb_per_s": 5}}, "io cannot be enforced in a pod"),
                        ({"workdir": "/x"}, "start in /workspace"), ({"image": "other.example/x:1"}, "beyond what the operator allows"),
                        ({"network": {"allow": [{"host": "example.com"}]}}, "cannot have a network")):
        a = d.post("/v1/sandboxes", dict(WEAKER, **spec), timeout=180)
        check(400 <= a.status < 500 and words in a.json["error"]["message"], f"{spec}: {a}")
    equal(spaces(), {}, "nothing was made of these")


@test("a sandbox is a pod: commands, input, files, streams, the walls that were found, the end of it all")
def ordinary():
    with create(limits={"memory_mb": 128, "cpu_cores": 0.5, "disk_mb": 64, "max_processes": 40}) as sb:
        pod = pod_of(sb.id)
        labels = pod["metadata"]["labels"]
        equal((labels["app.kubernetes.io/managed-by"], labels["sbx.allocated"]), ("mas-sandbox", "true"), labels)
        equal(labels["sbx.state"], "claimed", labels)
        notes = pod["metadata"]["annotations"]
        equal((notes["mas-sandbox/generation"], notes["mas-sandbox/home"]), ("1", "mas-sandbox"), notes)
        equal(json.loads(notes["mas-sandbox/spec"])["spec"]["runtime"], "kube", notes)
        a = sb.exec("sh", "-c", "cat; echo out; echo err >&2; exit 7", stdin="in\n")
        equal((a["stdout"], a["stderr"], a["exit_code"]), ("in\nout\n", "err\n", 7), a)
        wait_for(lambda: last_exec_of(sb.id), "its last command is on record")
        check(abs(int(last_exec_of(sb.id)) - time.time()) < 300, "and when it was")
        equal(pod_of(sb.id)["metadata"]["annotations"], notes, "the pod was not written to")
        data = os.urandom(300000)
        equal(d.put(f"{sb.path}/files/content?path=f", data).status, 200, "written")
        equal(d.get(f"{sb.path}/files/content?path=f").body == data, True, "read")
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


@test("the sbx API over kube: the id is the namespace, the pod is called sandbox, deleting is legal while it is made")
def contract_b():
    with Daemon(*FLAGS, "--kube-instance", "second", "--kube-unproven-network", runtime="kube") as b:
        wait_for(lambda: runtime_report(b)["available"], "the cluster is there")
        a = b.post("/sandboxes", {"id": "mine"}, timeout=180)
        check(a.status in (200, 201), f"{a}\n{b.log_text()}")
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


@test("an image that never comes says so")
def no_image():
    a = d.post("/v1/sandboxes", dict(WEAKER, image="docker.example/base:none"), timeout=180)
    check(a.status >= 400 and "ImagePullBackOff" in a.json["error"]["message"], a)
    nothing_left()


@test("the end of a pod is told with its reason: its link killed, deleted by hand")
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
        check("its pod" in d.get(sb.path).body.decode(), d.get(sb.path).body)
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


@test("a daemon that is started again takes its pods over, and deletes those that nothing names")
def started_again():
    sb = create()
    sb.sh("echo kept >/workspace/kept")
    d.process.send_signal(signal.SIGKILL)
    d.process.wait()
    cluster.make("/api/v1/namespaces", {"metadata": {"name": "sbx-stranger", "labels": {
        "app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "mas-sandbox", "mas-sandbox/id": "stranger"}}})
    cluster.make("/api/v1/namespaces", {"metadata": {"name": "sbx-another", "labels": {
        "app.kubernetes.io/managed-by": "mas-sandbox", "mas-sandbox/instance": "other", "mas-sandbox/id": "another"}}})
    d.start()
    wait_for(lambda: d.get(sb.path).json["state"] == "ready", lambda: f"it is back: {d.get(sb.path).json}\n{d.log_text()}")
    equal(sb.exec("cat", "/workspace/kept")["stdout"], "kept\n", "what it had")
    equal(pod_of(sb.id)["metadata"]["annotations"]["mas-sandbox/generation"], "2", "its generation")
    check(d.get(sb.path).json["effective"]["memory"]["by"], "its walls were looked at again")
    wait_for(lambda: set(spaces()) == {"sbx-another", sb.id}, lambda: f"strangers: {spaces()}\n{d.log_text()}")
    sb.delete()
    cluster.call("DELETE", "/api/v1/namespaces/sbx-another")
    nothing_left()


@test("nothing is left when the daemon ends")
def daemon_ends():
    create()
    equal(d.stop(), 0, d.log_text())
    nothing_left()


main()
