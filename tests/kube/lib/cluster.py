# SPDX-License-Identifier: Apache-2.0
"""A real etcd and a real API server in namespaces of their own, the harness that plays the controllers which the tests
have to do without, and mas-kube with a control plane's end of its socket.

`enter()` puts the script into fresh mount, network, process and IPC namespaces. All files are in a tmpfs that only those
have, so that nothing is left on the host whatever way the script ends.
"""
import base64
import ctypes
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../lib"))
from masd import *  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BASE = os.path.join(ROOT, "deploy/kube/base")
HOME = "/run/kube"  # of this namespace's own tmpfs
PORT = 6443
ETCD = 2379
ADMIN = "admin-token"
STARTUP_S = 180  # of an API server on a host that has other work
LINK_IMAGE = "our.example/link:1"
IMAGE = "docker.example/base:12"
FULL = bool(os.environ.get("MAS_KUBE_FULL"))  # check-kube-full: what the usual run has no time for


def tools():
    where = subprocess.run([os.path.join(ROOT, "scripts/kube-tools.sh"), "--where"], stdout=subprocess.PIPE, text=True, check=True)
    return where.stdout.strip()


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(77)


def enter(needs=("etcd", "kube-apiserver"), afterwards=None):
    """Starts the script again in namespaces of its own, unless it is there already. afterwards: called when all of its
    processes are gone, for what a namespace does not take away."""
    if os.environ.get("MAS_KUBE_INSIDE") != "1":
        for name in needs:
            if not os.access(os.path.join(tools(), name), os.X_OK):
                skip_all(f"there is no {name}: `make kube-tools` makes it, once")
        if os.geteuid() != 0:
            skip_all("namespaces of its own need root")
        os.environ["MAS_KUBE_INSIDE"] = "1"
        os.environ["MAS_KUBE_TOOLS"] = tools()
        command = ["unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation",
                   "private", sys.executable] + sys.argv
        if not afterwards:
            os.execvp(command[0], command)
        signal.signal(signal.SIGTERM, lambda *a: sys.exit(1))  # which ends the command and comes to what is afterwards
        try:
            status = subprocess.run(command).returncode
        finally:
            afterwards()
        sys.exit(status)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run"], check=True)
    os.mkdir(HOME)


def write(path, text, mode=0o644):
    """Replaced at once, as a kubelet does it: a reader sees the old text or the new one."""
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as f:
        f.write(text)
    os.rename(path + ".new", path)
    return path


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


# --- keys and certificates

