#!/bin/bash
# Runs the README's two commands, `make demo` and `make check`, in bare roots of Debian releases: what they need must
# come from the project's own files. Each root has apt, make and nothing else of ours.
#
# Usage: check-distros.sh [SUITE ...]   default: bookworm trixie. Needs root. Ends with "N passed, N failed".
# DISTROS_CACHE keeps the bare roots (default /var/cache/mas-sandbox/distros); KEEP=1 leaves the used ones in place.
set -euo pipefail
source=$(realpath "$(dirname "$0")/..")
cache=${DISTROS_CACHE:-/var/cache/mas-sandbox/distros}
[ $# -gt 0 ] || set -- bookworm trixie
[ "$(id -u)" = 0 ] || { echo "check-distros.sh: needs root" >&2; exit 1; }
mkdir -p "$cache"

# A root that was never used, as an archive, made once.
bare_root() {
    local suite=$1 tree
    [ -f "$cache/$suite.tar" ] && return
    tree=$(mktemp -d "$cache/$suite.XXXXXX")
    debootstrap --variant=minbase --include=ca-certificates,make "$suite" "$tree" >"$cache/$suite.log" 2>&1 || {
        tail -n 20 "$cache/$suite.log" >&2
        echo "check-distros.sh: debootstrap failed for $suite" >&2
        rm -rf "$tree"
        return 1
    }
    tar -C "$tree" --numeric-owner -cf "$cache/$suite.new" . && mv "$cache/$suite.new" "$cache/$suite.tar"
    rm -rf "$tree"
}

# Runs one command in a root as its own: with pivot_root, because a process in a chroot may make no user namespaces.
# The mount namespace takes all mounts away again.
in_root() {
    local tree=$1
    shift
    unshare --mount --propagation private bash -eu -c '
        tree=$1; shift
        mount --bind "$tree" "$tree"
        mount --rbind /dev "$tree/dev"
        mount --rbind /sys "$tree/sys"
        mount -t proc proc "$tree/proc"
        mount -t tmpfs -o mode=1777 tmp "$tree/tmp"
        cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
        cd "$tree"
        mkdir -p .old
        pivot_root . .old
        umount -l /.old
        cd /src
        exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@"
    ' in-root "$tree" "$@"
}

passed=0 failed=0
try() {
    local suite=$1 tree=$2 target=$3 log=$cache/$1-$3.log
    if in_root "$tree" make "$target" >"$log" 2>&1 </dev/null; then
        echo "ok - $suite: make $target: $(tail -n 1 "$log")"
        passed=$((passed + 1))
    else
        tail -n 40 "$log"
        echo "not ok - $suite: make $target (all of it: $log)"
        failed=$((failed + 1))
    fi
}

for suite in "$@"; do
    if ! bare_root "$suite"; then
        failed=$((failed + 1))
        continue
    fi
    tree=$(mktemp -d "$cache/run-$suite.XXXXXX")
    tar -C "$tree" --numeric-owner -xf "$cache/$suite.tar"
    chmod 755 "$tree"
    mkdir "$tree/src"
    git -C "$source" archive HEAD | tar -C "$tree/src" -x
    try "$suite" "$tree" demo
    try "$suite" "$tree" check
    [ -n "${KEEP:-}" ] || rm -rf --one-file-system "$tree"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
