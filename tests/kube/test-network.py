#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The network wall of pods, on a real node without and with what enforces NetworkPolicies: it is claimed only where it was
shown to hold, by two pods before any sandbox, and by each sandbox for itself."""
import os
import http.server
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from broker import kubeconfig
from node import *

if not FULL:
    skip_all("`make check-kube-full` has the time for it")
if why_not() or why_no_enforcer():
    skip_all(why_not() or why_no_enforcer())
enter(("etcd", "kube-apiserver", "node"), remove_groups)
cluster = NodeCluster()
cluster.start()
pause_image()
image(LINK_IMAGE, {name: (data_of(os.path.join(BUILD, name)), 0o755) for name in ("mas-link", "mas-toolrunner")}, {})
image(IMAGE, data_of(os.path.join(BUILD, "default-image.tar")), {"Cmd": ["/bin/sh"]})
cluster.wait_node()
for kind, name, text in base_objects():
    cluster.make(COLLECTIONS[kind] + "?fieldValidation=Strict", text, kind="application/yaml")
cluster.change(COLLECTIONS["ConfigMap"] + "/mas-kube", {"data": {"link_image": LINK_IMAGE, "images": "docker.example/base:\n"}})
token = cluster.make("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token",
                     {"spec": {"expirationSeconds": 7200}})["status"]["token"]
d = Daemon("--kube-config", kubeconfig({}, {"token": token}), "--kube-images", "docker.example/base:", "--kube-link-image",
           LINK_IMAGE, "--kube-image", IMAGE, "--create-ready-timeout", "120s", "--kube-uid-first", "100000",
           "--gateway-allow-private", ADDRESS, "--network-cidrs", ADDRESS).start()


def pods():
    """Namespaces of this daemon to the addresses of their pods."""
    return {p["metadata"]["namespace"]: p["status"].get("podIP") for p in cluster.get("/api/v1/pods")["items"]
            if p["metadata"]["namespace"].startswith("sbx-")}


def spaces():
    return [s["metadata"]["name"] for s in cluster.get("/api/v1/namespaces")["items"] if s["metadata"]["name"].startswith("sbx-")]


def report():
    return [r for r in d.get("/v1/status").json["runtimes"] if r["name"] == "kube"][0]


def tried(what):
    """Waits until the daemon has tried its cluster, and the first control plane's pods are gone but for the witness."""
    wait_for(lambda: report()["available"] and "being tried" not in json.dumps(report()),
             lambda: f"{what}: {report()} {pods()}\n{d.log_text()}", 3 * PATIENCE_S)


def create(**spec):
    return d.post("/v1/sandboxes", dict({"runtime": "kube", "limits": {"cpu_cores": 0.25}}, **spec), timeout=180)


def walled(**spec):
    a = create(**spec)
    check(a.status == 201, f"{a} {pods()}\n{d.log_text()}\n{read(f'{HOME}/enforcer.log')[-3000:]}")
    return Sandbox(d, a.json)


@test("a cluster that takes policies and enforces none: refused by name, and not claimed where that is accepted")
def not_enforced():
    tried("what it finds without an enforcer")
    check("does not enforce NetworkPolicies" in json.dumps(report()), report())
    a = create()
    check(a.status in (400, 409, 422) and "network cannot be enforced in a pod: this cluster does not enforce NetworkPolicies"
          in a.json["error"]["message"], a)
    a = create(accept_weaker=["network"])
    check(a.status == 201, f"{a}\n{d.log_text()}")
    with Sandbox(d, a.json) as sb:
        equal(d.get(sb.path).json["effective"]["network"], None, "nothing is claimed")
    wait_for(lambda: not spaces(), lambda: f"nothing is left, no probe either: {spaces()}")


@test("a cluster that enforces them: the wall is claimed by each sandbox that has tried it, and holds")
def enforced():
    cluster.start_enforcer()
    d.kill_control()
    tried("what it finds with an enforcer")
    wait_for(lambda: len(spaces()) == 1, lambda: f"one witness is kept: {spaces()} {report()}\n{d.log_text()}")
    witness = spaces()
    with walled() as sb, walled() as other:
        e = d.get(sb.path).json["effective"]
        equal(e["network"], {"by": "NetworkPolicy, tried from inside", "mode": "none"}, e)
        addresses = pods()
        for name, address, port in (("the witness", addresses[witness[0]], 4743), ("the node's kubelet", ADDRESS, 10250)):
            a = sb.exec("sh", "-c", f"nc -w 2 {address} {port} </dev/null")
            check(a["exit_code"] != 0 and "mas-witness" not in a["stdout"], f"{name}: {a}")
        listener = d.post(f"{other.path}/exec", {"command": ["nc", "-l", "-p", "8080", "-e", "echo", "reached"], "async": True}).json
        a = other.exec("sh", "-c", "sleep 1; nc -w 2 127.0.0.1 8080 </dev/null")
        equal(a["stdout"], "reached\n", f"it can be reached from where it is: {a} {listener}")
        d.post(f"{other.path}/exec", {"command": ["nc", "-l", "-p", "8080", "-e", "echo", "reached"], "async": True})
        a = sb.exec("sh", "-c", f"sleep 1; nc -w 2 {addresses[other.id]} 8080 </dev/null")
        check(a["exit_code"] != 0 and not a["stdout"], f"another sandbox: {a}")
        d.kill_control()
        wait_for(lambda: d.get(sb.path).json["state"] == "ready", lambda: f"it is taken over: {d.get(sb.path).json}\n{d.log_text()}")
        equal(d.get(sb.path).json["effective"]["network"]["by"], "NetworkPolicy, tried from inside", "it was tried again")


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 20))
        self.end_headers()
        self.wfile.write(b"x" * (1 << 20))

    def log_message(self, *args):
        pass