def openssl(*args):
    p = subprocess.run(["openssl", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    check(p.returncode == 0, f"openssl {' '.join(args)}: {p.stdout}")


def make_authority(name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", f"{HOME}/{name}.key", "-out", f"{HOME}/{name}.crt", "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign")
    return f"{HOME}/{name}.crt"


def make_certificate(authority, name, subject, extension, *more):
    """Returns the paths of the certificate and of its key."""
    path = f"{HOME}/{name}"
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject, "-keyout", path + ".key",
            "-out", path + ".csr")
    write(path + ".ext", extension)
    openssl("x509", "-req", "-in", path + ".csr", "-CA", f"{HOME}/{authority}.crt", "-CAkey", f"{HOME}/{authority}.key",
            "-CAcreateserial", "-extfile", path + ".ext", "-out", path + ".crt", *(more or ("-days", "2")))
    return path + ".crt", path + ".key"


# --- the servers

class Cluster:
    def __init__(self):
        self.ca = make_authority("ca")
        make_certificate("ca", "server", "/CN=kube-apiserver",
                         "subjectAltName=IP:127.0.0.1,DNS:kubernetes.default.svc\nextendedKeyUsage=serverAuth\n")
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", f"{HOME}/accounts.key")
        write(f"{HOME}/tokens.csv", f'{ADMIN},admin,1,"system:masters"\nplain-token,plain,2,"test-brokers"\n'
                                    'second-token,second,3,"test-brokers"\n', 0o600)
        self.tls = ssl.create_default_context(cafile=self.ca)
        self.etcd = self.server = None
        self.more = []  # further options of the API server
        self.controllers = threading.Thread(target=self.play_controllers, daemon=True)

    def program(self, name, *args):
        log = open(f"{HOME}/{name}.log", "ab")
        return subprocess.Popen([os.path.join(os.environ["MAS_KUBE_TOOLS"], name), *args], stdin=subprocess.DEVNULL, stdout=log,
                                stderr=log)

    def keep(self, start):
        """A program that is started again whenever it ends, as every node's supervisor does it: controllers, scheduler and kubelet
        end themselves where a server is not ready in their time. start: returns the process."""
        def run():
            while True:
                start().wait()
                time.sleep(1)
        threading.Thread(target=run, daemon=True).start()

    def start_etcd(self):
        self.etcd = self.program("etcd", "--data-dir", f"{HOME}/etcd", "--listen-client-urls", f"http://127.0.0.1:{ETCD}",
                                 "--advertise-client-urls", f"http://127.0.0.1:{ETCD}", "--listen-peer-urls",
                                 "http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level", "error")

        def ready():
            check(self.etcd.poll() is None, "etcd ended:\n" + read(f"{HOME}/etcd.log")[-3000:])
            return self.ask_etcd("/v3/maintenance/status", {}).get("leader")
        wait_for(ready, "etcd is ready", STARTUP_S)

    def start_server(self):
        """Until it is ready. One that ends before is started again: it ends itself where its first look at etcd takes too long."""
        self.launch_server()
        self.wait_ready(tries=3)

    def launch_server(self):
        self.server = self.program(
            "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{ETCD}", "--bind-address=127.0.0.1", f"--secure-port={PORT}",
            "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--tls-cert-file={HOME}/server.crt",
            f"--tls-private-key-file={HOME}/server.key", f"--client-ca-file={self.ca}", f"--token-auth-file={HOME}/tokens.csv",
            f"--service-account-key-file={HOME}/accounts.key", f"--service-account-signing-key-file={HOME}/accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=Node,RBAC", "--allow-privileged=true", "--shutdown-delay-duration=0s", *self.more)

    def wait_ready(self, tries=1):
        def ready():
            nonlocal tries
            if self.server.poll() is not None:
                tries -= 1
                check(tries > 0, "the API server ended:\n" + read(f"{HOME}/kube-apiserver.log")[-3000:])
                self.launch_server()
            return self.call("GET", "/readyz", timeout=10).status == 200
        wait_for(ready, lambda: "the API server is ready:\n" + read(f"{HOME}/kube-apiserver.log")[-3000:], STARTUP_S)

    def start(self):
        self.start_etcd()
        self.start_server()
        self.controllers.start()

    def kill_server(self):
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()

    def kill_etcd(self):
        self.etcd.send_signal(signal.SIGKILL)
        self.etcd.wait()

    def connect(self, timeout):
        return http.client.HTTPSConnection("127.0.0.1", PORT, context=self.tls, timeout=timeout)

    @staticmethod
    def call_on(connection, method, path, body=None, token=ADMIN, kind="application/json"):
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        connection.request(method, path, text, {"Authorization": "Bearer " + token, "Content-Type": kind})
        r = connection.getresponse()
        return Answer(r.status, r.headers, r.read())

    def call(self, method, path, body=None, token=ADMIN, kind="application/json", timeout=60):
        connection = self.connect(timeout)
        try:
            return self.call_on(connection, method, path, body, token, kind)
        finally:
            connection.close()

    def insist(self, method, path, body=None, **kw):
        """As call(), again for as long as the server says that it cannot now: on a busy host etcd's answers come late."""
        tries = []

        def answered():
            tries.append(None)
            tries[-1] = self.call(method, path, body, **kw)
            return tries[-1].status not in (429, 500, 502, 503, 504)
        wait_for(answered, lambda: f"{method} {path}: {tries[-1]}")
        tries[-1].again = len(tries) > 1
        return tries[-1]

    def make(self, path, body, **kw):
        r = self.insist("POST", path, body, **kw)
        if r.again and r.status == 409:  # the try before was not answered, and was carried out
            return self.get(f"{path.partition('?')[0]}/{r.json['details']['name']}")
        check(r.status in (200, 201), f"POST {path}: {r}")
        return r.json

    def change(self, path, body):
        """A merge patch."""
        r = self.insist("PATCH", path, body, kind="application/merge-patch+json")
        equal(r.status, 200, f"PATCH {path}: {r}")
        return r.json

    def get(self, path):
        r = self.insist("GET", path)
        return r.json if r.status == 200 else None

    @staticmethod
    def ask_etcd(path, body):
        c = http.client.HTTPConnection("127.0.0.1", ETCD, timeout=60)
        try:
            c.request("POST", path, json.dumps(body))
            return json.loads(c.getresponse().read())
        finally:
            c.close()

    def compact(self):
        """etcd forgets all revisions before the newest."""
        revision = self.ask_etcd("/v3/kv/range", {"key": base64.b64encode(b"x").decode()})["header"]["revision"]
        self.ask_etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def play_controllers(self):
        """Without a controller-manager and a kubelet a namespace would be deleted for ever: its pods are ended and its
        finalizer is taken away here."""
        while True:
            connection = self.connect(10)
            try:
                while True:
                    for space in self.call_on(connection, "GET", "/api/v1/namespaces").json.get("items", []):
                        if space["metadata"].get("deletionTimestamp") and not space["metadata"].get("annotations", {}).get("test/stays"):
                            self.end_namespace(connection, space)
                    time.sleep(0.1)
            except (OSError, http.client.HTTPException, ValueError, KeyError):
                connection.close()  # the API server is being killed
            time.sleep(0.1)

    def end_namespace(self, connection, space):
        name = space["metadata"]["name"]
        for pod in self.call_on(connection, "GET", f"/api/v1/namespaces/{name}/pods").json["items"]:
            self.call_on(connection, "DELETE", f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        for kind in ("api/v1/namespaces/{}/serviceaccounts", "api/v1/namespaces/{}/persistentvolumeclaims",
                     "api/v1/namespaces/{}/resourcequotas", "apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"):
            for item in self.call_on(connection, "GET", "/" + kind.format(name)).json["items"]:
                path = f"/{kind.format(name)}/{item['metadata']['name']}"
                if item["metadata"].get("finalizers"):
                    self.call_on(connection, "PATCH", path, {"metadata": {"finalizers": None}}, kind="application/merge-patch+json")
                self.call_on(connection, "DELETE", path)
        space["spec"]["finalizers"] = []
        self.call_on(connection, "PUT", f"/api/v1/namespaces/{name}/finalize", space)


COLLECTIONS = {
    "Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/namespaces/mas-sandbox/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/mas-sandbox/configmaps",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/mas-sandbox/networkpolicies",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/mas-sandbox/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/mas-sandbox/rolebindings",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Service": "/api/v1/namespaces/mas-sandbox/services",
    "StatefulSet": "/apis/apps/v1/namespaces/mas-sandbox/statefulsets",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}


def base_objects(overlay="base"):
    """(kind, name, YAML) of every object of the base, in the order of its kustomization: the API server reads YAML itself.
    Of an overlay: its own objects, and its patches."""
    folder = os.path.join(os.path.dirname(BASE), overlay)
    files = re.findall(r"^  - (?:path: )?(\S+\.yaml)$", read(os.path.join(folder, "kustomization.yaml")), re.M)
    for name in files:
        for text in read(os.path.join(folder, name)).split("\n---\n"):
            yield re.search(r"^kind: (\w+)$", text, re.M)[1], re.search(r"^  name: (\S+)$", text, re.M)[1], text


def collection_of(kind, text):
    """Where an object of that text is posted to."""
    space = re.search(r"^  namespace: (\S+)$", text, re.M)
    return COLLECTIONS[kind].replace("/mas-sandbox/", f"/{space[1]}/") if space else COLLECTIONS[kind]


def apply_objects(cluster, overlay):
    """As kustomize would have them: what an overlay takes away is deleted."""
    for kind, name, text in base_objects(overlay):
        path = f"{collection_of(kind, text)}/{name}"
        if "$patch: delete" in text:
            check(cluster.call("DELETE", path).status == 200, path)
            continue
        r = cluster.insist("PATCH", path + f"?fieldManager={overlay}&force=true&fieldValidation=Strict", text,
                           kind="application/apply-patch+yaml")
        check(r.status in (200, 201) and "Warning" not in r.headers, f"{kind} {name}: {r}")
