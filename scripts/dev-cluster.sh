#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A cluster to try the runtime kube with: kind's, where kind is installed, else a node of our own, made of the programs of
# `make kube-tools`, in namespaces of its own; that one needs root. Needs kubectl. BUILD/dev/kubeconfig has the account
# that mas-kube uses, BUILD/dev/admin everything.
# Usage: dev-cluster.sh BUILD up | down | load link|stream|base (nothing where no cluster is up)
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
at=$build/dev name=mas-sandbox ours=10.123.9.1 theirs=10.123.9.2 wire=mas-dev0 pods=10.244.0.0/24
. "$source/scripts/oci-archive.sh"

fail() {
    echo "dev-cluster.sh: $*" >&2
    exit 1
}

has_kind() {
    command -v kind >/dev/null
}

# The process that has the namespaces of our own node.
node_process() {
    [ -e "$at/pid" ] && pgrep -x unshare -P "$(cat "$at/pid")"
}

up_own() {
    local pid
    [ "$(id -u)" = 0 ] || fail "there is no kind, and a node of our own needs root"
    BUILD=$build setsid /usr/bin/python3 "$source/tests/kube/dev-cluster.py" "$at" "$theirs" >"$at/log" 2>&1 </dev/null &
    pid=$!
    echo "$pid" >"$at/pid"
    until [ -e "$at/admin" ]; do
        kill -0 "$pid" 2>/dev/null || fail "the node does not start: $(tail -n 5 "$at/log")"
        sleep 1
    done
    ip link add "$wire" type veth peer name dev0 netns "$(node_process)"
    ip addr add "$ours/30" dev "$wire"
    ip link set "$wire" up
    nsenter -t "$(node_process)" -n sh -c "ip addr add $theirs/30 dev dev0 && ip link set dev0 up"
    ip route add "$pods" via "$theirs" # for answers to stream containers; it goes with the link
}

# What the broker may do there, and a credential for it; nothing else is in its file.
prepare() {
    local token admin
    export KUBECONFIG=$at/admin
    kubectl apply -k "$source/deploy/kube/base"
    kubectl -n mas-sandbox patch configmap mas-kube --type merge \
        -p '{"data":{"link_image":"localhost/mas-sandbox-link:dev","stream_image":"localhost/mas-sandbox-stream:dev","images":"localhost/mas-sandbox-base:\n"}}'
    token=$(kubectl -n mas-sandbox create token mas-kube --duration 168h)
    admin=$(kubectl config view -o 'jsonpath={.users[0].name}')
    (umask 077 && cp "$at/admin" "$at/kubeconfig.new")
    export KUBECONFIG=$at/kubeconfig.new
    kubectl config set-credentials mas-kube --token="$token"
    kubectl config set-context --current --user=mas-kube
    kubectl config delete-user "$admin"
    mv "$at/kubeconfig.new" "$at/kubeconfig"
}

up() {
    command -v kubectl >/dev/null || fail "there is no kubectl"
    [ ! -e "$at/admin" ] || fail "a cluster is up: \`make kind-down\` ends it"
    rm -rf "$at"
    mkdir -m 700 "$at"
    if has_kind; then
        kind create cluster --name "$name" --kubeconfig "$at/admin"
    else
        up_own
    fi
    prepare >"$at/prepared"
    echo "the cluster is up: $at/kubeconfig"
}

down() {
    if has_kind; then
        kind delete cluster --name "$name"
    elif [ -e "$at/pid" ]; then
        kill "$(cat "$at/pid")" 2>/dev/null || true
        # One that has ended and that its parent has not looked at yet has no command line any more.
        while [ -n "$(tr -d '\0' <"/proc/$(cat "$at/pid")/cmdline")" ] 2>/dev/null; do sleep 0.2; done
        ip link del "$wire" 2>/dev/null || true # the kernel takes its time for what is left of namespaces
    fi
    rm -rf "$at"
}

# Into the node's containerd, by a name that does not change with the version.
load() {
    local archive=$build/mas-$1-oci.tar own=mas-sandbox-$1 run
    [ -e "$at/kubeconfig" ] || return 0
    if has_kind; then
        kind load image-archive --name "$name" "$archive"
        run=(docker exec "$name-control-plane" ctr -n k8s.io)
    else
        run=(nsenter -t "$(node_process)" -m ctr -a /run/kube/containerd.sock -n k8s.io)
        "${run[@]}" images import "$archive" >/dev/null
    fi
    "${run[@]}" images tag --force "localhost/$own:$version" "localhost/$own:dev" >/dev/null
    echo "loaded localhost/$own:dev"
}

case ${2:-} in
up) up ;;
down) down ;;
load) load "$3" ;;
*) fail "usage: dev-cluster.sh BUILD up|down|load link|stream|base" ;;
esac
