# SPDX-License-Identifier: Apache-2.0
"""Suites that were written for daemons on a host, over pods: their daemons get what a cluster needs."""
from world import *
import masd

HOST_LIKE = "docker.example/base:host"


class PodDaemon(masd.Daemon):
    """Each has an instance of its own: what nothing of its own names it deletes. token: of the broker's account."""
    count = 0
    token_of_broker = None
    carrier = "exec"

    def __init__(self, *flags, **members):
        PodDaemon.count += 1
        more = DIRECT if PodDaemon.carrier == "direct" else []
        super().__init__(*daemon_flags(PodDaemon.token_of_broker, HOST_LIKE), *more, "--kube-instance", f"daemon{os.getpid()}-{PodDaemon.count}",
                         "--kube-uid-first", "100000", "--kube-unproven-network", "--default-cpu-cores", "0.4", *flags, **members)

    def start(self):
        super().start()
        wait_for(lambda: runtime_report(self)["available"], lambda: f"the cluster is there: {runtime_report(self)}\n{self.log_text()}")
        return self


def start_suites():
    """A world with both carriers and an image that has what the suites call inside; daemons are its own from here on."""
    cluster, PodDaemon.token_of_broker = start_world()
    apply_objects(cluster, "direct")
    host_like_image(HOST_LIKE)
    masd.Daemon = PodDaemon
    return cluster
