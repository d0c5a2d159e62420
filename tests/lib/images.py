# SPDX-License-Identifier: Apache-2.0
"""Images put into a daemon's store by hand, as if somebody had unpacked them without looking.

    digest = put_image(daemon, small)            # busybox and little else
    digest = put_image(daemon, host_like)        # what the suites call inside: a shell, Python, ...
    daemon.sandbox(image="sha256:" + digest)
"""
import atexit
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

BUSYBOX = "/bin/busybox"
APPLETS = ("sh cat ls id echo touch mkdir rm rmdir stat mv cp ln dd df find head wc grep true sleep env chmod "
           "mount readlink sha256sum tr pwd").split()
# The image's root, user and nobody, on a host whose daemon root started.
IDS = {0: 64216, 1000: 64217, 65534: 64218}

# Debian names its packages after the version; the tests run with Debian's own Python.
PYTHON = "python%d.%d" % sys.version_info[:2]
PACKAGES = ("bash coreutils dash diffutils findutils grep gzip hostname libc-bin mawk mount procps sed tar util-linux "
            f"python3-minimal {PYTHON}-minimal lib{PYTHON}-minimal lib{PYTHON}-stdlib").split()
_cache = {}
LEFT_OUT = ("/doc/", "/man/", "/locale/", "/test/", "/idlelib/", "/__pycache__/", "/lintian/", "/bash-completion/")


def busybox():
    """The program that images are made of; a script without it is skipped."""
    if not os.path.exists(BUSYBOX):
        print(f"1..0 # SKIP needs {BUSYBOX}")
        sys.exit(77)
    with open(BUSYBOX, "rb") as f:
        return f.read()


def write(root, path, text, mode=0o644):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w") as f:
        f.write(text)
    os.chmod(full, mode)


