#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program where the kernel makes no namespaces: in a user namespace with the host's ids, whose
limits on namespaces are 0 (with --only KIND, on those alone); or, with --filter, where a filter refuses the calls, as container engines'
own does. no-namespaces.py [--filter | --only KIND] PROGRAM ARG... keeps its pid."""
import ctypes
import errno
import os
import struct
import sys

CLONE_NEWUSER = 0x10000000
ALL = "0 0 4294967295"


# x86_64: unshare, setns, mount, umount2, pivot_root, chroot, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
# mount_setattr
REFUSED = (272, 308, 165, 166, 155, 161, 428, 429, 430, 431, 432, 433, 442)
CLONE, CLONE3, CLONE_NEW_ANY = 56, 435, 0x7e020000


def refuse_by_filter():
    def answer(error):
        return (0x06, 0, 0, 0x00050000 | error)  # BPF_RET, SECCOMP_RET_ERRNO
    program = [(0x20, 0, 0, 0)]  # the call's number
    for number in REFUSED:
        program += [(0x15, 0, 1, number), answer(errno.EPERM)]
    program += [(0x15, 0, 1, CLONE3), answer(errno.ENOSYS)]
    program += [(0x15, 0, 3, CLONE), (0x20, 0, 0, 16), (0x45, 0, 1, CLONE_NEW_ANY), answer(errno.EPERM)]
    program += [(0x06, 0, 0, 0x7fff0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in program))
    header = struct.pack("HxxxxxxP", len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(22, 2, ctypes.c_char_p(header)) < 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


if sys.argv[1] == "--filter":
    refuse_by_filter()
    os.execvp(sys.argv[2], sys.argv[2:])
kinds = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time")
if sys.argv[1] == "--only":
    kinds = (sys.argv[2],)
    del sys.argv[1:3]
ready, go = os.pipe(), os.pipe()
target = os.getpid()
helper = os.fork()
if helper == 0:  # stays outside, where the ids are
    os.read(ready[0], 1)
    write(f"/proc/{target}/uid_map", ALL)
    write(f"/proc/{target}/gid_map", ALL)
    os.write(go[1], b"x")
    os._exit(0)
if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER) < 0:
    sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
os.write(ready[1], b"x")
os.read(go[0], 1)
os.waitpid(helper, 0)
for fd in ready + go:
    os.close(fd)
for kind in kinds:
    write(f"/proc/sys/user/max_{kind}_namespaces", "0")
os.execvp(sys.argv[1], sys.argv[1:])
