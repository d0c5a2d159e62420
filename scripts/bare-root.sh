# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that use bare Debian roots: makes them with debootstrap, once, and runs commands in copies.
# DISTROS_CACHE keeps them (default /var/cache/mas-sandbox/distros).
source=$(realpath "$(dirname "$0")/..")
cache=${DISTROS_CACHE:-/var/cache/mas-sandbox/distros}
[ "$(id -u)" = 0 ] || { echo "$(basename "$0"): needs root" >&2; exit 1; }
mkdir -p "$cache"

# A root that was never used, as an archive, made once.
bare_root() {
    local suite=$1 tree
    [ -f "$cache/$suite.tar" ] && return
    tree=$(mktemp -d "$cache/$suite.XXXXXX")
    debootstrap --variant=minbase --include=ca-certificates,make "$suite" "$tree" >"$cache/$suite.log" 2>&1 || {
        tail -n 20 "$cache/$suite.log" >&2
        echo "$(basename "$0"): debootstrap failed for $suite" >&2
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

# Prints the path of a fresh copy of a suite's root, with this tree, as git has it, in /src.
new_root() {
    local suite=$1 tree
    tree=$(mktemp -d "$cache/run-$suite.XXXXXX")
    tar -C "$tree" --numeric-owner -xf "$cache/$suite.tar"
    chmod 755 "$tree"
    mkdir "$tree/src"
    git -C "$source" archive HEAD | tar -C "$tree/src" -x
    echo "$tree"
}
