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
. "$(dirname "$0")/guest-kernel.sh"
. "$(dirname "$0")/host-root.sh"

programs="mas-sandboxd mas-warden mas-toolrunner mas-tool-net mas-oci mas-intercept sbx tests/security/attack
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

make_root() {
    local tree=$work/root p
    rm -rf "$tree"
    mkdir -p "$tree"/{build/tests,tests}
    for p in $programs; do
        install -D "$build/$p" "$tree/build/$p"
    done
    # shellcheck disable=SC2046,SC2086
    copy_packages "$tree" "$packages" $(for p in $programs; do echo "$build/$p"; done)
    cp -r "$source/tests/lib" "$source/tests/guest" "$source/tests/runtime" "$source/tests/security" \
        "$tree/tests/"
    install -m 755 "$source/tests/guest/guest-init" "$tree/usr/sbin/init"
    cp "$source"/tests/guest/etc/* "$tree/etc/"
    ldconfig -r "$tree"
    rm -f "$work/root.img"
    mke2fs -q -F -t ext4 -O ^has_journal -E root_owner=0:0,lazy_itable_init=1 -d "$tree" \
        "$work/root.img" 1g >/dev/null
    truncate -s 64m "$work/swap.img"
}

mkdir -p "$work"
fetch_kernel
make_initramfs
make_root
echo "# guest made after $SECONDS s"
set +e
boot_guest "${suites:+GUEST_SUITES=$suites}" swap.img | tr -d '\r' >"$work/console.log"
echo "# guest ended after $SECONDS s"
[ -z "${GUEST_LOG:-}" ] || cat "$work/console.log" >&2
/usr/bin/python3 "$source/tests/guest/read-console.py" "$work/console.log"
