#!/bin/sh
# Our OCI runtimes against the same programs called by hand, interleaved. Needs root. ROUNDS (10).
# Usage: bench/oci.sh BUILD
set -eu
build=$(cd "$1" && pwd)
# crun refuses this mix of cgroup v1 controllers and a v2 mount: hide the v2 mount from the peers.
if [ -z "${BENCH_NS:-}" ]; then
    exec env BENCH_NS=1 unshare -m --propagation private "$0" "$build"
fi
umount /sys/fs/cgroup/unified 2>/dev/null || true
BUILD=$build exec python3 "$(dirname "$0")/oci.py"
