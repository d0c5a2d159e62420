# SPDX-License-Identifier: Apache-2.0
"""Archives and image layouts made by hand, good and malicious, and the probe that unpacks them."""
import gzip
import hashlib
import json
import lzma
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(os.path.dirname(__file__), "../../build")))
PROBE = os.path.join(BUILD, "tests/image/image-probe")
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
INNER_IDS = (0, 1000, 65534)  # what the keeper's user namespace maps, and to which ids outside
OUTER_IDS = (64216, 64217, 64218)


def pax_record(key, value):
    value = value if isinstance(value, bytes) else value.encode()
    body = b" " + key.encode() + b"=" + value + b"\n"
    size = len(body)
    while len(str(size)) + len(body) != size:
        size = len(str(size)) + len(body)
    return str(size).encode() + body


class Tar:
    """Headers field by field, so that they can lie."""

    def __init__(self):
        self.parts = []

    def add(self, name, kind="0", link="", data=b"", mode=0o644, uid=0, gid=0, size=None, pax=None,
            mtime=1000000000):
        data = data if isinstance(data, bytes) else data.encode()
        pax = dict(pax or {})
        if len(name) > 100 and "path" not in pax and kind not in "xgL":
            pax["path"], name = name, name[:100]
        if len(link) > 100 and "linkpath" not in pax:
            pax["linkpath"], link = link, link[:100]
        if pax:
            self.add("pax", "x", data=b"".join(pax_record(k, v) for k, v in pax.items()))
        self.parts.append(header(name, kind, link, mode, uid, gid,
                                 len(data) if size is None else size, mtime))
        self.parts.append(data + bytes(-len(data) % 512))
        return self

    def dir(self, name, mode=0o755, **kw):
        return self.add(name, "5", mode=mode, **kw)

    def link(self, name, target):
        return self.add(name, "2", link=target)

    def raw(self, data):
        self.parts.append(data)
        return self

    def bytes(self, end=True):
        return b"".join(self.parts) + (bytes(1024) if end else b"")


def number(value, width):
    if value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    return b"\x80" + value.to_bytes(width - 1, "big")


def header(name, kind="0", link="", mode=0o644, uid=0, gid=0, size=0, mtime=1000000000, sparse=None):
    encode = lambda t: t if isinstance(t, bytes) else t.encode()
    h = bytearray(512)
    h[0:len(encode(name))] = encode(name)
    h[100:108], h[108:116], h[116:124] = number(mode, 8), number(uid, 8), number(gid, 8)
    h[124:136], h[136:148] = number(size, 12), number(mtime, 12)
    h[156:157] = kind.encode()
    h[157:157 + len(encode(link))] = encode(link)
    h[257:265] = b"ustar  \0" if sparse is not None else b"ustar\x0000"
    if kind in "34":
        h[329:337], h[337:345] = number(1, 8), number(3, 8)
    if sparse is not None:  # GNU's old form: nothing but holes up to the real size
        h[386:398], h[398:410] = number(sparse, 12), number(0, 12)
        h[483:495] = number(sparse, 12)
    h[148:156] = b" " * 8
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h[:512])


def zstd(data):
    return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout


PACKERS = {"plain": lambda d: d, "gzip": lambda d: gzip.compress(d, 9, mtime=0), "zstd": zstd,
           "xz": lambda d: lzma.compress(d)}


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Layout:
    """An OCI layout whose every part can be changed before it is written."""

    def __init__(self, layers, packer="gzip", config=None, arch=ARCH):
        self.blobs = {}
        packed = [PACKERS[packer](layer) for layer in layers]
        self.config = {"architecture": arch, "os": "linux", "config": config or {},
                       "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(x) for x in layers]}}
        suffix = {"gzip": "+gzip", "zstd": "+zstd"}.get(packer, "")
        self.manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                         "layers": [self.blob(p, "application/vnd.oci.image.layer.v1.tar" + suffix)
                                    for p in packed]}
        self.index = None

    def blob(self, data, media_type):
        self.blobs[sha(data)] = data
        return {"mediaType": media_type, "digest": "sha256:" + sha(data), "size": len(data)}

    def json(self, value, media_type):
        return self.blob(json.dumps(value).encode(), media_type)

    def finish(self):
        """The manifest's descriptor."""
        self.manifest["config"] = self.json(self.config, "application/vnd.oci.image.config.v1+json")
        return self.json(self.manifest, "application/vnd.oci.image.manifest.v1+json")

    def write(self, path):
        if self.index is None:
            self.index = {"schemaVersion": 2, "manifests": [self.finish()]}
        os.makedirs(path + "/blobs/sha256")
        for name, data in self.blobs.items():
            write(f"{path}/blobs/sha256/{name}", data)
        write(path + "/index.json", json.dumps(self.index).encode())
        write(path + "/oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        return path


def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())
    return path


