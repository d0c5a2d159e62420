# SPDX-License-Identifier: Apache-2.0
"""The rest of a cluster of one node: controllers, scheduler, containerd and kubelet, all real, in the namespaces of the
test, with images that are made here."""
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile

from cluster import *

NODE = "node1"
# The control group that all pods of this script are below, in every hierarchy. Scripts run side by side, and the name is
# that of the process before its namespaces, which removes the group.
GROUP = os.environ.setdefault("MAS_KUBE_GROUP", f"mas-check-kube-{os.getpid()}")
ADDRESS = "10.123.0.1"
SOCKET = f"{HOME}/containerd.sock"

CONTAINERD = f"""version = 2
root = "{HOME}/containerd"
state = "{HOME}/containerd-state"
oom_score = 0
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{HOME}/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "our.example/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{HOME}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""
CNI = {"cniVersion": "0.4.0", "name": "pods", "plugins": [{
    "type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": {
        "type": "host-local", "dataDir": f"{HOME}/cni-data", "ranges": [[{"subnet": "10.244.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}]}}]}
KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "failCgroupV1": False,
    "cgroupDriver": "cgroupfs", "cgroupRoot": "/" + GROUP, "failSwapOn": False, "enforceNodeAllocatable": [], "maxPods": 110,
    "imageGCHighThresholdPercent": 100, "registryPullQPS": 0, "nodeStatusUpdateFrequency": "2s",
    "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"},
    "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": f"{HOME}/ca.crt"}},
    "authorization": {"mode": "Webhook"}, "containerRuntimeEndpoint": "unix://" + SOCKET, "podLogsDir": f"{HOME}/pod-logs",
    "resolvConf": "", "healthzPort": 0,
    "volumePluginDir": f"{HOME}/volume-plugins",
}


def hierarchies():
    with open("/proc/mounts", encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.split()[2] in ("cgroup", "cgroup2")]


def remove_groups():
    """Control groups belong to no namespace. Those of processes that have just ended are busy for a moment."""
    def left():
        found = [os.path.join(top, GROUP) for top in hierarchies() if os.path.isdir(os.path.join(top, GROUP))]
        for group in found:
            for place, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(place)
                except OSError:
                    pass
        return found
    wait_for(lambda: not left(), lambda: f"control groups are left: {left()}", STARTUP_S)


def why_not():
    """What a node needs beyond our own programs, and this host does not have; or None."""
    for program in ("containerd", "ctr", "runc", "gcc"):
        if not shutil.which(program):
            return f"there is no {program}"
    if not os.access("/usr/lib/cni/bridge", os.X_OK):
        return "there is no /usr/lib/cni/bridge (containernetworking-plugins)"
    if not os.path.exists(os.path.join(BUILD, "default-image.tar")):
        return "the build has no default-image.tar (busybox-static)"
    return None


def why_no_enforcer():
    where = subprocess.run([os.path.join(ROOT, "scripts/kube-tools.sh"), "--where-enforcer"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout.strip()
    os.environ["MAS_KUBE_ENFORCER"] = where
    if not os.access(os.path.join(where, "enforcer"), os.X_OK):
        return "there is no enforcer of network policies: `make kube-tools TOOLS=enforcer` makes it, once"
    return None if shutil.which("iptables") else "there is no iptables"


def image(name, files, config):
    """Imports an image of one layer. files: path to (bytes, mode), or a tar's bytes."""
    if isinstance(files, dict):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            for path, (data, mode) in files.items():
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(data), mode
                tar.addfile(info, io.BytesIO(data))
        files = out.getvalue()
    text = json.dumps({"architecture": "amd64", "os": "linux", "config": config, "rootfs": {
        "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(files).hexdigest()]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    path = f"{HOME}/image.tar"
    with tarfile.open(path, "w") as tar:
        for member, data in (("layer.tar", files), ("config.json", text), ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    p = subprocess.run(["ctr", "-a", SOCKET, "-n", "k8s.io", "images", "import", path], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    check(p.returncode == 0, p.stdout)
    os.unlink(path)


def pause_image():
    """What every pod's first container runs."""
    program = "int pause(void); int main(void) { for (;;) pause(); }"
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", f"{HOME}/pause"], input=program, text=True, check=True)
    image("our.example/pause:1", {"pause": (data_of(f"{HOME}/pause"), 0o755)}, {"Entrypoint": ["/pause"]})


def built_image(kind, name):
    """Imports what `make image-KIND` makes, by that name; of the kind "daemon" what `make image` makes."""
    command = ["make-image.sh", BUILD] if kind == "daemon" else ["make-pod-image.sh", BUILD, kind]
    p = subprocess.run([os.path.join(ROOT, "scripts", command[0])] + command[1:], stdout=subprocess.PIPE, text=True)
    equal(p.returncode, 0, p.stdout)
    archive, own = re.match(r"(\S+): (\S+), ", p.stdout).groups()
    for command in (["import", archive], ["tag", "localhost/" + own, name]):
        p = subprocess.run(["ctr", "-a", SOCKET, "-n", "k8s.io", "images", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True)
        check(p.returncode == 0, p.stdout)


def storage(cluster, *names, owner=0):
    """A class that is the cluster's own, and a volume of it for each name, all on the node."""
    cluster.make("/apis/storage.k8s.io/v1/storageclasses", {
        "metadata": {"name": "manual", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kubernetes.io/no-provisioner"})
    for name in names:
        os.mkdir(f"{HOME}/{name}")
        os.chmod(f"{HOME}/{name}", 0o777)
        os.chown(f"{HOME}/{name}", owner, owner)
        cluster.make("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "manual", "hostPath": {"path": f"{HOME}/{name}"}}})


def data_of(path):
    with open(path, "rb") as f:
        return f.read()


class NodeCluster(Cluster):
    def __init__(self):
        super().__init__()
        make_certificate("ca", "node", f"/O=system:nodes/CN=system:node:{NODE}", "extendedKeyUsage=clientAuth\n")
        make_certificate("ca", "kubelet-client", "/O=system:masters/CN=apiserver", "extendedKeyUsage=clientAuth\n")
        self.more = ["--kubelet-preferred-address-types=InternalIP", f"--kubelet-client-certificate={HOME}/kubelet-client.crt", f"--kubelet-client-key={HOME}/kubelet-client.key"]

    @staticmethod
    def sh(line):
        p = subprocess.run(line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(p.returncode == 0, f"{line}: {p.stdout}")

    def config(self, name, user):
        return write(f"{HOME}/{name}.conf", json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{PORT}", "certificate-authority": self.ca}}],
            "users": [{"name": "u", "user": user}]}), 0o600)

    def start(self):
        self.sh("mount --make-rshared / && mount -t tmpfs logs /var/log")
        # Names are refused at once: nothing of this network answers them, and a resolver would be waited for.
        self.sh(f"mount --bind {write(f'{HOME}/resolv.conf', 'nameserver 127.0.0.1')} $(realpath /etc/resolv.conf)")
        self.sh(f"ip link add node0 type bridge && ip addr add {ADDRESS}/24 dev node0 && ip link set node0 up && "
                f"ip route add default dev node0 && echo 1 >/proc/sys/net/ipv4/ip_forward")
        # A kubelet sets what is the whole host's. It finds here that all is set, and could not write anyway.
        self.sh("mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys")
        for name, value in (("kernel/panic", 10), ("kernel/panic_on_oops", 1), ("vm/overcommit_memory", 1)):
            path = write(f"{HOME}/{name.replace('/', '-')}", f"{value}\n")
            self.sh(f"mount --bind {path} /proc/sys/{name}")
        for top in hierarchies():
            os.makedirs(os.path.join(top, GROUP), exist_ok=True)
        for name in ("cni", "volume-plugins"):
            os.mkdir(f"{HOME}/{name}")
        write(f"{HOME}/containerd.toml", CONTAINERD)
        write(f"{HOME}/cni/pods.conflist", json.dumps(CNI))
        write(f"{HOME}/kubelet.json", json.dumps(KUBELET))
        self.start_etcd()
        self.start_server()
        admin = self.config("admin", {"token": ADMIN})
        node = self.config("node", {"client-certificate": f"{HOME}/node.crt", "client-key": f"{HOME}/node.key"})
        self.keep(lambda: self.program(
            "kube-controller-manager", f"--kubeconfig={admin}", f"--root-ca-file={self.ca}", "--leader-elect=false",
            f"--service-account-private-key-file={HOME}/accounts.key", "--use-service-account-credentials=false",
            f"--authentication-kubeconfig={admin}", f"--authorization-kubeconfig={admin}", f"--cert-dir={HOME}/cm"))
        self.keep(lambda: self.program(
            "kube-scheduler", f"--kubeconfig={admin}", "--leader-elect=false", f"--authentication-kubeconfig={admin}",
            f"--authorization-kubeconfig={admin}", f"--cert-dir={HOME}/scheduler"))
        self.keep(self.start_containerd)
        wait_for(lambda: subprocess.run(["ctr", "-a", SOCKET, "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0,
                 lambda: "containerd answers:\n" + read(f"{HOME}/containerd.log")[-3000:], STARTUP_S)
        self.keep(lambda: self.program(
            "kubelet", f"--kubeconfig={node}", f"--config={HOME}/kubelet.json", f"--root-dir={HOME}/kubelet", f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}", f"--cert-dir={HOME}/kubelet-certs"))

    @staticmethod
    def start_containerd():
        log = open(f"{HOME}/containerd.log", "ab")
        return subprocess.Popen(["containerd", "-c", f"{HOME}/containerd.toml"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def start_enforcer(self):
        """What enforces NetworkPolicies on this node: kube-router's controller of them, with iptables and ipset. Its table is
        one of this network namespace."""
        where = os.environ["MAS_KUBE_ENFORCER"]
        log = open(f"{HOME}/enforcer.log", "ab")
        self.enforcer = subprocess.Popen(
            [os.path.join(where, "enforcer"), f"{HOME}/admin.conf", NODE, "10.96.0.0/16"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=dict(os.environ, PATH=f"{where}:{os.environ['PATH']}", LD_LIBRARY_PATH=where))

    def stop_enforcer(self):
        """And takes its rules away, as they are after a node's network has been restarted without it."""
        self.enforcer.kill()
        self.enforcer.wait()
        self.sh("iptables -F && iptables -X")

    def node_is_ready(self):
        node = self.get(f"/api/v1/nodes/{NODE}")
        return node and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))

    def wait_node(self):
        wait_for(self.node_is_ready, lambda: "the node is ready:\n" + read(f"{HOME}/containerd.log")[-1500:] +
                 read(f"{HOME}/kubelet.log")[-3000:], STARTUP_S)
