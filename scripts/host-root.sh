# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that make a root file system of packages which are installed on this host.

# The shared libraries of the files named on the command line, as paths; some are scripts.
libraries() {
    { ldd "$@" 2>/dev/null || true; } |
        sed -n 's/.* => \(\/[^ ]*\) .*/\1/p; s/^\t\(\/[^ ]*\) (.*/\1/p' | sort -u
}

# copy_packages TREE "PACKAGE ..." PROGRAM...: fills TREE with the directories of a root, the files of the packages
# without documents and translations, and the libraries of these packages' programs and of the PROGRAMs.
copy_packages() {
    local tree=$1 packages=$2 list p
    shift 2
    list=$(mktemp)
    mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{dev,proc,sys,run,tmp,root,home,srv,etc,var/lib,var/tmp}
    chmod 1777 "$tree/tmp" "$tree/var/tmp"
    for p in bin sbin lib lib64; do
        ln -s "usr/$p" "$tree/$p"
    done
    # shellcheck disable=SC2086
    dpkg -L $packages | grep -vE '/(doc|man|locale|i18n|gconv|test|idlelib|__pycache__)(/|$)' |
        sort -u | while read -r p; do [ -d "$p" ] && [ ! -L "$p" ] || echo "$p"; done >"$list"
    # shellcheck disable=SC2046
    libraries "$@" $(grep -E '^(/usr)?/s?bin/|/lib-dynload/' "$list") >>"$list"
    # A link's target too: /bin/sh, libfoo.so.1, alternatives.
    xargs -d '\n' realpath -e <"$list" >"$list.real" 2>/dev/null || true
    sort -u "$list" "$list.real" |
        tar -c -f - --no-recursion --ignore-failed-read -T - 2>/dev/null |
        tar -x -p -f - -C "$tree" --keep-directory-symlink
    rm -f "$list" "$list.real"
}
