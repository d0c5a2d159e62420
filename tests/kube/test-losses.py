#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is lost with a part of the runtime kube: nothing. Commands print known bytes while broker, control plane and API server are
killed in turn, and, in the full run, etcd and kubelet, which stand still for a while, too; creates are cut short, and a daemon that
is started again, with its state directory or without, takes its pods over. The cluster is a real one, with a real kubelet."""
import hashlib
import os
import shutil
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from sandboxes import *
from faults import generations, once

cluster, token = start_world()
FLAGS = daemon_flags(token)
d = Daemon(*FLAGS, "--kube-uid-first", "100000", "--kill-grace", "1s").start()
made = Sandboxes(cluster, d)
spaces, pod_of, last_exec_of, create, nothing_left = made.spaces, made.pod_of, made.last_exec_of, made.create, made.nothing_left


class Printing:
    """A command that prints numbered lines until it is told to end."""
    SCRIPT = "i=0; until [ -e enough ]; do i=$((i + 1)); echo line $i; [ $((i % 50)) = 0 ] && sleep 0.3; done; echo $i >count; exit 5"

    def __init__(self, daemon, sb):
        self.d, self.sb = daemon, sb
        a = daemon.post(f"{sb.path}/exec", {"command": ["sh", "-c", self.SCRIPT], "async": True}).json
        self.at = f"{sb.path}/execs/{a['exec_id']}"
        self.goes_on("nothing")

    def printed(self):
        return len(self.d.get(f"{self.at}/logs", timeout=180).body)

    def goes_on(self, what):
        before = self.printed()
        wait_for(lambda: self.printed() > before or self.d.get(self.at).json["status"] != "running",
                 lambda: f"it goes on after the loss of {what}: {self.d.get(self.sb.path).json}\n{self.d.log_text()}", 3 * PATIENCE_S)

    def ends_whole(self):
        self.sb.sh("touch enough")
        wait_for(lambda: self.d.get(self.at).json["status"] != "running", lambda: f"its end: {self.d.get(self.at).json}\n{self.d.log_text()}",
                 3 * PATIENCE_S)
        e = self.d.get(self.at).json
        equal((e["status"], e["exit_code"]), ("completed", 5), e)
        text = "".join(json.loads(x).get("data", "") for x in self.d.get(f"{self.at}/logs").body.splitlines())
        want = "".join(f"line {i}\n" for i in range(1, int(self.sb.exec("cat", "count")["stdout"]) + 1))
        equal(hashlib.sha256(text.encode()).hexdigest(), hashlib.sha256(want.encode()).hexdigest(), f"{len(text)} of {len(want)}")
        equal(self.sb.exec("echo", "alive")["stdout"], "alive\n", "it is still there")


@test("broker, control plane and API server are killed while a command prints: not a byte is lost or doubled")
def killed():
    with create() as sb:
        printing = Printing(d, sb)
        warden = d.get("/v1/status").json["warden_pid"]
        for pid in named("mas-kube", below(warden)):
            os.kill(pid, signal.SIGKILL)
        printing.goes_on("the broker")
        d.kill_control()
        printing.goes_on("the control plane")
        cluster.kill_server()
        cluster.start_server()
        printing.goes_on("the API server")
        for pid in named("mas-kube", below(warden)):
            os.kill(pid, signal.SIGKILL)
        d.kill_control()
        printing.goes_on("broker and control plane")
        printing.ends_whole()
    nothing_left()


def pids_of(name):
    """Of the programs with this name, of which this namespace sees all."""
    return [pid for pid in all_pids() if name_of(pid) == name and lives(pid)]


@test("etcd and kubelet are killed, and these and the API server stand still for a while: not a byte is lost or doubled")
def stood_still():
    if not FULL:
        raise Skip("a kubelet takes its time to come back; check-kube-full has it")
    flags = [*FLAGS, "--kube-instance", "sixth", "--kube-unproven-network", "--reconnect-timeout", "300s"]
    with Daemon(*flags, runtime="kube") as b:
        wait_for(lambda: runtime_report(b)["available"], lambda: f"the cluster is there: {runtime_report(b)}\n{b.log_text()}")
        a = b.post("/v1/sandboxes", WEAKER, timeout=180)
        equal(a.status, 201, f"{a}\n{b.log_text()}")
        printing = Printing(b, Sandbox(b, a.json))
        cluster.kill_etcd()
        cluster.start_etcd()
        printing.goes_on("etcd")
        before = pids_of("kubelet")
        check(before, "there is a kubelet")
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: set(pids_of("kubelet")) - set(before), "another kubelet")
        printing.goes_on("the kubelet")
        for name in ("etcd", "kubelet", "kube-apiserver"):
            still = pids_of(name)
            check(still, f"there is {name}")
            for pid in still:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(20)  # longer than a Lease lasts, and than a silent carrier is taken for alive
            for pid in still:
                os.kill(pid, signal.SIGCONT)
            cluster.wait_ready()
            printing.goes_on(f"{name}, which stood still")
        printing.ends_whole()
    nothing_left()


@test("a create that was answered with an error does not come back when control plane and broker are killed before its pod is gone")
def refused():
    flags = FLAGS[:-2] + ["--create-ready-timeout", "6s", "--kube-instance", "fourth", "--kube-unproven-network", "--debug-endpoints"]
    with Daemon(*flags, runtime="kube", env={"MAS_FAULT": "create.refused:1"}) as b:
        for generation in (2, 3) if FULL else (2,):  # after the tombstone, and after the row, too
            wait_for(lambda: runtime_report(b)["available"], "the cluster is there")
            answers = []
            t = threading.Thread(target=lambda: answers.append(once(b, "POST", "/v1/sandboxes", {"runtime": "kube"})))
            t.start()
            wait_for(lambda: [x for x in spaces() if pod_of(x)], lambda: f"its pod: {spaces()}\n{b.log_text()}", 2 * PATIENCE_S)
            brokers = named("mas-kube", below(b.get("/v1/status").json["warden_pid"]))
            for pid in brokers:
                os.kill(pid, signal.SIGSTOP)
            t.join()
            check(not answers[0] or answers[0].status >= 400, answers)
            if generation == 3:
                equal(answers[0].status, 504, answers)
                os.kill(b.get("/v1/status").json["pid"], signal.SIGKILL)
            wait_for(lambda: generations(b) == generation, lambda: f"another control plane\n{b.log_text()}")
            for pid in brokers:
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not spaces(), lambda: f"its namespace goes: {spaces()} {b.get('/v1/sandboxes').json}\n{b.log_text()}", 2 * PATIENCE_S)
            equal(b.get("/v1/sandboxes").json["sandboxes"], [], b.log_text())
        check("are known again" not in b.log_text(), b.log_text())


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


main()
