#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs one virtual machine whose runner can be called through a vsock socket on the host, until it is interrupted. The
# machine is a sandbox of a daemon of its own, with everything that keeps one in; see docs/microvm.md. Needs root.
#
# Variables: VMM           firecracker (the default), qemu or auto
#            KERNEL_IMAGE  an uncompressed kernel (default: vmlinux in MICROVM_DIR)
#            INITRAMFS     what it starts (default: initramfs in MICROVM_DIR)
#            ROOTFS        the guest's root (./rootfs.ext4)
#            VSOCK_UDS     the socket (/tmp/firecracker.vsock)
#            VSOCK_CID, VSOCK_PORT, VCPU_COUNT, MEM_MIB   3, 5000, 1, 512
#            FIRECRACKER_BIN, QEMU_BIN, SANDBOXD   programs
#            API_SOCKET, LOG_PATH   the emulator's control socket and its log, where they are wanted
#            LISTEN        where the daemon listens (a socket in its own directory)
#            MICROVM_DIR   what machine.sh has made (/var/lib/mas-sandbox-microvm)
#            TIMEOUT       seconds that a boot may take (120)
set -euo pipefail

fail() {
    echo "run_firecracker.sh: $*" >&2
    exit 1
}
source=$(realpath "$(dirname "$0")/../..")
dir=${MICROVM_DIR:-/var/lib/mas-sandbox-microvm}
kernel=${KERNEL_IMAGE:-$dir/vmlinux} initramfs=${INITRAMFS:-$dir/initramfs} rootfs=${ROOTFS:-rootfs.ext4}
socket=${VSOCK_UDS:-/tmp/firecracker.vsock}
sandboxd=${SANDBOXD:-$source/build/mas-sandboxd}
[ -x "$sandboxd" ] || sandboxd=$(command -v mas-sandboxd) || fail "there is no mas-sandboxd (SANDBOXD)"
for f in "$kernel" "$initramfs" "$rootfs"; do
    [ -f "$f" ] || fail "there is no '$f'; scripts/microvm/machine.sh and build_rootfs.sh make what a machine starts from"
done

state=$(mktemp -d /tmp/mas-run-XXXXXX)
chmod 755 "$state"
daemon=
finish() {
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
    fi
    rm -rf "$state"
}
trap finish EXIT
trap 'exit 0' INT TERM
listen=${LISTEN:-unix:$state/api.sock}

member() { # of the file, where the value is not empty
    [ -z "$2" ] || printf '  "%s": "%s",\n' "$1" "$2"
}
{
    echo '{'
    member vmm "${VMM:-firecracker}"
    member firecracker_bin "${FIRECRACKER_BIN:-/usr/bin/firecracker}"
    member qemu_bin "${QEMU_BIN:-}"
    member kernel_image "$(realpath "$kernel")"
    member initramfs "$(realpath "$initramfs")"
    member rootfs "$(realpath "$rootfs")"
    member api_socket "${API_SOCKET:-}"
    member log_path "${LOG_PATH:-}"
    echo "  \"machine\": {\"vcpu_count\": ${VCPU_COUNT:-1}, \"mem_mib\": ${MEM_MIB:-512}},"
    echo "  \"vsock\": {\"cid\": ${VSOCK_CID:-3}, \"port\": ${VSOCK_PORT:-5000}, \"uds_path\": \"$socket\"}"
    echo '}'
} >"$state/machine.json"

"$sandboxd" -listen "$listen" -runtime microvm -runtime-config "$state/machine.json" --state-dir "$state/state" \
    --create-ready-timeout "${TIMEOUT:-120}s" 2>"$state/log" &
daemon=$!
ask() {
    case $listen in
    unix:*) curl -sS --unix-socket "${listen#unix:}" "${@:2}" "http://localhost$1" ;;
    *) curl -sS "${@:2}" "http://${listen/#:/127.0.0.1:}$1" ;;
    esac
}
for _ in $(seq 600); do
    kill -0 "$daemon" 2>/dev/null || fail "the daemon has ended: $(tail -n 3 "$state/log")"
    [ "$(ask /healthz 2>/dev/null)" = ok ] && break
    sleep 0.1
done
answer=$(ask /v1/sandboxes -X POST -H 'Content-Type: application/json' -d '{}') || true
case $answer in
*'"effective"'*) echo "the machine runs; its vsock socket is $socket" ;;
*) fail "the machine does not start: $answer" ;;
esac
wait "$daemon"
