# SPDX-License-Identifier: Apache-2.0
"""Sandboxes of one daemon as the cluster has them, for scripts that make them by the ordinary API."""
from world import *

WEAKER = {"runtime": "kube", "accept_weaker": ["network"]}


class Sandboxes:
    def __init__(self, cluster, daemon):
        self.cluster, self.daemon = cluster, daemon

    def spaces(self):
        """Namespaces of sandboxes, and whether they are being deleted; without those that try the network (test-network.py)."""
        return {s["metadata"]["name"]: bool(s["metadata"].get("deletionTimestamp"))
                for s in self.cluster.get("/api/v1/namespaces")["items"]
                if s["metadata"]["name"].startswith("sbx-") and not s["metadata"]["name"].startswith("sbx-wall-")}

    def pod_of(self, sandbox):
        return self.cluster.get(f"/api/v1/namespaces/{sandbox}/pods/sandbox")

    def last_exec_of(self, sandbox):
        return self.cluster.get(f"/api/v1/namespaces/{sandbox}")["metadata"]["annotations"].get("sbx.last_exec_at")

    def create(self, **spec):
        a = self.daemon.post("/v1/sandboxes", dict(WEAKER, **spec), timeout=180)
        check(a.status == 201, f"create: {a}\n{self.daemon.log_text()}\n{read(f'{HOME}/kubelet.log')[-1500:]}")
        return Sandbox(self.daemon, a.json)

    def nothing_left(self):
        wait_for(lambda: not self.spaces(), lambda: f"namespaces are left: {self.spaces()}\n{self.daemon.log_text()}", 2 * PATIENCE_S)
