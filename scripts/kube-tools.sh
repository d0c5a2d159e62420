#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes the programs of the cluster that check-kube runs: etcd, from Debian's package, and the Kubernetes programs, from
# the Go module registry in the versions of tests/kube/tools. That takes an hour on two cores and is done once: they are
# kept outside the clone, by version, machine and the sum of the files they are made from. Each program appears there
# whole or not at all, so the API server serves its tests while the node's program is still being compiled. What enforces
# network policies is a module of its own, with other versions of the same parts, and is kept beside these: minutes more.
# Usage: kube-tools.sh [PROGRAM ...]   PROGRAM: etcd kube-apiserver node enforcer; all of them unless some are named
#        kube-tools.sh --where         prints the directory and makes nothing; --where-enforcer that of the enforcer
set -eu
cd "$(dirname "$0")/.."
source=$PWD/tests/kube/tools
version=$(sed -n 's,^\tk8s.io/kubernetes v,,p' "$source/go.mod")
sum=$(cd "$source" && sha256sum go.mod go.sum apiserver/main.go node/main.go | sha256sum | cut -c1-16)
root=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mas-sandbox/kube
tools=$root/$version-$(uname -m)-$sum
# etcd of this release has what an API server of this version asks for; bookworm's is too old for it.
etcd_suite=trixie

enforcer_source=$PWD/tests/kube/enforcer
enforcer_sum=$(cd "$enforcer_source" && sha256sum go.mod go.sum main.go | sha256sum | cut -c1-16)
enforcer=$root/enforcer-$(uname -m)-$enforcer_sum

case ${1:-} in
--where) echo "$tools"; exit 0 ;;
--where-enforcer) echo "$enforcer"; exit 0 ;;
esac
[ $# -gt 0 ] || set -- etcd kube-apiserver node enforcer

mkdir -p "$tools"
exec 9>"$root/lock"
flock -n 9 || { echo "kube-tools: another run is at it, and holds $root/lock" >&2; exit 1; }
# Compiled packages and modules are kept until everything is made: a run that was cut short goes on where it was.
work=$root/work-$sum
mkdir -p "$work/apt/lists/partial" "$work/apt/cache" "$work/module"

# The programs that one file is, by the name that it is started by. What finds `node` finds these, too.
node_link() {
    local name
    for name in kube-controller-manager kube-scheduler kubelet kube-proxy; do
        ln -sfn node "$tools/$name"
    done
}

# Puts a finished program at its place, with its sum beside it.
program_publish() {
    local file=$1 name=$2
    chmod 755 "$file"
    mv "$file" "$tools/.$name.new"
    (cd "$tools" && sha256sum <".$name.new" | sed "s,-\$,$name,") >"$tools/$name.sha256"
    mv "$tools/.$name.new" "$tools/$name"
    [ "$name" != node ] || node_link
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

# kube-router's controller of network policies as a program, and ipset, which it calls, from this release's packages.
enforcer_make() {
    local made
    made=$(mktemp -d "$root/enforcer.XXXXXX")
    mkdir -p "$work/enforcer" "$work/ipset"
    cp "$enforcer_source"/* "$work/enforcer"
    (
        cd "$work/enforcer"
        export GOMODCACHE=$work/modules GOCACHE=$work/compiled GOGC=400 CGO_ENABLED=0 GOFLAGS=-modcacherw
        chrt -i 0 nice -n 19 ionice -c 3 go build -p 2 -mod=readonly -trimpath -buildvcs=false -ldflags "-s -w" -o "$made/enforcer" .
        cd "$work/ipset"
        apt-get -qq -o APT::Sandbox::User=root download ipset libipset13
        for package in ./*.deb; do dpkg-deb -x "$package" .; done
        cp usr/sbin/ipset "$made"
        cp usr/lib/*/libipset.so.13.*.* "$made/libipset.so.13"
        cd "$made" && sha256sum ./* >sums
    )
    rm -rf "$enforcer"
    chmod 755 "$made"
    mv "$made" "$enforcer"
    echo "kube-tools: made $enforcer"
}

for program; do
    [ ! -x "$tools/$program" ] || continue
    if [ "$program" = enforcer ]; then
        command -v go >/dev/null || { echo "kube-tools: go is not on PATH; 1.26 or newer is needed" >&2; exit 1; }
        [ -x "$enforcer/enforcer" ] || enforcer_make
        continue
    fi
    case $program in
    etcd) etcd_make ;;
    kube-apiserver | node)
        command -v go >/dev/null || { echo "kube-tools: go is not on PATH; 1.25 or newer is needed" >&2; exit 1; }
        go_make "${program#kube-}" "$program"
        ;;
    *) echo "kube-tools: there is no program '$program' here" >&2; exit 2 ;;
    esac
done
[ ! -x "$tools/node" ] || node_link
[ ! -x "$tools/etcd" ] || [ ! -x "$tools/kube-apiserver" ] || [ ! -x "$tools/node" ] || [ ! -x "$enforcer/enforcer" ] || rm -rf "$work"
