# SPDX-License-Identifier: Apache-2.0
"""A registry of Debian's docker-registry on loopback, images to push to it, and a slow way there."""
import ctypes
import gzip
import hashlib
import io
import json
import os
import platform
import secrets
import shutil
import socket
import string
import subprocess
import tarfile
import tempfile
import threading
import time
import urllib.error
import urllib.request

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
OCI = "application/vnd.oci.image."


def bcrypt(password):
    """The hash a registry's htpasswd file wants, from the C library: Python 3.13 has no crypt module."""
    crypt = ctypes.CDLL("libcrypt.so.1").crypt
    crypt.restype = ctypes.c_char_p
    salt = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(22))
    return crypt(password.encode(), f"$2b$04${salt}".encode()).decode()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Registry:
    def __init__(self, user=None, password=None):
        self.dir = tempfile.mkdtemp(prefix="mas-registry-")
        self.port = free_port()
        self.host = f"127.0.0.1:{self.port}"
        config = {"version": "0.1", "log": {"level": "warn"}, "http": {"addr": self.host},
                  "storage": {"filesystem": {"rootdirectory": self.dir + "/data"}}}
        self.flags = []
        if user:
            with open(self.dir + "/htpasswd", "w") as f:
                f.write(f"{user}:{bcrypt(password)}\n")
            config["auth"] = {"htpasswd": {"realm": "test", "path": self.dir + "/htpasswd"}}
            self.flags = ["--dest-creds", f"{user}:{password}"]
        with open(self.dir + "/config.yml", "w") as f:
            json.dump(config, f)
        self.log = open(self.dir + "/log", "wb")
        self.process = subprocess.Popen(["docker-registry", "serve", self.dir + "/config.yml"],
                                        stdout=self.log, stderr=self.log)
        for _ in range(1200):
            try:
                urllib.request.urlopen(f"http://{self.host}/v2/").close()
                return
            except urllib.error.HTTPError as e:
                if e.code == 401:
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("the registry did not start")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def push(self, layout, name, *flags):
        subprocess.run(["skopeo", "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", *self.flags, *flags,
                        f"oci:{layout.dir}:latest", f"docker://{self.host}/{name}"], check=True)
        return f"{self.host}/{name}"

    def blob(self, digest):
        return f"{self.dir}/data/docker/registry/v2/blobs/sha256/{digest[:2]}/{digest}/data"


class Layout:
    """An OCI layout with one image of these layers (tars)."""

    def __init__(self, *tars, env=(), workdir="", index=False):
        self.dir = tempfile.mkdtemp(prefix="mas-layout-")
        os.makedirs(self.dir + "/blobs/sha256")
        self.layers = [self.put(gzip.compress(t, 1, mtime=0), "layer.v1.tar+gzip") for t in tars]
        config = {"architecture": ARCH, "os": "linux", "config": {"Env": list(env), "WorkingDir": workdir},
                  "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(t).hexdigest() for t in tars]}}
        manifest = self.put_json({"schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
                                  "config": self.put_json(config, "config.v1+json"), "layers": self.layers},
                                 "manifest.v1+json")
        self.digest = manifest["digest"][7:]
        manifest["platform"] = {"os": "linux", "architecture": ARCH}
        if index:
            other = dict(manifest, platform={"os": "linux", "architecture": "s390x"})
            manifest = self.put_json({"schemaVersion": 2, "mediaType": OCI + "index.v1+json",
                                      "manifests": [other, manifest]}, "index.v1+json")
            self.index_digest = manifest["digest"][7:]
        manifest["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
        with open(self.dir + "/index.json", "w") as f:
            json.dump({"schemaVersion": 2, "manifests": [manifest]}, f)
        with open(self.dir + "/oci-layout", "w") as f:
            json.dump({"imageLayoutVersion": "1.0.0"}, f)

    def put(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{self.dir}/blobs/sha256/{digest}", "wb") as f:
            f.write(data)
        return {"mediaType": OCI + kind, "digest": "sha256:" + digest, "size": len(data)}

    def put_json(self, value, kind):
        return self.put(json.dumps(value).encode(), kind)


def tar(files):
    """A tar of {name: bytes}; bytes that compress badly make a slow layer."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o755
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


def default_tar(dir):
    path = os.path.join(dir, "default-image.tar")
    subprocess.run([ROOT + "/scripts/default-image.sh", path], check=True, stdout=subprocess.DEVNULL)
    with open(path, "rb") as f:
        return f.read()


class Proxy:
    """Passes connections on, so many bytes a second; counts them."""

    def __init__(self, port, bytes_per_s=None):
        self.target, self.rate = port, bytes_per_s
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self.connections = self.bytes = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.sock.accept()
            except OSError:
                return
            self.connections += 1
            server = socket.create_connection(("127.0.0.1", self.target))
            threading.Thread(target=self.pass_on, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, True), daemon=True).start()

    def pass_on(self, source, target, slow):
        try:
            while True:
                data = source.recv(16384)
                if not data:
                    break
                if slow:
                    self.bytes += len(data)
                    if self.rate:
                        time.sleep(len(data) / self.rate)
                target.sendall(data)
        except OSError:
            pass
        for s in (source, target):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)  # a thread waits in accept()
        self.sock.close()
