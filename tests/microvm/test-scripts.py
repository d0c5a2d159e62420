#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The scripts of the MAS contract, with QEMU in Firecracker's place.

MAS_MICROVM_DIR has what machines start from (scripts/microvm/machine.sh)."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/microvm")
MACHINE = os.environ["MAS_MICROVM_DIR"]
BOOT_S = 400  # on a busy host, by software emulation
place = tempfile.mkdtemp(prefix="mas-scripts-")
atexit.register(shutil.rmtree, place, ignore_errors=True)
os.chmod(place, 0o755)


def script(name, **variables):
    env = dict(os.environ, BUILD=BUILD, TOOLRUNNER_BIN=os.path.join(BUILD, "mas-toolrunner"),
               BASE_ROOTFS_TAR=os.path.join(BUILD, "default-image.tar"), **variables)
    return subprocess.run([os.path.join(SCRIPTS, name)], env=env, capture_output=True, text=True, cwd=place)


@test("the root of a machine is a sound file system with the runner in it")
def test_build_rootfs():
    made = os.path.join(place, "one.ext4")
    p = script("build_rootfs.sh", ROOTFS=made)
    equal((p.returncode, p.stdout.strip()), (0, made), p)
    p = subprocess.run(["/usr/sbin/e2fsck", "-fn", made], capture_output=True, text=True)
    equal(p.returncode, 0, p)
    p = subprocess.run(["/usr/sbin/debugfs", "-R", "stat /.mas/mas-toolrunner", made],
                       capture_output=True, text=True)
    check("Type: regular" in p.stdout and "0755" in p.stdout, p)
    other = os.path.join(place, "two.ext4")  # at another time, in another directory, by another order of files
    with tempfile.TemporaryDirectory(dir="/dev/shm") as elsewhere:
        p = script("build_rootfs.sh", ROOTFS=other, TMPDIR=elsewhere)
    equal(p.returncode, 0, p)
    with open(made, "rb") as a, open(other, "rb") as b:
        check(a.read() == b.read(), "the same files make the same bytes")
    equal(sorted(x for x in os.listdir(place) if x.startswith(("one", "two"))), ["one.ext4", "two.ext4"])


@test("a script that lacks something says what, and by which variable")
def test_what_is_missing():
    for name, variables, word in (("run_firecracker.sh", {"KERNEL_IMAGE": place + "/none"}, place + "/none"),
                                  ("verify_vsock.sh", {"VSOCK_UDS": place + "/none", "CLIENT_BIN": BUILD + "/mas-toolrunner-client"}, place + "/none")):
        p = script(name, MICROVM_DIR=MACHINE, **variables)
        check(p.returncode != 0 and word in p.stderr, (name, p))


@test("microvm_e2e.sh: a root, a machine, its vsock and the control plane, with VMM=qemu")
def test_e2e():
    if not os.environ.get("MAS_MICROVM_FULL"):
        raise Skip("two boots more; check-microvm-full has the time")
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    p = script("microvm_e2e.sh", VMM="qemu", BUILD_ROOTFS="1", MICROVM_DIR=MACHINE, KERNEL_IMAGE=MACHINE + "/vmlinux",
               SANDBOXD=os.path.join(BUILD, "mas-sandboxd"), CLIENT_BIN=os.path.join(BUILD, "mas-toolrunner-client"),
               LISTEN=f"127.0.0.1:{port}", TIMEOUT=str(BOOT_S))
    equal(p.returncode, 0, (p.stdout, p.stderr))
    for line in ("the machine runs", "the runner answers over vsock", "the control plane answers from a machine"):
        check(line in p.stdout, p.stdout)


main()
