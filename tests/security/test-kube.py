#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What mas-kube has left once it serves, and what it refuses to start with (P33)."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

PROGRAM = os.path.join(BUILD, "mas-kube")
CEILING = {"prefix": "sbx-", "instance": "test", "images": ["docker.example/base:"], "link_image": "our.example/link:1",
           "uid_first": 100000, "uid_count": 2000, "cpu_millicores": 1000, "memory_bytes": 1 << 30, "disk_bytes": 1 << 30}
ACCESS = {"server": "https://127.0.0.1:1", "ca": "none", "token": "t"}


def start(directory, settings):
    path = os.path.join(directory, "settings.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(settings, f)
    return subprocess.Popen([PROGRAM, "--settings", path, "--listen", os.path.join(directory, "socket")],
                            stderr=subprocess.PIPE, text=True)


def connect(directory):
    deadline = time.monotonic() + 10
    while True:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(10)
        try:
            s.connect(os.path.join(directory, "socket"))
            return s
        except OSError:
            s.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def ask(s):
    """Anything that is no order gets an answer that says so. The first record says that a broker has begun."""
    s.recv(4096)
    s.send(b"no order")
    return s.recv(4096)


def fact(pid, name):
    return status_of(pid)[name].strip()


@test("P33 it has no rights left when it serves, and comes back after kill -9")
def rights():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        for _ in range(2):
            p = start(d, {"access": ACCESS, "ceiling": CEILING})
            try:
                s = connect(d)
                check(b"this is not an order" in ask(s), "an answer")
                if os.geteuid() == 0:
                    equal(fact(p.pid, "Uid").split(), ["64219"] * 4)
                    equal(fact(p.pid, "Gid").split(), ["64219"] * 4)
                    equal(fact(p.pid, "Groups"), "")
                for name in ("CapEff", "CapPrm", "CapAmb"):
                    equal(int(fact(p.pid, name), 16), 0, name)
                equal(fact(p.pid, "NoNewPrivs"), "1")
                equal(fact(p.pid, "Seccomp"), "2")
                s.close()
                s = connect(d)  # a control plane that comes again
                check(b"this is not an order" in ask(s), "an answer to the next one")
                s.close()
            finally:
                p.send_signal(signal.SIGKILL)
                p.communicate()


@test("P33 a control plane that is connected is not displaced by another connection")
def displaced():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        p = start(d, {"access": ACCESS, "ceiling": CEILING})
        try:
            first = connect(d)
            check(b"this is not an order" in ask(first), "an answer")
            for _ in range(3):
                with connect(d) as other:
                    equal(other.recv(4096), b"", "what another one gets")
            first.send(b"no order")
            check(b"this is not an order" in first.recv(4096), "an answer as before")
            first.close()
            with connect(d) as other:
                check(b"this is not an order" in ask(other), "an answer to the one that comes after it")
        finally:
            p.send_signal(signal.SIGKILL)
            log = p.communicate()[1]
        whose = f"pid={os.getpid()} uid={os.geteuid()}"
        equal([log.count(f"{words} {whose}") for words in ("is connected", "because a control plane is connected")], [5, 3], log)


@test("a broker that stands alone says that it needs a holder, by which its next start is known")
def holder():
    for more, warned in (({}, 1), ({"holder": "one"}, 0)):
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)
            p = start(d, dict({"access": ACCESS, "ceiling": CEILING}, **more))
            try:
                connect(d).close()
            finally:
                p.send_signal(signal.SIGKILL)
                log = p.communicate()[1]
            equal(log.count("the settings have no holder"), warned, log)


@test("P33 what would weaken it is refused by name before it serves")
def refused():
    def config(cluster, user):
        return json.dumps({"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                           "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}]})
    good = {"server": "https://h", "certificate-authority-data": "Q0E="}
    cases = [
        ({"kubeconfig": config({"server": "https://h", "insecure-skip-tls-verify": True}, {"token": "t"})},
         "insecure-skip-tls-verify is refused"),
        ({"kubeconfig": config(good, {"auth-provider": {"name": "gcp"}})}, "'auth-provider' is refused"),
        ({"kubeconfig": config(good, {"exec": {"command": "x"}})}, "exec_plugins"),
        ({"kubeconfig": config({"server": "http://h"}, {"token": "t"})}, "without TLS"),
        ({"access": ACCESS, "sealing": "no"}, "sealing"),
        ({"access": ACCESS, "ceiling": None}, "ceiling"),
        ({"access": ACCESS, "ceiling": dict(CEILING, prefix="kube-system")}, "prefix"),
        ({"access": ACCESS, "ceiling": dict(CEILING, uid_first=0)}, "user ids"),
        ({}, "KUBERNETES_SERVICE_HOST"),
    ]
    for settings, words in cases:
        with tempfile.TemporaryDirectory() as d:
            settings = dict({"ceiling": CEILING}, **settings)
            if "kubeconfig" in settings:
                path = os.path.join(d, "kubeconfig")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(settings["kubeconfig"])
                settings["kubeconfig"] = path
            p = start(d, settings)
            _, err = p.communicate(timeout=20)
            equal(p.returncode, 1, err)
            check(words in err, f"{words}: {err}")
            check(not os.path.exists(os.path.join(d, "socket")), "no socket was made")


main()
