#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes what a virtual machine starts from, of Debian packages: the kernel that linux-image-cloud-amd64
# stands for, as an uncompressed ELF file; an initramfs with the runner as its first process and the
# modules that it needs; and a small read-only root, the one of the default image. Needs no root.
#
# Usage: machine.sh DIR [BUILD]   BUILD has mas-toolrunner and default-image.tar (default: build, or what is installed)
# What is there and newer than what it is made of is kept.
set -euo pipefail
export LC_ALL=C
umask 022

[ $# -ge 1 ] || { echo "usage: machine.sh DIR [BUILD]" >&2; exit 2; }
source=$(realpath "$(dirname "$0")/../..")
. "$(dirname "$0")/guest-parts.sh"
build=${2:-}
for at in "$build" "$source/build" /usr/libexec/mas-sandbox /usr/local/libexec/mas-sandbox; do
    [ -n "$at" ] && [ -x "$at/mas-toolrunner" ] && [ -f "$at/default-image.tar" ] && build=$at && break
done
mkdir -p "$1"
out=$(realpath "$1")
modules="virtio virtio_ring virtio_mmio virtio_blk virtio_console overlay"
fuse_modules="fuse" # with directories of the host
net_modules="failover net_failover virtio_net" # with a network by address
vsock_modules="vsock vmw_vsock_virtio_transport_common vmw_vsock_virtio_transport virtio_balloon" # with Firecracker

fail() {
    echo "machine.sh: $*" >&2
    exit 1
}
[ -x "$build/mas-toolrunner" ] && [ -f "$build/default-image.tar" ] || fail "there is no mas-toolrunner with default-image.tar in '$build'"

package=$(kernel_package) || true
[ -n "$package" ] || fail "apt knows no linux-image-cloud-amd64; apt-get update may help"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch_kernel() {
    [ -f "$out/$package/modules/virtio_net.ko" ] && return
    (cd "$work" && apt-get download -qq -o APT::Sandbox::User="$(id -un)" "$package") || fail "cannot fetch $package"
    mkdir "$work/kernel"
    dpkg-deb -x "$work"/linux-image-*.deb "$work/kernel"
    extract_kernel "$(echo "$work"/kernel/boot/vmlinuz-*)" "$work/kernel/vmlinux"
    rm -rf "$out/$package.new"
    mkdir "$out/$package.new"
    cp "$work/kernel/vmlinux" "$out/$package.new/"
    mkdir "$out/$package.new/modules"
    for m in $modules $vsock_modules $fuse_modules $net_modules; do
        find "$work/kernel" -name "$m.ko*" -exec cp {} "$out/$package.new/modules/" \;
    done
    find "$out/$package.new/modules" -name '*.xz' -exec xz -d {} \;
    rm -rf "${out:?}/$package"
    mv "$out/$package.new" "$out/$package"
}

# The compressed ELF file in a bzImage begins with its compressor's magic bytes.
extract_kernel() {
    local image=$1 to=$2 magic unpack at
    while read -r magic unpack; do
        for at in $(grep -obUaP "$magic" "$image" | cut -d: -f1); do
            tail -c +$((at + 1)) "$image" | $unpack >"$to" 2>/dev/null || true
            [ "$(head -c 4 "$to" | tail -c 3)" = ELF ] && return
        done
    done <<'EOF'
\xFD7zXZ\x00 xz -dc --single-stream
\x28\xB5\x2F\xFD zstd -dc
\x1F\x8B\x08 gzip -dc
\x02\x21\x4C\x18 lz4 -dc
EOF
    fail "$image has no kernel in it that can be unpacked"
}

newer_than() {
    local file=$1 other
    shift
    [ -f "$file" ] || return 1
    for other in "$@"; do
        [ "$file" -nt "$other" ] || return 1
    done
}

make_initramfs() {
    newer_than "$out/initramfs" "$build/mas-toolrunner" "$out/$package/vmlinux" "$0" "$(dirname "$0")/guest-parts.sh" && return
    local tree=$work/initramfs
    mkdir -p "$tree"/{dev,proc,root,modules}
    install -m 755 "$build/mas-toolrunner" "$tree/init"
    strip "$tree/init" 2>/dev/null || true
    cp "$out/$package/modules"/*.ko "$tree/modules/"
    # shellcheck disable=SC2086
    order_modules "$tree/modules" $modules >"$tree/modules/order" || exit 1
    # shellcheck disable=SC2086
    order_modules "$tree/modules" $vsock_modules >"$tree/modules/order-vsock" || exit 1
    # shellcheck disable=SC2086
    order_modules "$tree/modules" $fuse_modules >"$tree/modules/order-fuse" || exit 1
    # shellcheck disable=SC2086
    order_modules "$tree/modules" $net_modules >"$tree/modules/order-net" || exit 1
    find "$tree" -exec touch -h -d @0 {} +
    (cd "$tree" && find . | sort | cpio -o -H newc --quiet --reproducible -R 0:0) >"$out/initramfs.new"
    mv "$out/initramfs.new" "$out/initramfs"
}

# Python as it is installed here, without tests and what was compiled.
add_python() {
    local tree=$1 python
    python=$(basename "$(readlink -f /usr/bin/python3 2>/dev/null)") || return 0
    dpkg -s "$python-minimal" >/dev/null 2>&1 || return 0
    { dpkg -L python3-minimal "$python-minimal" "lib$python-minimal" "lib$python-stdlib" 2>/dev/null || true; } |
        grep -vE '/(doc|man|lintian|test|idlelib|__pycache__|ensurepip|lib2to3|menu|binfmts|applications)(/|$)' |
        sort -u | while read -r p; do [ -f "$p" ] || [ -L "$p" ] && echo "$p"; done >"$work/python"
    # shellcheck disable=SC2046
    { ldd "/usr/bin/$python" $(grep /lib-dynload/ "$work/python") 2>/dev/null || true; } |
        sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u | while read -r p; do readlink -f "$p" && echo "$p"; done >>"$work/python"
    sort -u "$work/python" | tar -c -f - --no-recursion -T - 2>/dev/null |
        tar -x -f - -C "$tree" --keep-directory-symlink --no-same-owner --skip-old-files
}

# The places that the first process mounts on must be there: the root is never written.
make_root() {
    newer_than "$out/root.img" "$build/default-image.tar" "$build/mas-toolrunner" "$0" "$(dirname "$0")/guest-parts.sh" && return
    local tree=$work/root
    mkdir -p "$tree"
    tar -xf "$build/default-image.tar" -C "$tree" --no-same-owner
    add_python "$tree"
    mkdir -p "$tree"/{cache,media,dev/pts,dev/shm,etc/ssl/certs} "$tree"/.mas/{empty,disk,run,link}
    # What programs trust; an interceptor's authority is added to it.
    install -m 644 /etc/ssl/certs/ca-certificates.crt "$tree/etc/ssl/certs/" 2>/dev/null || install -m 644 /dev/null "$tree/etc/ssl/certs/ca-certificates.crt"
    install -m 755 "$build/mas-toolrunner" "$tree/.mas/mas-toolrunner"
    strip "$tree/.mas/mas-toolrunner" 2>/dev/null || true
    ln -sfn run/gateway.sock "$tree/.mas/gateway.sock"
    make_ext4 "$tree" "$out/root.img.new" || fail "cannot make the root"
    mv "$out/root.img.new" "$out/root.img"
}

fetch_kernel
ln -sfn "$package/vmlinux" "$out/vmlinux"
make_initramfs
make_root
echo "$out"