def snapshot(path):
    """Everything that a stranger's archive must not have changed."""
    seen = {}
    for at, dirs, files in os.walk(path):
        for name in [""] + dirs + files:
            full = os.path.join(at, name)
            st = os.lstat(full)
            what = os.readlink(full) if stat.S_ISLNK(st.st_mode) else (
                open(full, "rb").read() if stat.S_ISREG(st.st_mode) else sorted(os.listdir(full)))
            seen[full] = (st.st_mode, st.st_uid, st.st_gid, st.st_nlink, st.st_size, st.st_mtime_ns,
                          st.st_ctime_ns, tuple(os.listxattr(full, follow_symlinks=False)), what)
    return seen


class Place:
    """A store with a canary tree beside it, in a directory of its own."""

    def __init__(self, who="root"):
        self.who = who
        self.dir = tempfile.mkdtemp(prefix="mas-image-")
        os.chmod(self.dir, 0o755)
        self.store, self.outside = self.dir + "/store", self.dir + "/outside"
        os.mkdir(self.store)
        os.makedirs(self.outside + "/sub")
        write(self.outside + "/secret", b"canary\n")
        write(self.outside + "/sub/file", b"canary too\n")
        os.symlink("secret", self.outside + "/link")
        if os.geteuid() == 0 and who != "root":
            for path in (self.store, self.outside, self.outside + "/sub", self.outside + "/secret"):
                os.chown(path, OUTER_IDS[0], OUTER_IDS[0])  # it may write there, if it gets there
        self.before = snapshot(self.outside)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def file(self, name, data):
        return write(self.path(name), data)

    def probe(self):
        """Where another user can run it too: a checkout may be in a home that others may not enter."""
        if self.who != "user" or os.geteuid() != 0:
            return PROBE
        copy = self.path("image-probe")
        return copy if os.path.exists(copy) else shutil.copy(PROBE, copy)

    def start(self, *args, stdin=None, env=None):
        argv = [self.probe(), self.store, *map(str, args)]
        if self.who == "userns":  # as the keeper runs
            argv.insert(2, f"userns={OUTER_IDS[0]}")
        kw = {"stdout": subprocess.PIPE, "stdin": stdin, "env": dict(os.environ, **(env or {}))}
        if self.who == "user" and os.geteuid() == 0:
            kw.update(user=OUTER_IDS[0], group=OUTER_IDS[0], extra_groups=[])
        return subprocess.Popen(argv, **kw)

    def run(self, *args, stdin=None, env=None):
        """The exit status and what was printed, from JSON."""
        p = self.start(*args, stdin=stdin, env=env)
        out = p.communicate()[0].decode()
        try:
            return p.returncode, json.loads(out)
        except ValueError:
            return p.returncode, out.strip()

    def rootfs(self, digest):
        return f"{self.store}/store/{digest}/rootfs"

    def untouched(self):
        return snapshot(self.outside) == self.before

    def leftovers(self):
        """What is in the store that is no whole image."""
        tmp = self.store + "/tmp"
        return os.listdir(tmp) if os.path.isdir(tmp) else []

    def images(self):
        return sorted(os.listdir(self.store + "/store"))


def can_use(who):
    if who == "user":
        return os.geteuid() == 0
    if who == "userns":
        return os.geteuid() == 0 and subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode == 0
    return True


def everybody():
    """The ways to run that work here: as what this is, as an ordinary user, as the keeper does."""
    return [who for who in ("root", "user", "userns") if can_use(who)]


sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
