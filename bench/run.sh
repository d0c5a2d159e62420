#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Prints medians, minima and ratios from one interleaved run with peers from packages. Needs root.
# ROUNDS (10), ITERATIONS (20), SANDBOXES (1000) and SECONDS_A_LOAD (3) can be set; SRT_MODULES is a
# node_modules directory with @anthropic-ai/sandbox-runtime, where srt is not on PATH; BEFORE is another
# build, of which sustained fresh sandboxes are then told as a ratio. Rows of five.py are medians of five.
set -eu
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
. "$here/private-ns.sh"

work=$(mktemp -d /var/tmp/mas-bench.XXXXXX)
port=$((10000 + RANDOM % 20000)) # below those that the kernel gives out
warm_port=$((port + 1))
bare_port=$((port + 2))
cold_port=$((port + 3))
tiny_port=$((port + 4))
tiny=/usr/local/bin/mas-bench-tiny.$$ # where every sandbox sees it
pids=
cleanup() {
    for pid in $pids; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
    done
    runc delete -f "mas-bench-$$" 2>/dev/null || true
    umount "$work/podman/overlay" 2>/dev/null || true
    rm -rf "$work" "$tiny"
}
trap cleanup EXIT

# --- peers: the same static program everywhere; busybox lies in /usr, which a sandbox sees too
program="/usr/bin/busybox true"
body='{"command":["/usr/bin/busybox","true"]}'
mkdir -p "$work/bundle/rootfs/bin" "$work/bundle/rootfs/proc"
cp /usr/bin/busybox "$work/bundle/rootfs/bin/busybox"
make_bundle() { # $1: args as JSON
    (cd "$work/bundle" && rm -f config.json && runc spec &&
        sed -i "s/\"terminal\": true/\"terminal\": false/; s#^\t*\"sh\"#$1#" config.json)
}
make_bundle '"/bin/busybox","sleep","1000000"'
(cd "$work/bundle" && runc run -d "mas-bench-$$" >/dev/null 2>&1 </dev/null)
make_bundle '"/bin/busybox","true"'
script() { # $1: name, then its commands on stdin
    { echo '#!/bin/sh'; cat; } >"$work/$1"
    chmod +x "$work/$1"
}
script crun-run <<<"cd $work/bundle && exec crun run c\$\$"
script runc-run <<<"cd $work/bundle && exec runc run r\$\$"
script runsc-run <<<"cd $work/bundle && exec runsc --root $work/runsc --network=none --platform=ptrace run g\$\$ >/dev/null 2>&1"
script podman-run <<<"exec podman --cgroup-manager=cgroupfs --runtime crun --root $work/podman --runroot $work/podman-state run --rm --network=none --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 --rootfs $work/bundle/rootfs /bin/busybox true >/dev/null 2>&1"
echo '{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":["/tmp"],"denyWrite":[]}}' >"$work/srt.json"
srt=${SRT_MODULES:+$SRT_MODULES/.bin/}srt
script srt-run <<<"exec $srt -s $work/srt.json $program >/dev/null 2>&1"
rare=()
missing=
add_peer() { # $1: name, $2: program that must be there, $3: script; left out where it does not work
    if command -v "$2" >/dev/null && "$work/$3"; then
        rare+=("$1|rare|$work/$3")
    else
        missing="$missing $2"
    fi
}
add_peer "runsc run" runsc runsc-run
add_peer "podman run" podman podman-run
add_peer "sandbox-runtime (npm)" "$srt" srt-run

# --- ours, and the server without a sandbox
start() { # $1: port, $2: state, then flags
    local p=$1 state=$2
    shift 2
    "$build/mas-sandboxd" -listen "127.0.0.1:$p" --state-dir "$work/$state" "$@" >/dev/null 2>"$work/$state.log" &
    pids="$pids $!"
}
start "$port" state
start "$warm_port" warm --warm-pool-size "${POOL:-32}"
start "$cold_port" cold --blanks 0
"$build/bench/bare-server" "$bare_port" $program &
pids="$pids $!"
# --- and the cheapest program there is, beside which our own cost shows most
tiny_body='{"command":["'$tiny'"]}'
tiny_rows=()
tiny_loads=()
if install -m 755 "$build/bench/tiny" "$tiny" 2>/dev/null; then
    "$build/bench/bare-server" "$tiny_port" "$tiny" &
    pids="$pids $!"
fi
for p in $port $warm_port $cold_port; do
    for _ in $(seq 100); do
        curl -fs "http://127.0.0.1:$p/healthz" >/dev/null && break
        sleep 0.05
    done
done
sleep 1 # the pool fills
id=$(curl -fs "http://127.0.0.1:$port/v1/sandboxes" -d '{}' |
    /usr/bin/python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])')

