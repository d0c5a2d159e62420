#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots Debian's own kernel in QEMU, with cgroup version 2 and nothing else running, and runs the
# suites of tests/guest/guest-init there. It shows what a host whose kernel is newer or whose cgroups
# are version 1 cannot: that limits hold on version 2, and that a Debian 12 user's kernel has all
# that we call.
#
# Usage: check-guest.sh BUILD [SUITE,SUITE]   Prints TAP. Needs root, not KVM.
# GUEST_TIMEOUT (seconds, 480), GUEST_LOG=1 (the whole console on stderr).
set -euo pipefail

build=$(realpath "$1")
suites=${2:-}
source=$(realpath "$(dirname "$0")/..")
work=$build/guest
seconds=${GUEST_TIMEOUT:-480}
# The guest's clock is this processor's, but the guest cannot measure its speed: it would wait for
# ever for the emulated timer it compares with.
tsc_khz=$(awk '/^cpu MHz/ { printf "%d", $4 * 1000; exit }' /proc/cpuinfo)

programs="mas-sandboxd mas-warden mas-toolrunner mas-tool-net mas-oci sbx tests/security/attack
tests/unit/test-seccomp tests/unit/test-warden tests/unit/warden-runner
tests/security/test-image-roots"
python=$(basename "$(readlink -f /usr/bin/python3)") # python3.11 on Debian 12
packages="base-files bash busybox-static coreutils crun dash diffutils e2fsprogs findutils grep hostname iproute2 libc-bin libc6
login mount passwd procps python3-minimal $python-minimal lib$python-minimal lib$python-stdlib sed uidmap util-linux"
# Only where it is asked for: an engine takes minutes to start there.
case ",$suites," in *,podman,*)
    packages="$packages conmon golang-github-containers-common podman"
    programs="$programs mas-engine"
    ;;
esac
modules="virtio virtio_ring virtio_mmio virtio_blk loop overlay vsock"

# The newest kernel that linux-image-cloud-amd64 stands for, unpacked in $work/kernel-VERSION.
fetch_kernel() {
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: //p') || true
    if [ -z "$package" ]; then
        echo "check-guest.sh: apt knows no linux-image-cloud-amd64; apt-get update may help" >&2
        exit 1
    fi
    kernel=$work/kernel-${package#linux-image-}
    [ -d "$kernel" ] && return
    local download
    download=$(mktemp -d)
    (cd "$download" && apt-get download -qq -o APT::Sandbox::User=root "$package")
    rm -rf "$work"/kernel-* && mkdir -p "$kernel.new"
    dpkg-deb -x "$download"/*.deb "$kernel.new"
    rm -rf "$download"
    mv "$kernel.new" "$kernel"
}

make_initramfs() {
    local tree=$work/initramfs m
    rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,modules,root}
    cp /bin/busybox "$tree/bin/busybox"
    install -m 755 "$source/tests/guest/init" "$tree/init"
    for m in $modules; do
        find "$kernel/lib/modules" -name "$m.ko" -exec cp {} "$tree/modules/" \;
    done
    echo "$modules" >"$tree/modules/order"
    (cd "$tree" && find . | cpio -o -H newc --quiet) >"$work/initramfs.cpio"
}

# The shared libraries of the files named on the command line, as paths; some are scripts.
libraries() {
    { ldd "$@" 2>/dev/null || true; } |
        sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) (.*/\1/p' | sort -u
}

make_root() {
    local tree=$work/root list=$work/files p
    rm -rf "$tree" && mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{build/tests,tests} \
        "$tree"/{dev,proc,sys,run,tmp,root,home,srv,etc,var/lib,var/tmp}
    chmod 1777 "$tree/tmp" "$tree/var/tmp"
    for p in bin sbin lib lib64; do
        ln -s "usr/$p" "$tree/$p"
    done
    # shellcheck disable=SC2086
    dpkg -L $packages | grep -vE '/(doc|man|locale|i18n|gconv|test|idlelib|__pycache__)(/|$)' |
        sort -u | while read -r p; do [ -d "$p" ] && [ ! -L "$p" ] || echo "$p"; done >"$list"
    for p in $programs; do
        install -D "$build/$p" "$tree/build/$p"
    done
    # shellcheck disable=SC2046
    libraries $(for p in $programs; do echo "$build/$p"; done) \
        $(grep -E '^(/usr)?/s?bin/|/lib-dynload/' "$list") >>"$list"
    # A link's target too: /bin/sh, libfoo.so.1, alternatives.
    while read -r p; do realpath -e "$p"; done <"$list" >"$list.real" 2>/dev/null || true
    sort -u "$list" "$list.real" |
        tar -c -f - --no-recursion --ignore-failed-read -T - 2>/dev/null |
        tar -x -p -f - -C "$tree" --keep-directory-symlink
    cp -r "$source/tests/lib" "$source/tests/guest" "$source/tests/runtime" "$source/tests/security" \
        "$tree/tests/"
    install -m 755 "$source/tests/guest/guest-init" "$tree/usr/sbin/init"
    cp "$source"/tests/guest/etc/* "$tree/etc/"
    ldconfig -r "$tree"
    rm -f "$work/root.img"
    mke2fs -q -F -t ext4 -O ^has_journal -E root_owner=0:0,lazy_itable_init=1 -d "$tree" \
        "$work/root.img" 512m >/dev/null
    truncate -s 64m "$work/swap.img"
}

boot() {
    local line="console=ttyS0 quiet reboot=t panic=-1 tsc_early_khz=${tsc_khz:-2000000}"
    timeout "$seconds" nice -n 10 qemu-system-x86_64 -M microvm -accel tcg -cpu qemu64 -m 1024 \
        -smp 1 -nodefaults -no-user-config -nographic -no-reboot -serial stdio \
        -kernel "$(echo "$kernel"/boot/vmlinuz-*)" -initrd "$work/initramfs.cpio" \
        -append "$line ${suites:+GUEST_SUITES=$suites}" \
        -drive "id=root,file=$work/root.img,format=raw,if=none,cache=unsafe" \
        -device virtio-blk-device,drive=root \
        -drive "id=swap,file=$work/swap.img,format=raw,if=none,cache=unsafe" \
        -device virtio-blk-device,drive=swap </dev/null
}

mkdir -p "$work"
fetch_kernel
make_initramfs
make_root
echo "# guest made after $SECONDS s"
set +e
boot | tr -d '\r' >"$work/console.log"
echo "# guest ended after $SECONDS s"
[ -z "${GUEST_LOG:-}" ] || cat "$work/console.log" >&2
/usr/bin/python3 "$source/tests/guest/read-console.py" "$work/console.log"