def small(root):
    """busybox, a directory of user 1000's, a secret of root's, a set-user-id program."""
    for name in ("bin", "etc", "app/dir", "root", "opt/deep", "var/lib", "home", "usr"):
        os.makedirs(os.path.join(root, name))
    shutil.copy(BUSYBOX, os.path.join(root, "bin/busybox"))
    for name in APPLETS:
        os.symlink("busybox", os.path.join(root, "bin", name))
    write(root, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
    write(root, "etc/group", "root:x:0:\n")
    write(root, "etc/marker", "image\n")
    write(root, "app/file", "lower\n")
    write(root, "app/dir/x", "x\n")
    write(root, "root/secret", "hidden\n", 0o600)
    shutil.copy(BUSYBOX, os.path.join(root, "bin/suid"))


def libraries(files):
    out = subprocess.run(["ldd"] + files, capture_output=True, text=True).stdout
    found = set()
    for line in out.splitlines():
        path = line.split("=>")[-1].split(" (")[0].strip()
        if path.startswith("/") and not path.endswith(":"):
            found.add(path)
    return found


def host_like(root):
    """Programs of this host that the suites call inside, with their libraries."""
    listed = subprocess.run(["dpkg", "-L"] + PACKAGES, capture_output=True, text=True, check=True).stdout
    paths = {p for p in listed.splitlines() if p.startswith("/") and not any(s in p for s in LEFT_OUT)}
    paths |= {"/usr/bin/python3", "/bin/sh", "/usr/bin/awk", "/etc/alternatives/awk", "/usr/share/zoneinfo/UTC"}
    files = [p for p in paths if os.path.isfile(p)]
    paths |= libraries([p for p in files if "/bin/" in p or "/sbin/" in p or "/lib-dynload/" in p])
    for name in ("usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "root", "run", "srv", "mnt", "opt", "media", "home", "var"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        os.symlink("usr/" + name, os.path.join(root, name))
    os.symlink("../run", os.path.join(root, "var/run"))
    for path in sorted(paths):
        copy_host(root, path)
    write(root, "etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n")
    write(root, "etc/group", "root:x:0:\nnogroup:x:65534:\n")
    write(root, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
    subprocess.run(["ldconfig", "-r", root], check=True)


def copy_host(root, path):
    """A file of the host's with what it links to, at its place below /usr."""
    if os.path.isdir(path) and not os.path.islink(path):
        return
    place = path if path.startswith(("/usr/", "/etc/")) else "/usr" + path
    if place.startswith("/etc/") and not place.startswith("/etc/alternatives/"):
        return
    target = root + place
    if not os.path.lexists(path) or os.path.lexists(target):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(path, target, follow_symlinks=False)
    if os.path.islink(path):
        copy_host(root, os.path.normpath(os.path.join(os.path.dirname(place), os.readlink(path))))


def give(root, ids):
    """Owners as they are in the store: all is root's, /app and /home/* are user 1000's."""
    for base, dirs, files in os.walk(root):
        relative = os.path.relpath(base, root)
        for name in dirs + files:
            path = os.path.normpath(os.path.join(relative, name))
            owner = ids[1000] if path.split("/")[0] == "app" or path.startswith("home/") else ids[0]
            os.chown(os.path.join(base, name), owner, owner, follow_symlinks=False)
    os.chown(root, ids[0], ids[0])
    suid = os.path.join(root, "bin/suid")
    if os.path.exists(suid):
        os.chmod(suid, 0o6755)


def rootfs_of(daemon, digest):
    return os.path.join(daemon.state, "images/store", digest, "rootfs")


def make_root(root, fill, ids=None, change=None):
    os.makedirs(root, mode=0o755)
    os.chmod(root, 0o755)
    fill(root)
    if change:
        change(root)
    give(root, ids or IDS)


def digest_of(fill, number=0):
    return hashlib.sha256(f"{fill.__name__} {number}".encode()).hexdigest()


def put_image(daemon, fill, number=0, ids=None, change=None, **info):
    """Returns the digest. change(root) may do to it what it likes before owners are set."""
    digest = digest_of(fill, number)
    make_root(rootfs_of(daemon, digest), fill, ids, change)
    return describe(daemon, digest, ids, name=f"{fill.__name__}-{number}", **info)


def put_cached(daemon, fill):
    """The same for many daemons of one script: made once, then linked."""
    if fill not in _cache:
        top = tempfile.mkdtemp(prefix="mas-image-")
        atexit.register(shutil.rmtree, top, ignore_errors=True)
        _cache[fill] = os.path.join(top, "rootfs")
        make_root(_cache[fill], fill)
    digest = digest_of(fill)
    top = os.path.dirname(rootfs_of(daemon, digest))
    os.makedirs(top)
    how = "-al" if os.stat(top).st_dev == os.stat(_cache[fill]).st_dev else "-a"
    subprocess.run(["cp", how, _cache[fill], rootfs_of(daemon, digest)], check=True)
    return describe(daemon, digest)


def describe(daemon, digest, ids=None, **info):
    """What the store says about it."""
    ids = ids or IDS
    top = os.path.dirname(rootfs_of(daemon, digest))
    about = {"digest": digest, "name": "by-hand", "size_bytes": 1, "files": 1, "skipped": 0, "created": 1,
             "env": [], "workdir": "", "user": "", "cmd": [], "layers": []}
    with open(os.path.join(top, "image.json"), "w") as f:
        json.dump(dict(about, **info), f)
    for path in (os.path.join(top, "image.json"), top, os.path.dirname(top), os.path.dirname(os.path.dirname(top))):
        os.chown(path, ids[0], ids[0])
    return digest


def hash_of(root):
    """Of all names, kinds, modes, owners, times and contents."""
    h = hashlib.sha256()
    for base, dirs, files in os.walk(root):
        dirs.sort()
        for name in sorted(dirs + files):
            path = os.path.join(base, name)
            st = os.lstat(path)
            h.update(f"{path} {st.st_mode} {st.st_uid} {st.st_gid} {st.st_size} {st.st_mtime_ns} {st.st_nlink}\n".encode())
            if os.path.islink(path):
                h.update(os.readlink(path).encode())
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    h.update(f.read())
    return h.hexdigest()
