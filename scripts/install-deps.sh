#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what the project needs from Debian's packages, and only what is missing.
# Usage: install-deps.sh build|test|bench|guest|microvm|mcp|containers|egress|distros|tidy|coverage|image|deb ...
# Each of the first three includes the ones before it; the others, for `make check-guest` and the like, add to test; image and deb add to build.
# A name "a|b" is the first of these packages that this release of Debian has.
set -eu

build="gcc curl python3 libc6-dev pkg-config meson ninja-build libuv1-dev libllhttp-dev|node-llhttp libwslay-dev libjansson-dev
libyaml-dev libsqlite3-dev libseccomp-dev libcap-dev libssl-dev libcurl4-openssl-dev libxml2-dev
libarchive-dev libpcre2-dev libnftables-dev uidmap e2fsprogs util-linux musl-tools busybox-static"
test="curl git gdb python3 nodejs openssl crun runc runsc strace libc6-dev-i386 procps iproute2 xz-utils zstd clang
libclang-rt-dev clang-format skopeo docker-registry fish zsh"
bench="bubblewrap podman socat ripgrep"
guest="qemu-system-x86 cpio"
microvm="qemu-system-x86 cpio xz-utils zstd lz4"
mcp="npm"
containers="podman docker.io"
egress="wget nftables npm python3-pip python3-requests netcat-openbsd nginx-light|nginx dnsmasq-base openssh-client openssh-server"
distros="debootstrap"
tidy="clang-tidy"
coverage="gcovr"
image="base-files base-passwd binutils ca-certificates crun diffutils login passwd"
deb="build-essential debhelper dpkg-dev fakeroot"

want=$build
for set in "$@"; do
    case $set in
    build) ;;
    test) want="$want $test" ;;
    bench) want="$want $test $bench $microvm" ;;
    guest) want="$want $test $guest" ;;
    microvm) want="$want $test $microvm" ;;
    mcp) want="$want $test $mcp" ;;
    containers) want="$want $test $containers" ;;
    egress) want="$want $test $egress" ;;
    distros) want="$want $test $distros" ;;
    tidy) want="$want $test $tidy" ;;
    coverage) want="$want $test $coverage" ;;
    image) want="$want $image" ;;
    deb) want="$want $deb" ;;
    *) echo "install-deps.sh: no package set '$set' (build, test, bench, guest, microvm, mcp, containers, egress, distros, tidy, coverage, image, deb)" >&2; exit 2 ;;
    esac
done

# Names of all that is installed, and of what it stands for: a nodejs from elsewhere may bring npm, and refuse Debian's.
names=$(dpkg-query -W -f='${db:Status-Status} ${Package},${Provides}\n' | sed -n 's/^installed //p' | sed 's/([^)]*)//g' |
    tr -d ' ' | tr ',' '\n')
installed() { echo "$names" | grep -qxF "$1"; }

# Prints the package of the names a|b|c that is installed or, where none is, the first that can be.
choose() {
    for name in $(echo "$1" | tr '|' ' '); do
        installed "$name" && { echo "$name"; return; }
    done
    for name in $(echo "$1" | tr '|' ' '); do
        apt-cache policy "$name" 2>/dev/null | grep -q 'Candidate: [^(]' && { echo "$name"; return; }
    done
    echo "${1%%|*}"
}

missing=
for p in $want; do
    case $p in *'|'*) p=$(choose "$p") ;; esac
    installed "$p" || missing="$missing $p"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ]; then
    echo "install-deps.sh: not root, and these packages are missing:$missing" >&2
    exit 1
fi
# The tests start the servers that they need themselves: none is started by its package where runlevels are asked for.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get update -qq
# Which of several names there is may only be known now.
packages=
for p in $want; do
    case $p in *'|'*) p=$(choose "$p") ;; esac
    installed "$p" || packages="$packages $p"
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
if ! apt-get install -y -qq --no-install-recommends $packages >"$log" 2>&1; then
    cat "$log" >&2
    echo "install-deps.sh: apt-get could not install:$packages" >&2
    exit 1
fi
