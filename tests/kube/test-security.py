#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attempts to get out of a sandbox (tests/security/test-escape.py), over pods of a real kubelet, by the direct carrier, so that every
door is there. What is otherwise in a pod is in tests/security/pods.py, attempt by attempt. test-inside.py tries what only a cluster
has.

    test-security.py [NAME...]

Part of `make check-kube-full`."""
import os
import runpy
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
os.environ["MAS_RUNTIME"] = "kube"
from suites import *

cluster = start_suites()
PodDaemon.carrier = "direct"
sys.path.insert(0, os.path.join(ROOT, "tests/security"))
runpy.run_path(os.path.join(ROOT, "tests/security/test-escape.py"), run_name="__main__")
