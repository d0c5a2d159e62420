#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What pods promise, each as a ratio with a peer that is measured in turns, on a real cluster of one node in namespaces of its own
(tests/kube). Needs root, and what `make kube-tools` makes.

    kube.py BUILD [crowd]

Prints `name<TAB>value<TAB><=<TAB>promise`. The peer of an exec is a bare pods/exec of the same command in a pod of the same
image, over a TLS session that is resumed; that of a create is a pod without walls, until it is Ready. ROUNDS (15) can be set.
crowd: only how 60 sandboxes differ from 5; MANY (60) can be set."""
import base64
import concurrent.futures
import os
import socket
import ssl
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
os.environ["BUILD"] = os.path.abspath(sys.argv[1])
sys.path.insert(0, os.path.join(HERE, "../tests/kube/lib"))
from world import *

ROUNDS = int(os.environ.get("ROUNDS", "15"))
CREATES, CLAIMS = 3, 5
FEW, MANY, AT_ONCE = 5, int(os.environ.get("MANY", "60")), 4
TRUE = {"command": ["/bin/true"]}
ACCOUNT = "system:serviceaccount:mas-sandbox:mas-kube"
cluster, token = start_world(audit=True)
apply_objects(cluster, "direct")


def timed(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def daemon(name, *flags):
    d = Daemon(*daemon_flags(token), "--kube-instance", name, "--kube-unproven-network", "--default-cpu-cores", "0.2", *flags,
               runtime="kube").start()
    wait_for(lambda: runtime_report(d)["available"], "the cluster is there")
    return d


def bare_pod(name):
    cluster.make("/api/v1/namespaces/default/pods", {
        "metadata": {"name": name}, "spec": {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0, "containers": [{
            "name": "c", "image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": ["sleep", "100000"]}]}})

    def ready():
        pod = cluster.get(f"/api/v1/namespaces/default/pods/{name}")
        return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", [])) and pod
    while not ready():
        time.sleep(0.02)
    return ready()


class BareExec:
    """pods/exec by a WebSocket of its own, and the TLS session of the one before."""
    session = None

    def run(self, pod):
        raw = socket.create_connection(("127.0.0.1", PORT), timeout=60)
        s = cluster.tls.wrap_socket(raw, server_hostname="127.0.0.1", session=self.session)
        key = base64.b64encode(os.urandom(16)).decode()
        s.sendall((f"GET /api/v1/namespaces/default/pods/{pod}/exec?command=/bin/true&stdout=true HTTP/1.1\r\nHost: x\r\n"
                   f"Authorization: Bearer {ADMIN}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n").encode())
        said = b""
        while b'"status":"Success"' not in said:
            more = s.recv(65536)
            check(more, f"the exec ended early: {said}")
            said += more
        self.session = s.session
        s.close()


def resident(pod):
    """Bytes of anonymous memory of all containers of a pod."""
    for top in hierarchies():
        for place, _, files in os.walk(os.path.join(top, GROUP)):
            if place.endswith("pod" + pod["metadata"]["uid"]) and "memory.stat" in files:
                stat = dict(line.split() for line in read(os.path.join(place, "memory.stat")).splitlines())
                return int(stat.get("total_rss", stat.get("anon", 0)))
    raise RuntimeError("the pod has no control group")


def writes(sandbox):
    """How often the broker has changed something of this sandbox's, by the API server's own account. Pods that try the network are
    made at the same time, and are not a part of any create."""
    entries = [json.loads(line) for line in read(f"{HOME}/audit.log").splitlines()]
    return sum(e["user"]["username"] == ACCOUNT and e["verb"] in ("create", "update", "patch", "delete")
               and e["objectRef"].get("subresource") is None
               and sandbox in (e["objectRef"].get("namespace"), e["objectRef"].get("name"))
               for e in entries)


def long_running():
    """Requests of the broker that the API server has begun to answer and not ended: watches, and an exec per held connection."""
    open_ones = set()
    for e in map(json.loads, read(f"{HOME}/audit.log").splitlines()):
        if e["user"]["username"] == ACCOUNT and e["stage"] == "ResponseStarted":
            open_ones.add(e["auditID"])
        elif e["stage"] in ("ResponseComplete", "Panic"):
            open_ones.discard(e["auditID"])
    return len(open_ones)


def all_at_once(work, items):
    """In turns of AT_ONCE threads."""
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


def settled_exec(d, boxes):
    """The median of one exec after the other in all of these; and how many requests are under way. What a create or a delete leaves to
    the node is waited for before."""
    settled(lambda: len(cluster.get("/api/v1/pods")["items"]), 10)
    times = [timed(lambda box=box: check(d.post(box.path + "/exec", TRUE).json["exit_code"] == 0, "exec"))
             for _ in range(ROUNDS) for box in boxes[:FEW]]
    return statistics.median(times), settled(long_running, 3)


def crowd():
    """Few sandboxes, many, and few again, so that the host's own changes count for neither."""
    d = daemon("crowd", *DIRECT, "--cpu-request", "10m", "--mem-request", "16Mi")

    def create(_):
        a = d.post("/v1/sandboxes", {}, timeout=600)
        equal(a.status, 201, f"{a}\n{d.log_text()}")
        return Sandbox(d, a.json)
    boxes = all_at_once(create, range(FEW))
    before, requests = settled_exec(d, boxes)
    more = all_at_once(create, range(MANY - FEW))
    many, requests_of_many = settled_exec(d, boxes)
    all_at_once(lambda box: d.delete(box.path, timeout=600), more)
    after, _ = settled_exec(d, boxes)
    check(requests > 0, "the account has long-running requests")
    row(f"kube: exec over HTTP, direct, {MANY} sandboxes / {FEW}", many / statistics.mean([before, after]), 1.2)
    row(f"kube: long-running API requests, direct, {MANY} sandboxes / {FEW}", requests_of_many / requests, 1)
    d.__exit__()