if [ -x "$tiny" ]; then
    tiny_rows=("bare server, tiny program|http|$tiny_port|/|$tiny_body"
        "POST exec, tiny program|http|$port|/v1/sandboxes/$id/exec|$tiny_body"
        "POST /v1/run, warm pool, tiny program|http|$warm_port|/v1/run|$tiny_body")
    tiny_loads=("tiny-bare $tiny_port / $tiny_body" "tiny-exec $port /v1/sandboxes/$id/exec $tiny_body")
fi

# --- the same command as a tool call: a session whose calls work in that sandbox
mcp() { # $1: message, then more options of curl
    local message=$1
    shift
    curl -fs "http://127.0.0.1:$port/mcp" -H 'Accept: application/json, text/event-stream' \
        -H 'Content-Type: application/json' -d "$message" "$@"
}
session=$(mcp '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}' \
    -o /dev/null -D - | tr -d '\r' | sed -n 's/^Mcp-Session-Id: //p')
tool='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"'$program'","sandbox":"'$id'"}}}'
mcp "$tool" -H "Mcp-Session-Id: $session" | grep -q '"exit_code":0' || { echo "bench: the tool call fails" >&2; exit 1; }

"$build/bench/bench-compare" -n "${ITERATIONS:-20}" -r "${ROUNDS:-10}" \
    "bare fork+exec|spawn|$program" \
    "bare server|http|$bare_port|/|$body" \
    "POST exec, running sandbox|http|$port|/v1/sandboxes/$id/exec|$body" \
    ${tiny_rows[@]+"${tiny_rows[@]}"} \
    "POST exec of a shell line|http|$port|/v1/sandboxes/$id/exec|{\"command\":[\"/bin/sh\",\"-c\",\"$program\"]}" \
    "MCP run_command of that line|mcp|$port|$session|$tool" \
    "POST /v1/run, warm pool|http|$warm_port|/v1/run|$body" \
    "POST /v1/run, fresh sandbox|http|$port|/v1/run|$body" \
    "POST /v1/run, nothing made ahead|http|$cold_port|/v1/run|$body" \
    "bwrap --unshare-all|spawn|bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp $program" \
    "crun run|spawn|$work/crun-run" \
    "runc run|spawn|$work/runc-run" \
    "runc exec|spawn|runc exec mas-bench-$$ /bin/busybox true" \
    ${rare[@]+"${rare[@]}"} >"$work/result"

# --- throughput with 16 clients, in turns
for _ in 1 2 3; do
    for one in "bare $bare_port / $body" "exec $port /v1/sandboxes/$id/exec $body" "fresh $port /v1/run $body" \
        ${tiny_loads[@]+"${tiny_loads[@]}"}; do
        read -r name p path what <<<"$one"
        "$build/bench/load" "$p" "$path" "$what" 16 "${SECONDS_A_LOAD:-3}" | sed "s/^/$name\t/" >>"$work/load"
        sleep 0.5
    done
done
for pid in $pids; do kill "$pid"; wait "$pid" 2>/dev/null || true; done
pids=

"$here/five.py" "$build" >"$work/five"
"$here/network.py" "$build" >>"$work/five"
if [ -x /usr/bin/qemu-system-x86_64 ]; then
    "$here/microvm.py" "$build" >>"$work/five" 2>/dev/null || missing="$missing microvm"
else
    missing="$missing qemu"
fi
if [ -x "$("$here/../scripts/kube-tools.sh" --where)/node" ]; then
    "$here/kube.py" "$build" >"$work/kube" 2>/dev/null && cat "$work/kube" >>"$work/five" || missing="$missing kube"
else
    missing="$missing kube-tools"
fi
"$here/oci.sh" "$build" >"$work/oci"
"$here/stream.sh" "$build" >"$work/stream"
"$here/density.py" "$build" "${SANDBOXES:-1000}" >"$work/density"
"$here/overload.py" "$build" >"$work/overload"
"$build/bench/audit-verify" 2>/dev/null | sed "s/^/verify_/" >"$work/audit"

