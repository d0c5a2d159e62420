#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From nothing to an answer of a tool in a virtual machine: makes the root (BUILD_ROOTFS=1), starts a machine, calls its
# runner over vsock, and sends the control plane a tool call. Needs root.
#
# Variables: those of build_rootfs.sh, run_firecracker.sh and verify_vsock.sh, and
#            BUILD_ROOTFS  1: the root is made of BASE_ROOTFS_TAR; else ROOTFS must be there
#            LISTEN        where the daemon listens (127.0.0.1:18080)
set -euo pipefail

here=$(realpath "$(dirname "$0")")
work=$(mktemp -d /tmp/mas-e2e-XXXXXX)
chmod 755 "$work"
machine=
finish() {
    if [ -n "$machine" ]; then
        kill "$machine" 2>/dev/null || true
        wait "$machine" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT

export ROOTFS=${ROOTFS:-$work/rootfs.ext4} VSOCK_UDS=${VSOCK_UDS:-$work/vsock} LISTEN=${LISTEN:-127.0.0.1:18080} TIMEOUT=${TIMEOUT:-120}
if [ "${BUILD_ROOTFS:-}" = 1 ]; then
    "$here/build_rootfs.sh"
fi
"$here/run_firecracker.sh" >"$work/machine.log" 2>&1 &
machine=$!
for _ in $(seq "$((TIMEOUT * 10))"); do
    grep -q 'the machine runs' "$work/machine.log" && break
    kill -0 "$machine" 2>/dev/null || break
    sleep 0.1
done
cat "$work/machine.log"
TIMEOUT=${TIMEOUT}s "$here/verify_vsock.sh"

answer=$(curl -sS --max-time "$TIMEOUT" -H 'Content-Type: application/json' "http://$LISTEN/v1/sandbox/execute" \
    -d '{"tool_call_id":"e2e","tool":{"name":"calculator","args":{"expression":"15*8+7"}},"policy":{}}')
echo "$answer"
case $answer in
*'"status":"ok"'*'"result":127'* | *'"result":127'*'"status":"ok"'*) echo "the control plane answers from a machine" ;;
*)
    echo "microvm_e2e.sh: the control plane's answer is not 127" >&2
    exit 1
    ;;
esac
