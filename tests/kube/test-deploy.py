#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/kube/daemon in a real cluster: the daemon and its broker as two containers of one pod, both ordinary users under the
restricted profile, the account's token in the broker's alone. Sandboxes are made by its API; each container is killed."""
import base64
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from node import *

if not FULL:
    skip_all("an image of the daemon; check-kube-full has the time")
if why_not():
    skip_all(why_not())
enter(("etcd", "kube-apiserver", "node"), remove_groups)
DAEMON_IMAGE = "our.example/daemon:1"
SERVICE = "10.96.0.1"  # of the API server, to pods
TOKEN = "the-token-of-the-api"
POD = "/api/v1/namespaces/mas-sandbox/pods/mas-sandbox-0"
NAMES = {"example.invalid/mas-sandbox/daemon:1": DAEMON_IMAGE, "example.invalid/mas-sandbox/link:1": LINK_IMAGE,
         "example.invalid/mas-sandbox/base:1": IMAGE, "example.invalid/mas-sandbox/base:": "docker.example/base:",
         '"uid_first": 1000000': '"uid_first": 100000', "--images=false": "--images=false\n            - --kube-unproven-network"}


def serve_api():
    """There is no kube-proxy here: the service's address is the node's own, and what comes there is passed on."""
    subprocess.run(["ip", "addr", "add", f"{SERVICE}/32", "dev", "lo"], check=True)
    listener = socket.create_server((SERVICE, 443))

    def pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept():
        while True:
            a, _ = listener.accept()
            b = socket.create_connection(("127.0.0.1", PORT))
            for pair in ((a, b), (b, a)):
                threading.Thread(target=pump, args=pair, daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()


cluster = NodeCluster()
make_certificate("ca", "server", "/CN=kube-apiserver",
                 f"subjectAltName=IP:127.0.0.1,IP:{SERVICE},DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth\n")
cluster.start()
serve_api()
pause_image()
built_image("link", LINK_IMAGE)
image(IMAGE, data_of(os.path.join(BUILD, "default-image.tar")), {"Cmd": ["/bin/sh"]})
built_image("daemon", DAEMON_IMAGE)
cluster.wait_node()


def apply(text):
    kind = re.search(r"^kind: (\w+)$", text, re.M)[1]
    for name, ours in NAMES.items():
        text = text.replace(name, ours)
    cluster.make(COLLECTIONS[kind] + "?fieldValidation=Strict", text, kind="application/yaml")


for overlay in ("base", "daemon"):
    for _, _, text in base_objects(overlay):
        apply(text)
    if overlay == "base":
        storage(cluster, "state", owner=64213)
        cluster.make("/api/v1/namespaces/mas-sandbox/secrets", {
            "metadata": {"name": "mas-sandbox-token"}, "data": {"token": base64.b64encode(TOKEN.encode()).decode()}})


def containers():
    """{name: (ready, restarts)} of the daemon's pod."""
    pod = cluster.get(POD) or {}
    return {c["name"]: (c["ready"], c["restartCount"]) for c in pod.get("status", {}).get("containerStatuses", [])}


def logs():
    out = f"{containers()}\n"
    for name in ("daemon", "broker"):
        out += f"--- {name}\n" + cluster.call("GET", f"{POD}/log?container={name}&tailLines=20").body.decode(errors="replace")
    return out


def ask(method, path, body=None):
    c = http.client.HTTPConnection(cluster.get(POD)["status"]["podIP"], 8080, timeout=180)
    c.request(method, path, json.dumps(body) if body is not None else None, {"Authorization": "Bearer " + TOKEN})
    r = c.getresponse()
    return r.status, json.loads(r.read() or b"null")


def answers():
    try:
        kube = [r for r in ask("GET", "/v1/status")[1]["runtimes"] if r["name"] == "kube"][0]
    except (OSError, http.client.HTTPException, KeyError, TypeError):
        return False
    return kube["available"]


def run(sandbox, line):
    status, a = ask("POST", f"/sandboxes/{sandbox}/exec", {"command": ["sh", "-c", line], "async": False})
    equal(status, 200, a)
    return a["stdout"]


def process(name, uid):
    """The first process of a container: the one of this name and user that no other such process has started."""
    found = [p for p in all_pids() if name_of(p) == name and lives(p) and status_of(p)["Uid"].split()[0] == str(uid)]
    return min(found)


@test("the daemon starts as an ordinary user, and its broker alone has the token")
def starts():
    wait_for(lambda: containers() and all(ready for ready, _ in containers().values()), logs, STARTUP_S)
    wait_for(answers, lambda: f"the cluster is there: {logs()}", STARTUP_S)
    daemon, broker = process("mas-warden", 64213), process("mas-kube", 64219)
    check("kubernetes.io/serviceaccount" in read(f"/proc/{broker}/mountinfo"), "the broker has it")
    check("kubernetes.io/serviceaccount" not in read(f"/proc/{daemon}/mountinfo"), "the daemon does not")
    for pid in (daemon, broker):
        equal((status_of(pid)["CapBnd"], status_of(pid)["NoNewPrivs"]), ("0" * 16, "1"), name_of(pid))


@test("sandboxes by its API, over the death of the broker, and over that of the daemon")
def sandboxes():
    status, a = ask("POST", "/sandboxes", {"id": "mine"})
    equal(status, 200, f"{a}\n{logs()}")
    equal(run("sbx-mine", "echo kept >/workspace/kept; hostname"), "mine\n", "a command")
    for name, pid in (("broker", process("mas-kube", 64219)), ("daemon", process("mas-warden", 64213))):
        before = containers()[name][1]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: containers().get(name, (0, before))[1] > before, lambda: f"{name} is started again: {logs()}", STARTUP_S)
        wait_for(answers, lambda: f"the cluster is there again after {name}: {logs()}", STARTUP_S)
        wait_for(lambda: ask("GET", "/sandboxes/sbx-mine")[1].get("phase") == "Running", lambda: f"it is back after {name}: {logs()}", STARTUP_S)
        equal(run("sbx-mine", "cat /workspace/kept"), "kept\n", f"what it had, after {name}")
    equal(ask("DELETE", "/sandboxes/sbx-mine")[0], 200, logs())
    check(not cluster.get("/api/v1/namespaces/sbx-mine"), "its namespace is gone")


main()
