# SPDX-License-Identifier: Apache-2.0
"""For tests in which control planes die: requests that outlive them, and how many there were."""
from masd import *


def once(d, method, path, body=None):
    """The answer, or None where the connection broke."""
    try:
        return d.request(method, path, body)
    except BROKEN:
        return None


def again(d, method, path, body=None):
    """Asks until there is an answer."""
    end = time.time() + PATIENCE_S
    while time.time() < end:
        a = once(d, method, path, body)
        if a:
            return a
        time.sleep(0.02)
    raise AssertionError(f"no answer to {method} {path}:\n{d.log_text()}")


def generations(d):
    with open(d.log_path, errors="replace") as f:
        return f.read().count("control plane started")


def control_pid(d):
    return d.get("/v1/status").json["pid"]


def kill_control(d):
    d.kill_control()
