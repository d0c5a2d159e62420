#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Sidecar mode where sandboxes share a namespace, are reached directly, and come from the pool."""
import hashlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import FULL, skip_all

if not FULL:
    skip_all("another cluster; check-kube-full has the time, and test-stream.py has the rest of sidecar mode")
from world import *

STREAM_IMAGE = "our.example/stream:1"
TOKEN = "the-daemons-own"
PORT_OF_STREAMS = 18080
SPACE = "/api/v1/namespaces/mas-sandboxes/pods"
WEAKER = {"runtime": "kube", "accept_weaker": ["network"]}
PRINTS = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; printf '\\377\\n'; echo done >&2; exit 3"
PRINTED = "".join(f"line {i}\n" for i in range(20000)).encode() + b"\xff\n"

cluster, token = start_world()
apply_objects(cluster, "shared")
apply_objects(cluster, "direct")
cluster.call("PATCH", COLLECTIONS["ConfigMap"] + "/mas-kube", {"data": {"shared_namespace": "mas-sandboxes", "stream_image": STREAM_IMAGE}},
             kind="application/merge-patch+json")
built_image("stream", STREAM_IMAGE)
d = Daemon(*daemon_flags(token), *DIRECT, "--kube-shared-namespace", "mas-sandboxes", "--kube-unproven-network", "--warm-pool-size", "1",
           "--stream-mode", "sidecar", "--stream-sidecar-image", STREAM_IMAGE, "--stream-endpoint", f"http://{ADDRESS}:{PORT_OF_STREAMS}",
           "--auth-token", TOKEN, "--listen", f"{ADDRESS}:{PORT_OF_STREAMS}", "--default-cpu-cores", "0.2", "--kube-uid-first", "100000",
           "--kill-grace", "1s", runtime="kube")
d.token = TOKEN
d.start()


def members():
    return {p["metadata"]["name"]: p for p in cluster.get(SPACE)["items"] if p["metadata"]["labels"].get("sbx.state") == "ready"}


@test("a pod of the pool brings all output by its stream container, and is reached directly")
def pooled():
    wait_for(lambda: runtime_report(d)["available"], lambda: f"{runtime_report(d)}\n{d.log_text()}")
    wait_for(members, lambda: f"the pool has one\n{d.log_text()}", 2 * PATIENCE_S)
    ready = members()
    a = d.post("/v1/sandboxes", WEAKER, timeout=180)
    check(a.status == 201 and a.json["id"] in ready, f"it is the one that was made ahead: {a} {list(ready)}\n{d.log_text()}")
    sb = Sandbox(d, a.json)
    pod = cluster.get(f"{SPACE}/{sb.id}")
    equal([c["name"] for c in pod["spec"]["initContainers"]], ["install", "link", "stream"], "its containers")
    ids = {c["securityContext"]["runAsUser"] for c in pod["spec"]["initContainers"] + pod["spec"]["containers"]}
    equal(len(ids), 3, f"user ids of sandbox, link and stream: {ids}")
    e = d.post(f"{sb.path}/exec", {"command": ["sh", "-c", PRINTS], "async": True}).json["exec_id"]
    at = f"{sb.path}/execs/{e}"
    wait_for(lambda: d.get(at).json["status"] != "running", lambda: f"{d.get(at).json}\n{d.log_text()}", 2 * PATIENCE_S)
    equal(d.get(at).json["exit_code"], 3, "the runner's word")
    events = d.ws(f"/sandboxes/{sb.id}/stream?exec_id={e}").events()
    out = b"".join(base64.b64decode(x["data_base64"]) if "data_base64" in x else x["data"].encode()
                   for x in events if x["type"] == "output" and x["stream"] == "stdout")
    equal(hashlib.sha256(out).hexdigest(), hashlib.sha256(PRINTED).hexdigest(), f"{len(out)} bytes of {len(PRINTED)}")
    equal({c["name"]: c["detail"] for c in runtime_report(d)["checks"]}["carrier"], "direct: TLS to the pod's address", "its carrier")
    sb.delete()
    wait_for(lambda: sb.id not in {p["metadata"]["name"] for p in cluster.get(SPACE)["items"]}, "its pod is gone")


main()
