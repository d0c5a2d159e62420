#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sidecar mode end to end: pods with a stream container, which brings the output of commands to /ingest, under the shipped role
and admission policy. The container, the control plane and the broker are killed while a command prints."""
import hashlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from world import *

STREAM_IMAGE = "our.example/stream:1"
TOKEN = "the-daemons-own"
PORT_OF_STREAMS = 18080
WEAKER = {"runtime": "kube", "accept_weaker": ["network"]}

cluster, token = start_world()
built_image("stream", STREAM_IMAGE)
SIDECAR = ["--stream-mode", "sidecar", "--stream-sidecar-image", STREAM_IMAGE, "--stream-endpoint", f"http://{ADDRESS}:{PORT_OF_STREAMS}",
           "--auth-token", TOKEN, "--listen", f"{ADDRESS}:{PORT_OF_STREAMS}"]
d = Daemon(*daemon_flags(token), *SIDECAR, "--kube-uid-first", "100000", "--kill-grace", "1s")
d.token = TOKEN
d.start()


def settings(**data):
    cluster.call("PATCH", COLLECTIONS["ConfigMap"] + "/mas-kube", {"data": data}, kind="application/merge-patch+json")


def pod_of(sandbox):
    return cluster.get(f"/api/v1/namespaces/{sandbox}/pods/sandbox")


def create(**spec):
    a = d.post("/v1/sandboxes", dict(WEAKER, **spec), timeout=180)
    check(a.status == 201, f"create: {a}\n{d.log_text()}\n{read(f'{HOME}/kubelet.log')[-1500:]}")
    return Sandbox(d, a.json)


def pids_of(name):
    return [pid for pid in all_pids() if name_of(pid) == name and lives(pid)]


def events_of(sandbox, exec_id):
    return d.ws(f"/sandboxes/{sandbox}/stream?exec_id={exec_id}").events()


def text_of(events):
    return b"".join(base64.b64decode(e["data_base64"]) if "data_base64" in e else e["data"].encode() for e in events if e["type"] == "output")


@test("the admission policy lets no stream container in that its settings do not name")
def admission():
    wait_for(lambda: runtime_report(d)["available"], lambda: f"{runtime_report(d)}\n{d.log_text()}")
    answers = []

    def refused_one():
        answers.append(d.post("/v1/sandboxes", WEAKER, timeout=180))
        if answers[-1].status == 201:  # a policy holds a moment after it is posted
            d.delete("/v1/sandboxes/" + answers[-1].json["id"])
        return answers[-1].status == 403
    wait_for(refused_one, lambda: f"{answers[-1]}")
    check("admission" in answers[-1].json["error"]["message"], answers[-1])
    settings(stream_image=STREAM_IMAGE)


@test("output comes by the stream container: streams, bytes that are no text, exit codes, the exit last; and nothing else is widened")
def ordinary():
    answers = []

    def made():
        answers.append(d.post("/v1/sandboxes", WEAKER, timeout=180))
        return answers[-1].status != 403  # the API server has its settings from a cache
    wait_for(made, lambda: f"the settings hold: {answers[-1]}\n{d.log_text()}")
    check(answers[-1].status == 201, f"create: {answers[-1]}\n{d.log_text()}\n{read(f'{HOME}/kubelet.log')[-1500:]}")
    with Sandbox(d, answers[-1].json) as sb:
        pod = pod_of(sb.id)
        stream = pod["spec"]["initContainers"][2]
        equal((stream["name"], stream["image"]), ("stream", STREAM_IMAGE), stream)
        a = sb.sh("echo out; echo err >&2; exit 3")
        equal((a["stdout"], a["stderr"], a["exit_code"]), ("out\n", "err\n", 3), a)
        a = d.post(f"/sandboxes/{sb.id}/exec", {"command": ["sh", "-c", "printf 'a\\377b'; seq 100000"]}).json
        events = events_of(sb.id, a["exec_id"])
        want = b"a\xffb" + "".join(f"{i}\n" for i in range(1, 100001)).encode()
        equal(hashlib.sha256(text_of(events)).hexdigest(), hashlib.sha256(want).hexdigest(), "every byte of it")
        equal(([e["type"] for e in events].count("exit"), events[-1]["type"], events[-1]["exit_code"]), (1, "exit", 0), events[-1])
        logs = cluster.call("GET", f"/api/v1/namespaces/{sb.id}/pods/sandbox/log?container=stream")
        secret = stream["env"][0]["value"].split("token=")[1]
        check("connected" in str(logs) and secret not in str(logs), logs)
        seen = sb.sh("ls -d /sbx-events /mas-events 2>/dev/null; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c token=; id -u")["stdout"].split()
        equal(seen, ["0", str(pod["spec"]["securityContext"]["runAsUser"])], "files, tokens and the user of commands")
        check("stream_endpoint" in " ".join(d.get(sb.path).json["effective"]["shares"]), d.get(sb.path).json["effective"])
        refused(sb, secret)


def refused(sb, secret):
    """A command that finds the endpoint has no key, and another sandbox's token is none."""
    at = f"{ADDRESS}:{PORT_OF_STREAMS}"
    a = sb.sh(f"busybox wget -S -O - http://{at}/v1/sandboxes 2>&1 | head -n 3")
    check("401" in a["stdout"], f"without a key: {a}")
    for path, status in ((f"/sandboxes/{sb.id}/ingest?token={'x' * 40}", 401), (f"/sandboxes/other/ingest?token={secret}", 404),
                         (f"/sandboxes/{sb.id}/ingest?token=", 401)):
        d.token = None
        a = d.ws(path)
        d.token = TOKEN
        equal(a.status, status, path)
    equal(d.ws(f"/sandboxes/{sb.id}/ingest").status, 401, "the daemon's own token is not the container's")


