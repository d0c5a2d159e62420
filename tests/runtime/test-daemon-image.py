#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The container image of the daemon (make image), loaded into podman: it starts, says its version, and runs sandboxes
with what such a container allows. What it does not allow is refused by name."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
ARCHIVE = os.path.join(BUILD, "mas-sandbox-oci.tar")
# A mix of cgroup v1 controllers and a v2 mount without any trips crun: podman sees one kind (scripts/with-engine.sh).
ONE_KIND = """if mountpoint -q /sys/fs/cgroup/unified && [ -d /sys/fs/cgroup/memory ]; then umount /sys/fs/cgroup/unified; fi
exec podman --root "$0/root" --runroot "$0/run" --storage-driver vfs --cgroup-manager cgroupfs --events-backend file "$@" """

if os.getuid() != 0 or not shutil.which("podman"):
    print("1..0 # SKIP needs root and podman")
    sys.exit(77)
place = tempfile.mkdtemp(prefix="mas-daemon-image-")


def podman(*args, fails=False):
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", ONE_KIND, place, *args], timeout=300,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not fails:
        equal((p.returncode, p.stderr if p.returncode else ""), (0, ""), f"podman {args}")
    return p.stdout.strip() if not fails else (p.returncode, p.stdout, p.stderr)


def make_image(**variables):
    subprocess.run([os.path.join(ROOT, "scripts/make-image.sh"), BUILD], check=True, timeout=600, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, **variables))
    with open(ARCHIVE, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


class Container:
    """The image's daemon, until it serves."""

    def __init__(self, *options):
        # An engine's usual limits may be more than those of the one who runs this.
        self.id = podman("run", "-d", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
                         *options, podman("images", "-q"))

    def __enter__(self):
        wait_for(lambda: "control plane ready" in podman("logs", self.id, fails=True)[2], "the daemon serves")
        return self

    def __exit__(self, *exc):
        podman("rm", "-f", "-t", "5", self.id)

    def sbx(self, *args):
        return podman("exec", self.id, "sbx", *args, fails=True)


@test("the image is made without an engine, twice with the same bytes, and podman loads it")
def test_the_image_is_reproducible_and_loads():
    first = make_image(TZ="Asia/Tokyo", LC_ALL="C")
    equal(make_image(TZ="UTC"), first, "the archive's SHA-256")
    podman("load", "-q", "-i", ARCHIVE)
    with tarfile.open(ARCHIVE) as archive:
        index = json.load(archive.extractfile("./index.json"))
    equal(len(index["manifests"]), 1, "images in the layout")


@test("its daemon says its version")
def test_the_daemon_says_its_version():
    want = subprocess.run([os.path.join(BUILD, "mas-sandboxd"), "--version"], stdout=subprocess.PIPE, text=True).stdout
    equal(podman("run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096",
                 podman("images", "-q"), "--version"), want.strip(), "version")


@test("in an ordinary container, sandboxes without namespaces run, and others are refused by the reason")
def test_an_ordinary_container():
    with Container() as c:
        equal(c.sbx("run", "-runtime", "landlock", "--", "echo", "hello")[:2], (0, "hello\n"), "landlock")
        code, out, err = c.sbx("run", "--", "echo", "hello")
        check(code != 0 and not out, f"local runs: {out!r}")
        check("needs namespaces, which this host does not allow" in err and "'landlock' needs none" in err, err)


@test("in a privileged one, sandboxes have their namespaces")
def test_a_privileged_container():
    with Container("--privileged") as c:
        equal(c.sbx("run", "-runtime", "local", "--", "sh", "-c", "echo $$ in $(ls /proc | grep -c '^[0-9]')")[0], 0, "local")
        equal(c.sbx("run", "--", "cat", "/proc/1/comm")[:2], (0, "mas-toolrunner\n"), "its first process")


try:
    main()
finally:
    podman("rm", "-fa", fails=True)
    shutil.rmtree(place, ignore_errors=True)
