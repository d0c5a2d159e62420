#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The quickstart of docs/kube.md as it is written: a cluster that stays, its images, the daemon with dev/config.yaml, sbx, and
nothing left when the cluster is taken down."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from node import *

if not FULL:
    skip_all("another cluster; check-kube-full has the time")
if why_not():
    skip_all(why_not())
if not shutil.which("kubectl") or shutil.which("kind"):
    skip_all("there is no kubectl, or kind would be used")
enter(("etcd", "kube-apiserver", "node"))
# The cluster begins as it would for `make kind-up`, and not as a part of this script's.
ENV = {key: value for key, value in os.environ.items() if not key.startswith("MAS_KUBE_")}
AT = os.path.join(BUILD, "dev")


def step(*command):
    p = subprocess.run(command, cwd=ROOT, env=ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                       timeout=300)
    equal(p.returncode, 0, f"{' '.join(command)}: {p.stdout}")
    return p.stdout


def sidecar():
    """The same with what the end of dev/config.yaml says of sidecar mode."""
    text = re.sub(r"^#(listen|auth_token|stream_\w+):", r"\1:", read(os.path.join(ROOT, "dev/config.yaml")), flags=re.M)
    text = text.replace("build/dev", AT).replace("listen: [127.0.0.1:8080]", "").replace("127.0.0.1:8080", "127.0.0.1:8081")
    with Daemon("--config", write(f"{HOME}/sidecar.yaml", text, 0o600), "--listen", "10.123.9.1:8080", runtime=None) as d:
        d.token = "choose-one"
        made = d.post("/sandboxes", {}, timeout=180)
        check(made.status == 200, f"{made}\n{d.log_text()}")
        a = d.post(f"/sandboxes/{made.json['id']}/exec", {"command": ["bash", "-lc", "uname"], "async": False}, timeout=60)
        equal((a.status, a.json["stdout"]), (200, "Linux\n"), f"{a}\n{d.log_text()}")
        equal(d.delete(f"/sandboxes/{made.json['id']}", timeout=180).status, 200)


@test("kind-up, image-base, image-sidecar, run with dev/config.yaml, sbx create, exec and delete, kind-down")
def quickstart():
    step("scripts/dev-cluster.sh", BUILD, "up")
    try:
        users = step("kubectl", "--kubeconfig", f"{AT}/kubeconfig", "config", "view", "-o", "jsonpath={.users[*].name}")
        equal(users, "mas-kube", "whose credentials the broker is given")
        for kind in ("link", "base", "stream"):
            step("scripts/make-pod-image.sh", BUILD, kind)
            check(f"loaded localhost/mas-sandbox-{kind}:dev" in step("scripts/dev-cluster.sh", BUILD, "load", kind), kind)
        config = write(f"{HOME}/config.yaml", read(os.path.join(ROOT, "dev/config.yaml")).replace("build/dev", AT).replace("listen:", "#"))
        with Daemon("--config", config, runtime=None) as d:
            sbx = [os.path.join(BUILD, "sbx")]
            address = ["-addr", f"http://127.0.0.1:{d.port}"]
            made = step(*sbx, "create", *address)
            name = re.match(r"id=(\S+) namespace=\1 pod=sandbox", made)[1]
            check(step(*sbx, "exec", *address, "-id", name, "-sync", "--", "bash", "-lc", "uname -a").startswith("Linux"), "its output")
            equal(step(*sbx, "delete", *address, "-id", name), "deleted\n", "deleted")
        sidecar()
    finally:
        step("scripts/dev-cluster.sh", BUILD, "down")
    check(not os.path.exists(AT), "nothing is left")
    check("mas-dev0" not in step("ip", "link"), "nor the link to it")


main()