@test("events of another image: without offsets, in place of a container that stands still; the exit waits, and what does not fit is refused")
def by_hand():
    with create() as sb:
        equal(sb.exec("echo", "up")["stdout"], "up\n")
        for pid in pids_of("mas-stream"):
            os.kill(pid, signal.SIGSTOP)
        url = pod_of(sb.id)["spec"]["initContainers"][2]["env"][0]["value"]
        path = f"/sandboxes/{sb.id}/ingest?{url.split('?')[1]}"
        a = d.post(f"{sb.path}/exec", {"command": ["sh", "-c", "printf 'a\\377b'; exit 4"], "async": True}).json
        at = f"{sb.path}/execs/{a['exec_id']}"
        d.token = None  # the container's own token does
        for event in ({"type": "output", "stream": "stdout", "data": "x", "offset": 7}, {"type": "output", "stream": "stdin", "data": "x"},
                      {"type": "output", "stream": "stdout", "data": "x" * 600000}, {"type": "end"}, ["start"]):
            bad = d.ws(path)
            bad.send(json.dumps(dict(event, exec_id=a["exec_id"]) if isinstance(event, dict) else event))
            list(bad.messages())
            equal(bad.close_code, 1008, event)
        before, ws = d.ws(path), d.ws(path)
        d.token = TOKEN
        list(before.messages())
        equal(before.close_code, 1008, "a newer connection takes the place of the one before")
        for event in ({"type": "start"}, {"type": "output", "stream": "stdout", "data": "a"}, {"type": "output", "stream": "stdout", "data": "\ufffd"}):
            ws.send(json.dumps(dict(event, exec_id=a["exec_id"], sandbox_id=sb.id, time="2026-01-01T00:00:00Z")))
        time.sleep(1)
        equal(d.get(at).json["status"], "running", "a byte of its output is missing")
        ws.send(json.dumps({"type": "output", "exec_id": a["exec_id"], "stream": "stdout", "data": "b"}))
        wait_for(lambda: d.get(at).json["status"] != "running", lambda: f"{d.get(at).json}\n{d.log_text()}")
        equal((d.get(at).json["status"], d.get(at).json["exit_code"]), ("completed", 4), "the runner's word")
        equal(text_of(events_of(sb.id, a["exec_id"])), b"a\xffb", "every byte has its place")
        a = d.post(f"{sb.path}/exec", {"command": ["sh", "-c", "printf ab; sleep 2"], "async": True}).json
        at = f"{sb.path}/execs/{a['exec_id']}"
        ws.send(json.dumps({"type": "output", "exec_id": a["exec_id"], "stream": "stdout", "data": "ab" * 75000}))
        wait_for(lambda: d.get(at).json["status"] != "running", lambda: f"{d.get(at).json}\n{d.log_text()}")
        equal(d.get(at).json["status"], "failed", d.get(at).json)
        check("brought more output" in d.get(at).json["error"], d.get(at).json)
        for pid in pids_of("mas-stream"):
            os.kill(pid, signal.SIGCONT)
        equal(sb.exec("echo", "on")["stdout"], "on\n", "it goes on")


@test("stream container, broker and control plane are killed while a command prints: not a byte is lost or doubled")
def killed():
    with create() as sb:
        script = "i=0; while [ $i -lt 1500 ]; do i=$((i + 1)); echo line $i; [ $((i % 50)) = 0 ] && sleep 0.5; done; exit 5"
        want = "".join(f"line {i}\n" for i in range(1, 1501))
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
        for pid in pids_of("mas-stream"):
            os.kill(pid, signal.SIGKILL)
        goes_on("the stream container")
        d.kill_control()
        goes_on("the control plane")
        for pid in named("mas-kube", below(warden)):
            os.kill(pid, signal.SIGKILL)
        for pid in pids_of("mas-stream"):
            os.kill(pid, signal.SIGKILL)
        d.kill_control()
        goes_on("all of them")
        wait_for(lambda: d.get(at).json["status"] != "running", lambda: f"its end: {d.get(at).json}\n{d.log_text()}", 3 * PATIENCE_S)
        e = d.get(at).json
        equal((e["status"], e["exit_code"]), ("completed", 5), e)
        got = text_of([json.loads(x) for x in d.get(f"{at}/logs").body.splitlines()])
        equal(hashlib.sha256(got).hexdigest(), hashlib.sha256(want.encode()).hexdigest(), f"{len(got)} of {len(want)}")
        equal(sb.exec("echo", "alive")["stdout"], "alive\n", "it is still there")


main()
