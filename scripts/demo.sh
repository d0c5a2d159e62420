#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The main job end to end: tool calls over stdin/stdout and HTTP, a live stream, an escape that fails.
set -eu -o pipefail
build=$(cd "$1" && pwd)
work=$(mktemp -d /tmp/mas-demo.XXXXXX)
port=$((20000 + RANDOM % 20000))
url=http://127.0.0.1:$port
daemon=
cleanup() {
    [ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

step() { printf '\n== %s\n' "$*"; }

step "sandbox_agent over stdin/stdout: the agent starts mas-sandboxd for one call"
MAS_SANDBOXD="$build/mas-sandboxd" "$build/sandbox_agent" 2>"$work/agent.log"

step "start the daemon on $url"
"$build/mas-sandboxd" -listen "127.0.0.1:$port" --state-dir "$work/state" 2>"$work/log" &
daemon=$!
for _ in $(seq 100); do
    curl -fs "$url/healthz" >/dev/null 2>&1 && break
    sleep 0.05
done

step "sandbox_agent over HTTP: the same call through the running daemon"
MAS_SANDBOX_MODE=http MAS_SANDBOX_URL=$url "$build/sandbox_agent"

step "a sandbox, and a command streamed while it runs"
created=$("$build/sbx" create -addr "$url")
echo "$created"
id=${created#id=}
id=${id%% *}
"$build/sbx" exec -addr "$url" -id "$id" -stream -- \
    sh -c 'for i in 1 2 3; do echo "line $i at $(date +%T.%3N)"; sleep 0.3; done; id'

step "what enforces its walls"
curl -fs "$url/v1/sandboxes/$id" | /usr/bin/python3 -m json.tool | sed -n '/"effective"/,$p'

step "an escape attempt: read the host's shadow file, mount something, end PID 1, reach the network"
if "$build/sbx" exec -addr "$url" -id "$id" -sync -- bash -c '
    try() { "$@" && echo "this worked: $*" && exit 0; }
    try cat /etc/shadow
    try cat /proc/1/root/etc/shadow
    try mount -t tmpfs none /mnt
    try unshare -Ur true
    try kill -9 1
    try bash -c "exec 3<>/dev/tcp/1.1.1.1/53"
    exit 1'; then
    echo "the escape worked: this must not happen"
    exit 1
fi
"$build/sbx" exec -addr "$url" -id "$id" -sync -- echo "the sandbox is still there, and so is its wall"

if [ -e "$build/default-image.tar" ]; then
    step "a sandbox with an image of its own in place of the host's programs"
    "$build/sbx" image pull -addr "$url" default
    "$build/sbx" run -addr "$url" -image default -- sh -c '. /etc/os-release; echo "$PRETTY_NAME, $(ls /usr/bin | wc -l) programs"'
fi

step "delete it and stop"
"$build/sbx" delete -addr "$url" -id "$id"
kill "$daemon"
wait "$daemon"
daemon=
echo "stopped"
