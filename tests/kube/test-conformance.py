#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What every runtime must do alike (tests/runtime/test-conformance.py), over pods of a real kubelet, by either carrier.

    test-conformance.py [exec|direct] [NAME...]

Part of `make check-kube-full`."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from suites import *

cluster = start_suites()
CARRIERS = [sys.argv.pop(1)] if sys.argv[1:] and sys.argv[1] in ("exec", "direct") else ["exec", "direct"]
suite = conformance_suite()


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
    PodDaemon.carrier = carrier
    return shared_daemon("--kill-grace", "1s", "--kube-home", carrier, runtime="kube")


for carrier in CARRIERS:
    for name, fn in suite._suite:
        test(f"kube, {carrier}: {name}")(lambda fn=fn, carrier=carrier: fn(Pods(carrier)))
main()
