#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the packages of `make deb` in bare Debian roots and uses them there, and in a guest of QEMU's with systemd as
# PID 1: install, start, run, upgrade from a lower version under a living sandbox, remove, purge (tests/guest/use-packages.sh).
#
# Usage: check-deb.sh [SUITE ...]   default: bookworm trixie. Needs root. Ends with "N passed, N failed".
# PACKAGES=DIR uses the packages there, of the same release, instead of building; PLACES (root guest) is a list;
# GUEST_TIMEOUT (seconds, 480); GUEST_LOG=1 (all that was printed, on stderr).
set -euo pipefail
. "$(dirname "$0")/bare-root.sh"
[ $# -gt 0 ] || set -- bookworm trixie
work=$cache/guest
seconds=${GUEST_TIMEOUT:-480}
. "$(dirname "$0")/guest-kernel.sh"
names="mas-sandbox mas-sandbox-cli libsbx0 libsbx-dev mas-sandbox-doc"

# lower_version DIR: the packages of DIR once more, in DIR/one, as those of a version before; they are moved to DIR/two.
lower_version() {
    local dir=$1 deb tree
    mkdir "$dir/one" "$dir/two"
    for deb in "$dir"/*.deb; do
        tree=$(mktemp -d)
        dpkg-deb -R "$deb" "$tree"
        sed -i 's/^Version: /&0~/; s/\(libsbx0 (= \)/\10~/' "$tree/DEBIAN/control"
        dpkg-deb --root-owner-group -Znone -b "$tree" "$dir/one/$(basename "$deb")" >/dev/null
        rm -rf "$tree"
    done
    mv "$dir"/*.deb "$dir/two/"
}

# build_packages SUITE DIR
build_packages() {
    local suite=$1 dir=$2 root
    if [ -n "${PACKAGES:-}" ]; then
        cp "$PACKAGES"/*.deb "$dir/"
        return
    fi
    root=$(new_root "$suite")
    if in_root "$root" make deb >"$cache/$suite-deb.log" 2>&1 </dev/null; then
        mv "$root"/src/build/deb/*.deb "$dir/"
    else
        tail -n 30 "$cache/$suite-deb.log"
    fi
    rm -rf --one-file-system "$root"
}

# use_in_root SUITE DIR: process ids are the root's own, so that the script sees no daemon but its own.
use_in_root() {
    local root status=0
    root=$(new_root "$1")
    cp -r "$2" "$root/packages"
    in_root "$root" sh -c 'apt-get update -qq && exec unshare --pid --fork --mount-proc sh tests/guest/use-packages.sh' </dev/null || status=$?
    rm -rf --one-file-system "$root"
    return $status
}

# What the packages depend on is installed beforehand: the guest has no network.
use_in_guest() {
    local root
    root=$(new_root "$1")
    cp -r "$2" "$root/packages"
    in_root "$root" sh -euc "export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends systemd systemd-sysv /packages/one/*.deb
        dpkg --purge $names
        apt-get clean" >"$cache/$1-guest.log" 2>&1 </dev/null || { tail -n 20 "$cache/$1-guest.log"; return 1; }
    cp "$source/tests/guest/use-packages.sh" "$root/use-packages.sh"
    cp "$source/tests/guest/use-packages.service" "$root/etc/systemd/system/"
    ln -s ../use-packages.service "$root/etc/systemd/system/multi-user.target.wants/use-packages.service"
    rm -rf "$root/src" "$work/root.img"
    mkdir -p "$work"
    fetch_kernel
    make_initramfs
    mke2fs -q -F -t ext4 -O ^has_journal -E root_owner=0:0,lazy_itable_init=1 -d "$root" "$work/root.img" 2g >/dev/null
    rm -rf --one-file-system "$root"
    boot_guest "systemd.show_status=0" | stdbuf -oL tr -d "\r" >"$work/console.log" || true
    cat "$work/console.log"
    grep -q '^use-packages: status 0' "$work/console.log"
}

passed=0 failed=0
for suite in "$@"; do
    bare_root "$suite" || { failed=$((failed + 1)); continue; }
    dir=$(mktemp -d)
    build_packages "$suite" "$dir"
    if ! ls "$dir"/*.deb >/dev/null 2>&1; then
        echo "not ok - $suite: make deb"
        failed=$((failed + 1))
        continue
    fi
    lower_version "$dir"
    for place in ${PLACES:-root guest}; do
        log=$cache/$suite-packages-$place.log
        "use_in_$place" "$suite" "$dir" >"$log" 2>&1 || grep -q '^not ok ' "$log" ||
            echo "not ok - it ended after: $(tail -n 5 "$log" | tr '\n' ' ')" >>"$log"
        [ -z "${GUEST_LOG:-}" ] || cat "$log" >&2
        grep -E '^(not )?ok ' "$log" | sed "s/- /- $suite, $place: /"
        passed=$((passed + $(grep -c '^ok ' "$log" || true)))
        failed=$((failed + $(grep -c '^not ok ' "$log" || true)))
    done
    rm -rf "$dir"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
