#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every way in that a kubeconfig or a pod's files can name, judged by a real API server: mas-kube asks for its rights with
each, and says what is wrong with those that do not work."""
import base64
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "lib"))
from cluster import *
from broker import *

enter()
cluster = Cluster()
cluster.start()
for kind, name, text in base_objects():
    cluster.make(COLLECTIONS[kind] + "?fieldValidation=Strict", text, kind="application/yaml")
# Those whose credential is no service account's have the same rights by their group.
for role in ("ClusterRole", "Role"):
    cluster.make(COLLECTIONS[role + "Binding"], {
        "metadata": {"name": "test-brokers"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "mas-kube"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "test-brokers"}]})


def data_of(path):
    return base64.b64encode(read(path).encode()).decode()


def account_token(seconds=3600):
    return cluster.make("/api/v1/namespaces/mas-sandbox/serviceaccounts/mas-kube/token",
                        {"spec": {"expirationSeconds": seconds}})["status"]["token"]


def works(settings, env=None):
    """All rights are there: the credential was taken, and it is whose it should be."""
    with Broker(env=env, **settings) as b:
        r = b.do(order(PROBE))
        check(r.text.startswith("Kubernetes v1."), r)
        return b.log()


def fails(settings, *words):
    with Broker(**settings) as b:
        r = b.ask(order(PROBE))
        check(r.error != 0 and any(w in r.text for w in words), f"{r}, and not {words}")
        return r


@test("the files of a pod's service account")
def pod():
    where = "/run/secrets/kubernetes.io/serviceaccount"
    os.makedirs(where, exist_ok=True)
    write(f"{where}/token", account_token())
    write(f"{where}/ca.crt", read(cluster.ca))
    write(f"{where}/namespace", "mas-sandbox")
    works({}, {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(PORT)})


@test("tokens: in the kubeconfig, in a file, of a service account")
def tokens():
    works({"kubeconfig": kubeconfig({}, {"token": "plain-token"})})
    write(f"{HOME}/token", "plain-token\n")
    works({"kubeconfig": kubeconfig({}, {"tokenFile": "token"})})
    works({"kubeconfig": kubeconfig({}, {"tokenFile": f"{HOME}/token"})})
    works({"kubeconfig": kubeconfig({}, {"token": account_token()})})


@test("client certificates: as data and as files; one that has expired is refused")
def certificates():
    usage = "extendedKeyUsage=clientAuth\n"
    crt, key = make_certificate("ca", "client", "/O=test-brokers/CN=by-certificate", usage)
    works({"kubeconfig": kubeconfig({}, {"client-certificate": "client.crt", "client-key": "client.key"})})
    works({"kubeconfig": kubeconfig({}, {"client-certificate-data": data_of(crt), "client-key-data": data_of(key)})})
    crt, key = make_certificate("ca", "old", "/O=test-brokers/CN=old", usage, "-days", "-1")
    r = fails({"kubeconfig": kubeconfig({}, {"client-certificate": crt, "client-key": key})}, "Unauthorized")
    equal(r.error, UNAVAILABLE, r)
    make_authority("other")
    crt, key = make_certificate("other", "stranger", "/O=test-brokers/CN=stranger", usage)
    fails({"kubeconfig": kubeconfig({}, {"client-certificate": crt, "client-key": key})}, "Unauthorized")


@test("authorities: as data, several in one file, the wrong one")
def authorities():
    make_authority("foreign")
    works({"kubeconfig": kubeconfig({"certificate-authority": None, "certificate-authority-data": data_of(cluster.ca)},
                                    {"token": "plain-token"})})
    write(f"{HOME}/both.crt", read(f"{HOME}/foreign.crt") + read(cluster.ca))
    works({"kubeconfig": kubeconfig({"certificate-authority": "both.crt"}, {"token": "plain-token"})})
    fails({"kubeconfig": kubeconfig({"certificate-authority": "foreign.crt"}, {"token": "plain-token"})}, "certificate")


@test("the server's name: another address, and tls-server-name")
def names():
    elsewhere = f"https://localhost:{PORT}"
    fails({"kubeconfig": kubeconfig({"server": elsewhere}, {"token": "plain-token"})}, "certificate", "does not match", "name")
    works({"kubeconfig": kubeconfig({"server": elsewhere, "tls-server-name": "kubernetes.default.svc"}, {"token": "plain-token"})})
    fails({"kubeconfig": kubeconfig({"tls-server-name": "elsewhere.example"}, {"token": "plain-token"})}, "certificate",
          "does not match", "name")


@test("contexts: the one that is named, not the current one")
def contexts():
    both = [{"name": "x", "context": {"cluster": "c", "user": "u"}}, {"name": "y", "context": {"cluster": "c", "user": "v"}}]
    users = [{"name": "u", "user": {"token": "wrong"}}, {"name": "v", "user": {"token": "second-token"}}]
    path = kubeconfig({}, {}, contexts=both, users=users)
    works({"kubeconfig": path, "context": "y"})
    fails({"kubeconfig": path}, "Unauthorized")


def plugin(name, status):
    """A program that gives that status of an ExecCredential, and says that it ran."""
    text = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    write(f"{HOME}/{name}.json", text)
    return write(f"{HOME}/{name}", f"#!/bin/sh\nexec cat {HOME}/{name}.json\n", 0o755)


@test("programs for the credential: a token, a certificate, one that is renewed after a 401")
def programs():
    def settings(path):
        return {"kubeconfig": kubeconfig({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": path}}),
                "exec_plugins": True}
    works(settings(plugin("gives-token", {"token": "plain-token"})))
    crt, key = make_certificate("ca", "fetched", "/O=test-brokers/CN=fetched", "extendedKeyUsage=clientAuth\n")
    works(settings(plugin("gives-certificate", {"clientCertificateData": read(crt), "clientKeyData": read(key)})))
    path = plugin("changes", {"token": "not-any-more"})
    with Broker(**settings(path)) as b:
        check(b.ask(order(PROBE)).error != 0, "a token that the server does not know")
        plugin("changes", {"token": "plain-token"})
        b.do(order(PROBE))


@test("a token file that is replaced: the next 401 reads it again")
def rotation():
    path = write(f"{HOME}/rotated", account_token())
    with Broker(kubeconfig=kubeconfig({}, {"tokenFile": path}, "rotating")) as b:
        b.do(order(PROBE))
        # All tokens of the account end with it; the new one has another uid.
        account = "/api/v1/namespaces/mas-sandbox/serviceaccounts"
        equal(cluster.call("DELETE", account + "/mas-kube").status, 200)
        wait_for(lambda: b.ask(order(PROBE)).error != 0, "the API server takes the old token no more")
        r = b.ask(order(PROBE))
        check("Unauthorized" in r.text, r)
        cluster.make(account, {"metadata": {"name": "mas-kube"}})
        write(path, account_token())
        wait_for(lambda: b.ask(order(PROBE)).error == 0, "the new token is read")


class Proxy(threading.Thread):
    """CONNECT, and nothing else."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked = []

    def run(self):
        while True:
            threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        target = head.split()[1].decode()
        self.asked.append(target)
        host, _, port = target.rpartition(":")
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=self.copy, args=(server, client), daemon=True).start()
        self.copy(client, server)

    def copy(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@test("a proxy that the kubeconfig names, and none that the environment does")
def proxy():
    p = Proxy()
    p.start()
    works({"kubeconfig": kubeconfig({"proxy-url": f"http://127.0.0.1:{p.port}"}, {"token": "plain-token"})})
    check(p.asked and set(p.asked) == {f"127.0.0.1:{PORT}"}, p.asked)
    p.asked.clear()
    where = {name: f"http://127.0.0.1:{p.port}" for name in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy")}
    works({"kubeconfig": kubeconfig({}, {"token": "plain-token"})}, where)
    equal(p.asked, [], "what went through the environment's proxy")


@test("no server, and one that comes back")
def absent():
    with Broker(kubeconfig=kubeconfig({}, {"token": "plain-token"})) as b:
        b.do(order(PROBE))
        cluster.kill_server()
        r = b.ask(order(PROBE))
        equal(r.error, UNAVAILABLE, r)
        cluster.start_server()
        wait_for(lambda: b.ask(order(PROBE)).error == 0, "it is reached again")


main()