def row(name, value, promise):
    print(f"{name}\t{value:.4f}\t<=\t{promise}", flush=True)


if sys.argv[2:] == ["crowd"]:
    crowd()
    sys.exit()
direct, through = daemon("direct", *DIRECT), daemon("exec")
peer, bare = bare_pod("peer"), BareExec()
boxes = [d.sandbox() for d in (direct, through)]
n_writes = max(writes(box.id) for box in boxes)
times = {"direct": [], "exec": [], "bare": []}
for _ in range(ROUNDS + 2):
    for name, d, box in (("direct", direct, boxes[0]), ("exec", through, boxes[1])):
        times[name].append(timed(lambda d=d, box=box: check(d.post(box.path + "/exec", TRUE).json["exit_code"] == 0, "exec")))
    times["bare"].append(timed(lambda: bare.run("peer")))
median = {name: statistics.median(values[2:]) for name, values in times.items()}
row("kube: exec over HTTP, direct / bare pods/exec", median["direct"] / median["bare"], 0.1)
row("kube: exec over HTTP, carrier exec / direct", median["exec"] / median["direct"], 3)
pod = cluster.get(f"/api/v1/namespaces/{boxes[0].id}/pods/sandbox")
row("kube: an idle sandbox's memory beyond a bare pod, MiB", (resident(pod) - resident(peer)) / 2**20, 4)
for box in boxes:
    box.delete()
ours, theirs = [], []
for i in range(CREATES):
    made = []
    ours.append(timed(lambda: made.append(direct.sandbox())))
    made[0].delete()
    theirs.append(timed(lambda i=i: bare_pod(f"bare{i}")))
    cluster.call("DELETE", f"/api/v1/namespaces/default/pods/bare{i}")
row("kube: cold create / a bare pod until Ready", statistics.median(ours) / statistics.median(theirs), 2)
row("kube: API writes of a create, a namespace per sandbox", n_writes, 4)
ahead = daemon("ahead", *DIRECT, "--warm-pool-size", str(CLAIMS))
wait_for(lambda: len(cluster.get("/api/v1/namespaces?labelSelector=sbx.state%3Dready")["items"]) == CLAIMS,
         lambda: f"the pool is full\n{ahead.log_text()}", 120)
members = {s["metadata"]["name"]: writes(s["metadata"]["name"]) for s in cluster.get("/api/v1/namespaces")["items"]}
claims, claim_writes = [], []
for i in range(CLAIMS):
    made = []
    claims.append(timed(lambda: made.append(ahead.sandbox())))
    claim_writes.append(writes(made[0].id) - members[made[0].id])
row("kube: warm claim / cold create", statistics.median(claims) / statistics.median(ours), 0.05)
row("kube: the slowest warm claim / cold create", max(claims) / statistics.median(ours), 0.05)
row("kube: API writes of a claim", max(claim_writes), 1)
for d in (direct, through, ahead):
    d.__exit__()
crowd()