awk -F'\t' -v missing="$missing" '
    function row(name, value, op, want) {
        printf "%-74s %7.3f   expected %s %-5s %s\n", name, value, op, want,
            (op == "<=" ? value <= want : value >= want) ? "" : "MISSED"
    }
    function ratio(a, b, want) {
        if (b in med)
            row(a " / " b, med[a] / med[b], "<=", want)
    }
    function median(list,   a, n, i, j, t) {
        n = split(list, a, " ")
        for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) if (a[j] + 0 < a[i] + 0) { t = a[i]; a[i] = a[j]; a[j] = t }
        return a[int((n + 1) / 2)]
    }
    BEGIN { printf "%-44s %10s %10s\n", "what", "min us", "median us" }
    FILENAME ~ /(result|oci)$/ { min[$1] = $2; med[$1] = $3; printf "%-44s %10d %10d\n", $1, $2, $3 }
    FILENAME ~ /load$/ { rate[$1] = rate[$1] " " $2 }
    FILENAME ~ /stream$/ && /^256 MiB/ { print }
    FILENAME ~ /stream$/ && /^ratio of/ { split($0, w, " "); stream = w[4] }
    FILENAME ~ /density$/ { density[$1] = $2 }
    FILENAME ~ /overload$/ { overload[$1] = $2 }
    FILENAME ~ /audit$/ { audit[$1] = $2 }
    FILENAME ~ /five$/ { five[++n_five] = $0 }
    END {
        printf "%-44s %10s %10d a second\n", "bare server, 16 clients", "", median(rate["bare"])
        printf "%-44s %10s %10d a second\n", "POST exec, 16 clients", "", median(rate["exec"])
        printf "%-44s %10s %10d a second\n", "POST /v1/run, fresh, 16 clients", "", median(rate["fresh"])
        if ("tiny-exec" in rate) {
            printf "%-44s %10s %10d a second\n", "bare server, tiny program, 16 clients", "", median(rate["tiny-bare"])
            printf "%-44s %10s %10d a second\n", "POST exec, tiny program, 16 clients", "", median(rate["tiny-exec"])
        }
        printf "%-44s %10s %10d KiB (PSS)\n", "idle sandbox, memory", "", density["idle_pss_kib"]
        print ""
        ratio("POST exec, running sandbox", "bare server", 1.3)
        ratio("POST /v1/run, warm pool", "bare server", 1.5)
        for (i = 1; i <= n_five; i++) {
            split(five[i], f, "\t")
            row(f[1], f[2] + 0, f[3], f[4] + 0)
        }
        ratio("POST /v1/run, fresh sandbox", "bwrap --unshare-all", 0.3)
        row("exec throughput with 16 clients / bare server", median(rate["exec"]) / median(rate["bare"]), ">=", 0.85)
        if ("tiny-exec" in rate)
            row("exec throughput of a tiny program, 16 clients / bare server", median(rate["tiny-exec"]) / median(rate["tiny-bare"]), ">=", 0.85)
        ratio("POST /v1/run, fresh sandbox", "crun run", 0.15)
        ratio("POST /v1/run, fresh sandbox", "runc run", 0.05)
        ratio("POST /v1/run, fresh sandbox", "runsc run", 0.01)
        ratio("POST /v1/run, fresh sandbox", "podman run", 0.01)
        ratio("POST /v1/run, fresh sandbox", "sandbox-runtime (npm)", 0.01)
        ratio("POST exec, running sandbox", "runc exec", 0.1)
        ratio("POST /v1/run, crun", "crun run, equal bundle", 1.1)
        ratio("POST /v1/run, runc", "runc run, equal bundle", 1.1)
        ratio("POST /v1/run, gvisor", "runsc run, equal bundle", 1.1)
        ratio("POST /v1/run, gvisor, warm pool", "runsc run, beside a warm pool", 0.1)
        ratio("POST exec, crun", "crun exec, equal bundle", 0.2)
        ratio("POST exec, runc", "runc exec, equal bundle", 0.2)
        ratio("POST exec, gvisor", "runsc exec, equal bundle", 0.15)
        ratio("MCP run_command of that line", "POST exec of a shell line", 1.2)
        row("256 MiB through journal and WebSocket / pipe to cat (throughput)", stream, ">=", 0.4)
        row("CPU time of an idle sandbox, us a minute", density["idle_cpu_us_a_minute"], "<=", 100)
        row("create at 1,000 idle sandboxes / at 10", density["create_ratio"], "<=", 1.2)
        row("exec at 1,000 idle sandboxes / at 10", density["exec_ratio"], "<=", 1.2)
        row("records of an export verified, million a second", audit["verify_export"] / 1e6, ">=", 0.2)
        row("exec throughput with 64 clients / with 16", overload["throughput_ratio"], ">=", 0.9)
        row("exec latency beside a fork bomb / beside nothing", overload["latency_ratio_fork_bomb"], "<=", 2)
        row("exec latency beside an output flood", overload["latency_ratio_flood"], "<=", 2)
        row("exec latency beside 1,000 idle WebSockets", overload["latency_ratio_idle_websockets"], "<=", 2)
        if (missing)
            print "not measured, because not installed or not working here:" missing
    }' "$work/result" "$work/oci" "$work/load" "$work/stream" "$work/density" "$work/overload" "$work/audit" "$work/five"
