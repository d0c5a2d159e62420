#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts find out about a guest's kernel: which one it is, and the order of its modules."""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../lib"))
from masd import *

SCRIPT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../scripts/microvm/guest-parts.sh"))


def order(needs):
    """What order_modules prints for modules that need those: the status and the names."""
    with tempfile.TemporaryDirectory() as at:
        for name, of in needs.items():
            with open(os.path.join(at, name + ".ko"), "wb") as f:
                f.write(b"\x7fELF\0\0license=GPL\0depends=" + of.encode() + b"\0retpoline=Y\0")
        p = subprocess.run(["bash", "-c", '. "$0"; order_modules "$@"', SCRIPT, at, *needs], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, timeout=60)
    return p.returncode, p.stdout.split(), p.stderr


@test("a module comes after those that it needs, whichever way round a kernel has it")
def test_a_module_comes_after_those_that_it_needs():
    ring_last = {"virtio": "", "virtio_ring": "virtio", "virtio_mmio": "virtio_ring,virtio", "overlay": ""}
    equal(order(ring_last)[1], ["virtio", "overlay", "virtio_ring", "virtio_mmio"])
    ring_first = dict(ring_last, virtio="virtio_ring", virtio_ring="")
    status, names, _ = order(ring_first)
    equal((status, sorted(names)), (0, sorted(ring_first)))
    for name, needs in ring_first.items():
        for need in filter(None, needs.split(",")):
            check(names.index(need) < names.index(name), f"{need} before {name}: {names}")


@test("what a module needs beside the list is the kernel's own")
def test_what_a_module_needs_beside_the_list_is_the_kernels():
    equal(order({"overlay": "crc32"})[:2], (0, ["overlay"]))


@test("modules that need each other are refused by name")
def test_modules_that_need_each_other_are_refused():
    status, names, said = order({"one": "two", "two": "one", "three": ""})
    check(status != 0 and not names and "one two" in said, (status, names, said))


APT = """#!/bin/sh
case $1 in
depends) printf 'linux-image-cloud-amd64\\n  Depends: linux-image-6.1.0-55-cloud-amd64\\n' ;;
search) for n in 6.1.0-53 6.1.0-54 6.1.0-9 6.1.0-55; do echo "linux-image-$n-cloud-amd64 - Linux"; done ;;
show) case $3 in *-55-*) echo Version: 6.1.192-1 ;; *-54-*) echo Version: 6.1.190-1 ;; *-53-*) echo Version: 6.1.187-1 ;; *) echo Version: 6.1.27-1 ;; esac ;;
esac
"""


@test("a kernel that is known to be broken is passed over for the newest other")
def test_a_broken_kernel_is_passed_over():
    with tempfile.TemporaryDirectory() as at:
        with open(os.path.join(at, "apt-cache"), "w") as f:
            f.write(APT)
        os.chmod(os.path.join(at, "apt-cache"), 0o755)
        for broken, want in (("6.1.192-1", "6.1.0-54"), ("none", "6.1.0-55"), ("6.1.192-1 6.1.190-1", "6.1.0-53")):
            p = subprocess.run(["bash", "-c", f'. "$0"; broken_kernels="{broken}"; kernel_package', SCRIPT], text=True,
                               stdout=subprocess.PIPE, env=dict(os.environ, PATH=at + ":" + os.environ["PATH"]), timeout=60)
            equal(p.stdout, f"linux-image-{want}-cloud-amd64\n", broken)


main()
