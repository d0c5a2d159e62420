#!/bin/sh
# Installs what the project needs from Debian's packages, and only what is missing.
# Usage: install-deps.sh build|test|bench|guest|mcp|containers ...   (each of the first three includes
# the ones before it; the others, for `make check-guest`, `make check-mcp` and `make check-containers`,
# add to test)
set -eu

build="gcc curl python3 libc6-dev pkg-config meson ninja-build libuv1-dev node-llhttp libwslay-dev libjansson-dev
libyaml-dev libsqlite3-dev libseccomp-dev libcap-dev libssl-dev libcurl4-openssl-dev libxml2-dev
libarchive-dev libpcre2-dev uidmap e2fsprogs util-linux musl-tools busybox-static"
test="curl python3 nodejs openssl crun runc runsc strace libc6-dev-i386 procps iproute2 xz-utils zstd clang
libclang-rt-14-dev clang-format skopeo docker-registry"
bench="bubblewrap podman socat ripgrep"
guest="qemu-system-x86 cpio"
mcp="npm"
containers="podman docker.io"

want=$build
for set in "$@"; do
    case $set in
    build) ;;
    test) want="$want $test" ;;
    bench) want="$want $test $bench" ;;
    guest) want="$want $test $guest" ;;
    mcp) want="$want $test $mcp" ;;
    containers) want="$want $test $containers" ;;
    *) echo "install-deps.sh: no package set '$set' (build, test, bench, guest, mcp, containers)" >&2; exit 2 ;;
    esac
done

missing=
for p in $want; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" != 0 ]; then
    echo "install-deps.sh: not root, and these packages are missing:$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
