# SPDX-License-Identifier: Apache-2.0
# Sourced, with the script's own arguments: goes on in a mount namespace of its own, as root.
#  - crun refuses the mix of cgroup v1 controllers and a v2 mount: the v2 mount is hidden from the peers.
#  - runsc gives its standard streams to nobody: the peers get a /dev/null that is not the host's.
if [ -z "${BENCH_NS:-}" ]; then
    exec env BENCH_NS=1 unshare -m --propagation private "$0" "$@"
fi
umount /sys/fs/cgroup/unified 2>/dev/null || true
if [ "$BENCH_NS" = 1 ]; then
    mount -t tmpfs tmpfs /mnt
    mknod -m 666 /mnt/null c 1 3
    mount --bind /mnt/null /dev/null
    umount -l /mnt
    export BENCH_NS=ready
    exec </dev/null
fi
