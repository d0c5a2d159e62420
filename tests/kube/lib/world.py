# SPDX-License-Identifier: Apache-2.0
"""A cluster that sandboxes can be pods of: its node is ready, has our images, and the broker's account, role and admission
policy as deploy/kube ships them."""
import contextlib
import importlib.util
import os
import tarfile
import tempfile

from cluster import *
from broker import kubeconfig
from node import *

DIRECT = ["--kube-direct-port", "7443", "--kube-direct-from", "mas-sandbox"]


AUDIT = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}


def start_world(audit=False):
    """The cluster, and a token of the broker's account. audit: the API server keeps an account of its requests in audit.log."""
    if why_not():
        skip_all(why_not())
    enter(("etcd", "kube-apiserver", "node"), remove_groups)
    cluster = NodeCluster()
    if audit:
        cluster.more += [f"--audit-policy-file={write(f'{HOME}/audit.json', json.dumps(AUDIT))}", f"--audit-log-path={HOME}/audit.log"]
    cluster.start()
    pause_image()
    built_image("link", LINK_IMAGE)
    built_image("base", IMAGE)
    cluster.wait_node()
    for kind, _, text in base_objects():
        cluster.make(COLLECTIONS[kind] + "?fieldValidation=Strict", text, kind="application/yaml")
    cluster.change(COLLECTIONS["ConfigMap"] + "/mas-kube", {"data": {"link_image": LINK_IMAGE, "images": "docker.example/base:\n"}})
    token = cluster.make("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token",
                         {"spec": {"expirationSeconds": 7200}})["status"]["token"]
    return cluster, token


def daemon_flags(token, name=IMAGE):
    """Of a daemon whose broker has this token. The broker's user reads neither of the files: the daemon has read them before."""
    return ["--kube-config", kubeconfig({}, {"token": token}), "--kube-images", "docker.example/base:", "--kube-link-image",
            LINK_IMAGE, "--kube-image", name, "--create-ready-timeout", "120s"]


def host_like_image(name):
    """An image with the programs of this host that the suites call inside."""
    from images import host_like
    with tempfile.TemporaryDirectory(dir=HOME) as root:
        os.chmod(root, 0o755)
        host_like(root)
        os.makedirs(f"{root}/workspace")
        with tarfile.open(f"{HOME}/root.tar", "w") as tar:
            tar.add(root, ".")
    image(name, data_of(f"{HOME}/root.tar"), {"Cmd": ["/bin/sh"]})
    os.unlink(f"{HOME}/root.tar")


def runtime_report(daemon):
    return [r for r in daemon.get("/v1/status").json["runtimes"] if r["name"] == "kube"][0]


def conformance_suite():
    """What every runtime must do alike, as a module."""
    spec = importlib.util.spec_from_file_location("conformance", os.path.join(ROOT, "tests/runtime/test-conformance.py"))
    suite = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(suite)
    return suite


def conform(daemon, make, *words):
    """Cases of that suite whose names begin with one of these words, all in one sandbox, which make() makes."""
    suite = conformance_suite()
    made = []

    class OnePod(suite.Under):
        d = daemon

        def sandbox(self, **spec):
            made.extend([] if made else [make()])
            return contextlib.nullcontext(made[0])
    chosen = [(name, fn) for name, fn in suite._suite if name.startswith(words)]
    equal(len(chosen), len(words), chosen)
    for name, fn in chosen:
        test(f"kube: {name}")(lambda fn=fn: fn(OnePod("kube")))
    test("kube: the sandbox of these is deleted")(lambda: equal([sb.delete().status for sb in made], [200] * len(made)))