@test("a network by name: allowed hosts through the gateway, others refused there, and none directly")
def by_name():
    tried("the proof of the control plane of now")
    server = http.server.ThreadingHTTPServer((ADDRESS, 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    with walled(network={"allow": [{"host": ADDRESS, "ports": [port]}]}) as sb:
        equal(d.get(sb.path).json["effective"]["network"], {"by": "gateway", "mode": "names"}, "what it has")
        fetch = lambda host: sb.exec("sh", "-c", f"(printf 'GET http://{host}:{port}/ HTTP/1.0\\r\\nHost: {host}:{port}\\r\\n\\r\\n'; sleep 2) | "
                                     "nc 127.0.0.1 3128 >/tmp/answer; head -n 1 /tmp/answer; tail -c 1048576 /tmp/answer | tr -cd x | wc -c")["stdout"]
        for _ in range(2):
            got = fetch(ADDRESS)
            check(" 200 " in got and str(1 << 20) in got, f"the allowed host: {got}\n{d.log_text()}")
        got = fetch("127.0.0.2")
        check(" 403 " in got, f"a host that is not allowed: {got}")
        a = sb.exec("sh", "-c", f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {ADDRESS} {port}")
        check(a["exit_code"] != 0 and not a["stdout"], f"the allowed one directly: {a}")
        d.kill_control()
        wait_for(lambda: d.get(sb.path).json["state"] == "ready", lambda: f"it is taken over: {d.get(sb.path).json}\n{d.log_text()}")
        got = fetch(ADDRESS)
        check(str(1 << 20) in got, f"through the next control plane: {got}")
    server.shutdown()


@test("a network by address: its ipBlock and nothing beside it, and what a pod cannot have is refused by name")
def by_address():
    tried("the proof of the control plane of now")
    servers = [http.server.ThreadingHTTPServer((ADDRESS, 0), Answer) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    inside, outside = (server.server_address[1] for server in servers)
    a = create(network={"cidrs": ["198.41.0.0/24"]})
    check(a.status == 403 and "is not within the operator's network_cidrs" in a.json["error"]["message"], a)
    with walled(network={"cidrs": [f"{ADDRESS}:{inside}"]}, accept_weaker=["network"]) as sb:
        equal(d.get(sb.path).json["effective"]["network"], {"by": "NetworkPolicy, tried from inside", "mode": "addresses"}, "what it has")
        fetch = lambda port: sb.exec("sh", "-c", f"printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 3 {ADDRESS} {port} | head -c 100")["stdout"]
        check(" 200 " in fetch(inside), f"its network: {fetch(inside)}\n{d.log_text()}")
        equal(fetch(outside), "", "another port of the same address")
        d.kill_control()
        wait_for(lambda: d.get(sb.path).json["state"] == "ready", lambda: f"it is taken over: {d.get(sb.path).json}\n{d.log_text()}")
        equal(d.get(sb.path).json["effective"]["network"]["mode"], "addresses", "by the next control plane, too")
    for server in servers:
        server.shutdown()


@test("the enforcer is lost after the proof: a sandbox that reaches the witness is refused by name")
def lost():
    tried("the proof of the control plane of now")
    cluster.stop_enforcer()
    a = create()
    check(a.status >= 400 and "this one reached another pod" in a.json["error"]["message"], f"{a}\n{d.log_text()}")
    cluster.start_enforcer()
    a = create()
    check(a.status == 201, f"it works again without another proof, and waits for a policy that comes late: {a}\n{d.log_text()}")
    Sandbox(d, a.json).delete()


@test("a witness that is deleted is made anew, and nothing is left when the daemon ends")
def witness_ends():
    before = [name for name in spaces() if name.startswith("sbx-wall-")]
    cluster.call("DELETE", f"/api/v1/namespaces/{before[0]}")
    wait_for(lambda: [n for n in spaces() if n.startswith("sbx-wall-") and n not in before] and report()["enforces"].get("network"),
             lambda: f"{before} {spaces()} {report()}\n{d.log_text()}", 2 * PATIENCE_S)
    equal(d.stop(), 0, d.log_text())
    equal(spaces(), [], "what is left")


main()
