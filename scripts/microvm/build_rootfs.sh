#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the root of a virtual machine: an ext4 image of a tar archive, with the runner in it and the places that the
# guest's first process mounts on. Needs no root. The same archive and runner make the same bytes.
#
# Variables: BASE_ROOTFS_TAR  the archive (default: the default image of the build)
#            TOOLRUNNER_BIN   the runner (default: that of the build, or the installed one)
#            ROOTFS           what is made (./rootfs.ext4)
#            SOURCE_DATE_EPOCH  the time of everything in it, in seconds (1)
set -euo pipefail
export LC_ALL=C
umask 022

fail() {
    echo "build_rootfs.sh: $*" >&2
    exit 1
}
source=$(realpath "$(dirname "$0")/../..")
. "$(dirname "$0")/guest-parts.sh"
for at in "${BUILD:-}" "$source/build" /usr/libexec/mas-sandbox /usr/local/libexec/mas-sandbox; do
    [ -n "$at" ] && [ -x "$at/mas-toolrunner" ] && break
done
archive=${BASE_ROOTFS_TAR:-$at/default-image.tar}
runner=${TOOLRUNNER_BIN:-$at/mas-toolrunner}
rootfs=${ROOTFS:-rootfs.ext4}
[ -f "$archive" ] || fail "there is no archive '$archive' (BASE_ROOTFS_TAR)"
[ -x "$runner" ] || fail "there is no program '$runner' (TOOLRUNNER_BIN)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/root
mkdir "$tree"
tar -xf "$archive" -C "$tree" --no-same-owner
mkdir -p "$tree"/{cache,media,proc,sys,tmp,workspace,dev/pts,dev/shm} "$tree"/.mas/{empty,disk,run,link}
install -m 755 "$runner" "$tree/.mas/mas-toolrunner"
strip "$tree/.mas/mas-toolrunner" 2>/dev/null || true
ln -sfn run/gateway.sock "$tree/.mas/gateway.sock"
make_ext4 "$tree" "$rootfs.new" || fail "cannot make $rootfs"
mv "$rootfs.new" "$rootfs"
realpath "$rootfs"
