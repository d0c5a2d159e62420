#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon that is given a cluster: mas-kube is started with its credential, which no other process has; its death ends
nothing and it comes back; without a cluster that answers the runtime kube is refused by name; what would weaken the access keeps the daemon from starting."""
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

TOKEN = "kube-" + secrets.token_hex(16)
GOOD = {"server": "https://127.0.0.1:1", "certificate-authority-data": "Q0E="}
KEYS = ["--kube-images", "docker.example/base:", "--kube-link-image", "our.example/link:1"]


def kubeconfig(directory, cluster=None, user=None):
    path = os.path.join(directory, "kubeconfig")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as f:
        json.dump({"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                   "clusters": [{"name": "c", "cluster": cluster or GOOD}],
                   "users": [{"name": "u", "user": user or {"token": TOKEN}}]}, f)
    return path


def broker_of(warden):
    found = []
    wait_for(lambda: found.extend(named("mas-kube", below(warden))) or found, "mas-kube runs")
    return found[0]


@test("mas-kube alone has the credential, and its death ends nothing")
def broker():
    with tempfile.TemporaryDirectory() as directory:
        with Daemon("--kube-config", kubeconfig(directory), *KEYS) as d:
            warden = d.get("/v1/status").json["warden_pid"]
            pid = broker_of(warden)
            sandbox = d.post("/v1/sandboxes", {}).json["id"]
            if os.geteuid() == 0:
                equal(status_of(pid)["Uid"].split(), ["64219"] * 4, "its own user")
                wait_for(lambda: memory_has(pid, TOKEN.encode()), "the token is found where it is")
                others = [p for p in [warden] + below(warden) if p != pid]
                check(len(others) > 2, "there are others")
                equal([name_of(p) for p in others if memory_has(p, TOKEN.encode())], [], "who else has the token")
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: name_of(pid) != "mas-kube" or not lives(pid), "it is gone")
            check(broker_of(warden) != pid, "another one runs")
            r = d.post(f"/v1/sandboxes/{sandbox}/exec", {"command": ["echo", "alive"]})
            equal(r.json["stdout"], "alive\n", r.body)


@test("a broker that runs elsewhere: no process of the daemon has the credential, and either may begin again")
def elsewhere():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        path, settings = os.path.join(directory, "socket"), os.path.join(directory, "settings")
        with open(settings, "w", encoding="utf-8") as f:
            json.dump({"kubeconfig": kubeconfig(directory), "ceiling": {
                "prefix": "sbx-", "instance": "test", "images": ["docker.example/base:"], "link_image": "our.example/link:1",
                "uid_first": 100000, "uid_count": 2000, "cpu_millicores": 4000, "memory_bytes": 1 << 30, "disk_bytes": 1 << 30}}, f)

        def start_broker():
            return subprocess.Popen([os.path.join(BUILD, "mas-kube"), "--settings", settings, "--listen", path], stdin=subprocess.DEVNULL)

        def reason(d):
            return [r for r in d.get("/v1/status").json["runtimes"] if r["name"] == "kube"][0]["why"]
        with Daemon("--kube-socket", path) as d:
            warden = d.get("/v1/status").json["warden_pid"]
            wait_for(lambda: "has not answered" in reason(d), "there is no broker yet")
            process = start_broker()
            try:
                wait_for(lambda: "has not answered" not in reason(d), lambda: f"it has answered: {reason(d)}\n{d.log_text()}")
                if os.geteuid() == 0:
                    wait_for(lambda: memory_has(process.pid, TOKEN.encode()), "the token is found where it is")
                    equal([name_of(p) for p in [warden] + below(warden) if memory_has(p, TOKEN.encode())], [], "who else has the token")
                    equal(status_of(broker_of(warden))["Uid"].split(), ["64219"] * 4, "the relay's own user")
                process.kill()
                process.wait()
                wait_for(lambda: "the broker has gone" in d.log_text(), "its end is seen")
                process = start_broker()
                wait_for(lambda: d.log_text().count("connected to the broker") >= 2, lambda: "connected again: " + d.log_text())
                os.kill(broker_of(warden), signal.SIGKILL)
                wait_for(lambda: d.log_text().count("connected to the broker") >= 3, lambda: "another relay: " + d.log_text())
                d.kill_control()
                wait_for(lambda: "has not answered" not in reason(d), lambda: "the next control plane is answered: " + d.log_text())
            finally:
                process.kill()
                process.wait()


@test("the key of the direct carrier is made once, where the daemon keeps its own, and needs a namespace")
def direct_key():
    with tempfile.TemporaryDirectory() as directory:
        flags = ["--kube-config", kubeconfig(directory), *KEYS, "--kube-direct-port", "7443", "--kube-direct-from", "mas-sandbox"]
        with Daemon(*flags) as d:
            broker_of(d.get("/v1/status").json["warden_pid"])
            found = []

            def made():
                found[:] = [os.path.join(at, name) for at, _, names in os.walk(d.state) for name in names
                            if name == "kube-direct.key"]
                return found
            wait_for(made, "the key")
            equal(os.stat(found[0]).st_mode & 0o777, 0o600, "who can read it")
            equal(os.stat(found[0]).st_uid, os.geteuid(), "whose it is")
        p = subprocess.run([SANDBOXD, "-listen", "127.0.0.1:0", "--state-dir", os.path.join(directory, "state"), *flags[:-2]],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        check(p.returncode != 0 and "needs the namespace" in p.stderr, p.stderr)


@test("a home that is none is refused at the start, wherever the broker runs")
def home():
    with tempfile.TemporaryDirectory() as directory:
        for way in (["--kube-config", kubeconfig(directory), *KEYS], ["--kube-socket", os.path.join(directory, "socket")]):
            p = subprocess.run([SANDBOXD, "-listen", "127.0.0.1:0", "--state-dir", os.path.join(directory, "state"), *way,
                                "--kube-home", "No Home"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            check(p.returncode != 0 and "kube_home has at most" in p.stderr, p.stderr)


@test("without a cluster, and without one that answers, the runtime kube is refused by name")
def runtime():
    spec = {"runtime": "kube", "image": "docker.example/base:12", "accept_weaker": ["network"]}
    with tempfile.TemporaryDirectory() as directory:
        with Daemon("--kube-config", kubeconfig(directory), *KEYS) as d:
            wait_for(lambda: "has not answered" not in d.get("/v1/status").body.decode(), "the broker has answered")
            r = d.post("/v1/sandboxes", spec)
            check(r.status == 503 and "runtime 'kube'" in r.json["error"]["message"], r.body)
    with Daemon() as d:
        r = d.post("/v1/sandboxes", spec)
        check(400 <= r.status < 500 and "needs a cluster" in r.json["error"]["message"], r.body)


@test("what would weaken the access keeps the daemon from starting")
def refused():
    cases = [
        ({"cluster": {"server": "https://h", "insecure-skip-tls-verify": True}}, KEYS, "insecure-skip-tls-verify is refused"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, KEYS, "'auth-provider' is refused"),
        ({"user": {"exec": {"command": "x"}}}, KEYS, "exec_plugins allows it"),
        ({}, KEYS + ["--kube-context", "other"], "no context 'other' (there are: x)"),
        ({}, KEYS[:2], "kube_link_image: needed"),
        ({}, KEYS[2:], "kube_images: needed"),
        ({}, KEYS + ["--kube-in-cluster"], "only one of them"),
        ({}, KEYS + ["--kube-namespace-prefix", "kube"], "prefix"),
    ]
    for changes, flags, words in cases:
        with tempfile.TemporaryDirectory() as directory:
            command = [SANDBOXD, "-listen", "127.0.0.1:0", "--state-dir", os.path.join(directory, "state"), "--kube-config",
                       kubeconfig(directory, **changes)] + flags
            p = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            check(p.returncode != 0 and words in p.stderr, f"{words}: {p.stderr}")
            check(TOKEN not in p.stderr, "no token in a message")


main()
