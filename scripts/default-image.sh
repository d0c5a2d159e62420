#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes a small root file system as a tar, from Debian packages that are installed here; downloads
# nothing. The same packages give the same bytes.
# Usage: default-image.sh OUT.tar
set -euo pipefail
umask 022
export LC_ALL=C

[ $# = 1 ] || { echo "usage: default-image.sh OUT.tar" >&2; exit 2; }
out=$1
packages="bash coreutils diffutils findutils grep gzip hostname libc-bin mawk sed tar"
epoch=${SOURCE_DATE_EPOCH:-1686355200} # the release of Debian 12

fail() {
    echo "default-image.sh: $*" >&2
    exit 1
}

for p in busybox-static $packages; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' ||
        fail "the package $p is not installed"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{dev,etc,home/sandbox,mnt,opt,proc,root,run,srv,sys,tmp,usr/bin,usr/lib,usr/lib64,usr/sbin} \
    "$root"/{usr/share/doc,var/log,var/tmp,workspace}
chmod 0700 "$root/root"
chmod 1777 "$root/tmp" "$root/var/tmp"
ln -s usr/bin "$root/bin"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
ln -s usr/sbin "$root/sbin"
ln -s ../run "$root/var/run"

# /bin/x and /usr/bin/x are the same file: everything goes to /usr${path#/usr}.

# A program, never setuid, or the link that it is.
copy() {
    local to=$root/usr${1#/usr}
    [ -e "$to" ] || [ -L "$to" ] && return
    if [ -L "$1" ]; then
        cp -P "$1" "$to"
    else
        install -m 755 "$1" "$to"
    fi
}

# The package of a file, which may have it with or without /usr. Debian 13 diverts the loader's old path.
owner_of() {
    local path
    for path in "$1" "${1#/usr}" "$(readlink -f "$1")"; do
        dpkg -S "$path" 2>/dev/null | grep -v '^diversion by ' | cut -d: -f1 | head -1 | grep . && return
    done
    fail "no package has $1"
}

# A library under the name that programs ask for.
copy_library() {
    local to=$root/usr${1#/usr}
    [ -e "$to" ] && return
    mkdir -p "${to%/*}"
    install -m 755 "$(readlink -f "$1")" "$to"
    owners="$owners $(owner_of "$1")"
}

owners="busybox-static $packages"
programs=
copy /bin/busybox
for p in $packages; do
    for file in $(dpkg -L "$p" | grep -E '^(/usr)?/s?bin/[^/]+$' | sort); do
        case $file in
        */bashbug | */chroot | */iconvconfig | */ldconfig* | */tarcat | */tzselect | */zdump | */zic | */rmt*) continue ;;
        esac
        [ -f "$file" ] || continue
        copy "$file"
        programs="$programs $file"
    done
done
# shellcheck disable=SC2086
for library in $(ldd $programs 2>/dev/null | grep -o '[[:space:]]/[^ ]*' | sort -u); do
    copy_library "$library"
done
ln -s bash "$root/usr/bin/sh"
ln -s mawk "$root/usr/bin/awk"
for file in /usr/lib/locale/C.utf8 /lib/terminfo/x/xterm /lib/terminfo/x/xterm-256color /lib/terminfo/v/vt100 \
    /lib/terminfo/d/dumb /lib/terminfo/l/linux; do
    [ -e "$file" ] || continue
    to=$root/usr${file#/usr}
    mkdir -p "${to%/*}"
    cp -rL --preserve=mode "$file" "$to"
done
# Every other program that busybox can be.
for applet in $(busybox --list | sort); do
    [ -e "$root/usr/bin/$applet" ] || [ -L "$root/usr/bin/$applet" ] || [ -e "$root/usr/sbin/$applet" ] ||
        ln -s busybox "$root/usr/bin/$applet"
done

cat >"$root/etc/passwd" <<'EOF'
root:x:0:0:root:/root:/bin/bash
sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
EOF
printf 'root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n' >"$root/etc/group"
printf 'passwd: files\ngroup: files\nhosts: files dns\n' >"$root/etc/nsswitch.conf"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
printf '/bin/sh\n/bin/bash\n' >"$root/etc/shells"
printf 'PATH=/usr/local/bin:/usr/bin:/usr/sbin\nexport PATH\n' >"$root/etc/profile"
{
    grep -v '^VARIANT' /usr/lib/os-release
    printf 'VARIANT="mas-sandbox default image"\nVARIANT_ID=mas-sandbox\n'
} >"$root/usr/lib/os-release"
ln -s ../usr/lib/os-release "$root/etc/os-release"

for p in $(printf '%s\n' $owners | sort -u); do
    [ -f "/usr/share/doc/$p/copyright" ] || continue
    mkdir -p "$root/usr/share/doc/$p"
    install -m 644 "/usr/share/doc/$p/copyright" "$root/usr/share/doc/$p/copyright"
done
# shellcheck disable=SC2086
dpkg-query -W -f='${Package} ${Version} ${Architecture}\n' $(printf '%s\n' $owners | sort -u) | sort \
    >"$root/usr/share/doc/packages"

pack() {
    tar --format=ustar --sort=name --mtime="@$epoch" --numeric-owner --no-recursion -C "$root" "$@"
}
(cd "$root" && find . -path ./home/sandbox -prune -o -print | sort) >"$work/files"
pack --owner=0 --group=0 -cf "$work/out.tar" -T "$work/files"
pack --owner=1000 --group=1000 -rf "$work/out.tar" ./home/sandbox
cp "$work/out.tar" "$out.new"
mv "$out.new" "$out"
