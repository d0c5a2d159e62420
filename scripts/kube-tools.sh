#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the programs of the cluster that check-kube runs: etcd, from Debian's package, and the Kubernetes programs, from
# the Go module registry in the versions of tests/kube/tools. That takes an hour on two cores and is done once: they are
# kept outside the clone, by version, machine and the sum of the files they are made from. Each program appears there
# whole or not at all, so the API server serves its tests while the node's program is still being compiled.
# Usage: kube-tools.sh [PROGRAM ...]   PROGRAM: etcd kube-apiserver node; all of them unless some are named
#        kube-tools.sh --where         prints the directory and makes nothing
set -eu
cd "$(dirname "$0")/.."
source=$PWD/tests/kube/tools
version=$(sed -n 's,^\tk8s.io/kubernetes v,,p' "$source/go.mod")
sum=$(cd "$source" && sha256sum go.mod go.sum apiserver/main.go node/main.go | sha256sum | cut -c1-16)
root=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mas-sandbox/kube
tools=$root/$version-$(uname -m)-$sum
# etcd of this release has what an API server of this version asks for; bookworm's is too old for it.
etcd_suite=trixie

if [ "${1:-}" = --where ]; then
    echo "$tools"
    exit 0
fi
[ $# -gt 0 ] || set -- etcd kube-apiserver node

mkdir -p "$tools"
exec 9>"$root/lock"
flock -n 9 || { echo "kube-tools: another run is at it, and holds $root/lock" >&2; exit 1; }
# Compiled packages and modules are kept until everything is made: a run that was cut short goes on where it was.
work=$root/work-$sum
mkdir -p "$work/apt/lists/partial" "$work/apt/cache" "$work/module"

# Puts a finished program at its place, with its sum beside it.
program_publish() {
    local file=$1 name=$2
    chmod 755 "$file"
    mv "$file" "$tools/.$name.new"
    (cd "$tools" && sha256sum <".$name.new" | sed "s,-\$,$name,") >"$tools/$name.sha256"
    mv "$tools/.$name.new" "$tools/$name"
    echo "kube-tools: made $tools/$name"
}

# The package of a newer release, from the mirror that this machine uses, unpacked and not installed.
etcd_make() {
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
    [ -n "$mirror" ] || { echo "kube-tools: apt has no mirror to take etcd-server from" >&2; return 1; }
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $etcd_suite main" >"$work/apt/sources.list"
    (
        cd "$work/apt"
        set -- -o "Dir::State::Lists=$PWD/lists" -o "Dir::State::status=/dev/null" -o "Dir::Cache=$PWD/cache" \
            -o "Dir::Etc::SourceList=$PWD/sources.list" -o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root
        apt-get -qq "$@" update
        rm -f etcd-server_*.deb
        apt-get -qq "$@" download etcd-server
        dpkg-deb -x etcd-server_*.deb tree
    )
    program_publish "$work/apt/tree/usr/bin/etcd" etcd
}

# One program of the module, at the lowest priority: an hour of compiling should not be felt by anything else.
go_make() {
    local package=$1 name=$2 minor
    minor=${version#*.} minor=${minor%%.*}
    cp -r "$source/." "$work/module"
    (
        cd "$work/module"
        export GOMODCACHE=$work/modules GOCACHE=$work/compiled GOGC=400 CGO_ENABLED=1 GOFLAGS=-modcacherw
        chrt -i 0 nice -n 19 ionice -c 3 go build -p 2 -mod=readonly -trimpath -buildvcs=false -o "$work/$name" -ldflags \
            "-s -w -X k8s.io/component-base/version.gitVersion=v$version -X k8s.io/component-base/version.gitMajor=${version%%.*} -X k8s.io/component-base/version.gitMinor=$minor" \
            "./$package"
    )
    program_publish "$work/$name" "$name"
}

for program; do
    [ ! -x "$tools/$program" ] || continue
    case $program in
    etcd) etcd_make ;;
    kube-apiserver | node)
        command -v go >/dev/null || { echo "kube-tools: go is not on PATH; 1.25 or newer is needed" >&2; exit 1; }
        go_make "${program#kube-}" "$program"
        ;;
    *) echo "kube-tools: there is no program '$program' here" >&2; exit 2 ;;
    esac
done
if [ -x "$tools/node" ]; then
    for name in kube-controller-manager kube-scheduler kubelet kube-proxy; do
        ln -sfn node "$tools/$name"
    done
fi
[ ! -x "$tools/etcd" ] || [ ! -x "$tools/kube-apiserver" ] || [ ! -x "$tools/node" ] || rm -rf "$work"
