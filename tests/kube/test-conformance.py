#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What every runtime must do alike (tests/runtime/test-conformance.py), over pods of a real kubelet, by either carrier.

    test-conformance.py [exec|direct] [NAME...]

Part of `make check-kube-full`."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from world import *
import masd

cluster, token = start_world()
CARRIERS = [sys.argv.pop(1)] if sys.argv[1:] and sys.argv[1] in ("exec", "direct") else ["exec", "direct"]
apply_objects(cluster, "direct")
HOST_LIKE = "docker.example/base:host"
host_like_image(HOST_LIKE)
suite = conformance_suite()


class KubeDaemon(masd.Daemon):
    """Each has an instance of its own: what nothing of its own names it deletes."""
    count = 0
    carrier = "exec"

    def __init__(self, *flags, **members):
        KubeDaemon.count += 1
        more = DIRECT if KubeDaemon.carrier == "direct" else []
        super().__init__(*daemon_flags(token, HOST_LIKE), *more, "--kube-instance", f"daemon{KubeDaemon.count}",
                         "--kube-uid-first", "100000", "--kube-unproven-network", "--default-cpu-cores", "0.4", *flags, **members)

    def start(self):
        super().start()
        wait_for(lambda: runtime_report(self)["available"], lambda: f"the cluster is there: {runtime_report(self)}\n{self.log_text()}")
        return self


class Pods(suite.Under):
    def __init__(self, carrier):
        super().__init__("kube")
        self.carrier = carrier

    @property
    def d(self):
        return daemon_of(self.carrier)

    @property
    def engine(self):
        """The runner's parent is containerd's."""
        return True


def daemon_of(carrier):
    """One for all cases of a carrier."""
    KubeDaemon.carrier = carrier
    return shared_daemon("--kill-grace", "1s", "--kube-home", carrier, runtime="kube")


masd.Daemon = suite.Daemon = KubeDaemon
for carrier in CARRIERS:
    for name, fn in suite._suite:
        test(f"kube, {carrier}: {name}")(lambda fn=fn, carrier=carrier: fn(Pods(carrier)))
main()
