#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command beside a container engine of its own: private directories and socket, no network, gone
# afterwards. The command's SANDBOX_* variables let every daemon it starts use the engine. Needs root.
# Usage: with-engine.sh podman|docker COMMAND...   ENGINE_CONFIG: members of docker's configuration.
set -u

engine=$1
shift

# Containers outlive an engine.
remove_all() {
    for id in $(curl -s --max-time 10 --unix-socket "$dir/sock" "http://engine/v1.41/containers/json?all=1" |
        grep -o '"Id":"[0-9a-f]*"' | cut -d'"' -f4); do
        curl -s --max-time 20 -X DELETE --unix-socket "$dir/sock" "http://engine/v1.41/containers/$id?force=1" >/dev/null
    done
}

# A mix of cgroup v1 controllers and a v2 mount without any trips crun and runc: the engine sees one kind.
if [ -z "${ENGINE_NS:-}" ]; then
    dir=$(mktemp -d "${TMPDIR:-/tmp}/mas-engine-XXXXXX") || exit 1
    chmod 755 "$dir"
    ENGINE_NS=1 ENGINE_DIR=$dir setsid unshare -m --propagation private "$0" "$engine" >"$dir/log" 2>&1 &
    pid=$!
    trap 'remove_all; kill $pid 2>/dev/null; wait $pid 2>/dev/null; ENGINE_NS=end ENGINE_DIR=$dir "$0" "$engine"' EXIT
    trap 'exit 130' INT TERM
    tries=0
    until curl -fs --max-time 5 --unix-socket "$dir/sock" http://engine/version >/dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ] || ! kill -0 $pid 2>/dev/null; then
            echo "with-engine.sh: $engine does not start:" >&2
            tail -5 "$dir/log" >&2
            exit 1
        fi
        sleep 0.2
    done
    export SANDBOX_ENGINES="$engine" ENGINE_PID=$pid ENGINE_SOCKET="$dir/sock" ENGINE_DIR="$dir"
    case $engine in
    podman) export SANDBOX_PODMAN_SOCKET="$dir/sock" ;;
    docker) export SANDBOX_DOCKER_SOCKET="$dir/sock" ;;
    esac
    "$@"
    exit $?
fi

podman_here() {
    podman --root "$ENGINE_DIR/root" --runroot "$ENGINE_DIR/run" --cgroup-manager cgroupfs \
        --events-backend file --log-level warn "$@"
}

if [ "$ENGINE_NS" = end ]; then
    [ "$engine" = podman ] && podman_here rm -fa >/dev/null 2>&1
    rm -rf "$ENGINE_DIR" 2>/dev/null
    exit 0
fi

if mountpoint -q /sys/fs/cgroup/unified && [ -d /sys/fs/cgroup/memory ]; then
    umount /sys/fs/cgroup/unified
fi
cd "$ENGINE_DIR" || exit 1 # what it leaves in its working directory goes with it
case $engine in
podman)
    exec setpriv --pdeathsig TERM podman --root "$ENGINE_DIR/root" --runroot "$ENGINE_DIR/run" --cgroup-manager cgroupfs \
        --events-backend file --log-level warn system service --time=0 "unix://$ENGINE_DIR/sock"
    ;;
docker)
    # Of runsc, what our runner needs: a way out to its socket, and no network that it would have to copy.
    runsc='"runtimes":{"runsc":{"path":"/usr/bin/runsc","runtimeArgs":["--network=none","--host-uds=open"]}}'
    echo "{${ENGINE_CONFIG-$runsc}}" >"$ENGINE_DIR/config.json"
    exec setpriv --pdeathsig TERM dockerd --host "unix://$ENGINE_DIR/sock" --data-root "$ENGINE_DIR/data" --exec-root "$ENGINE_DIR/exec" \
        --pidfile "$ENGINE_DIR/pid" --config-file "$ENGINE_DIR/config.json" --bridge none --iptables=false \
        --ip6tables=false --exec-opt native.cgroupdriver=cgroupfs --live-restore
    ;;
*)
    echo "with-engine.sh: no engine '$engine' (podman, docker)" >&2
    exit 2
    ;;
esac
