#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The cluster of the tests as one that stays, for scripts/dev-cluster.sh, which joins it to the host by a link of its own.
Usage: dev-cluster.py DIRECTORY ADDRESS; DIRECTORY/admin is a kubeconfig as soon as the node is ready."""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from node import *

directory, address = sys.argv[1:]
if why_not():
    sys.exit(why_not())
enter(("etcd", "kube-apiserver", "node"), remove_groups)
cluster = NodeCluster()
make_certificate("ca", "server", "/CN=kube-apiserver",
                 f"subjectAltName=IP:127.0.0.1,IP:{address},DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth\n")
cluster.more.append("--bind-address=0.0.0.0")
cluster.start()
pause_image()
cluster.wait_node()
write(f"{directory}/admin", json.dumps({
    "apiVersion": "v1", "kind": "Config", "current-context": "dev",
    "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "admin"}}],
    "clusters": [{"name": "dev", "cluster": {"server": f"https://{address}:{PORT}",
                                             "certificate-authority-data": base64.b64encode(data_of(cluster.ca)).decode()}}],
    "users": [{"name": "admin", "user": {"token": ADMIN}}]}), 0o600)
while True:
    signal.pause()
