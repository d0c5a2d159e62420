#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What the audit costs: exec throughput of two daemons, one with and one without it, in turns; and how
# many records are verified in a second. ROUNDS (12), SECONDS_A_LOAD (2).
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d /var/tmp/mas-bench.XXXXXX)
port=$((20000 + RANDOM % 20000))
body='{"command":["/usr/bin/busybox","true"]}'
pids=
cleanup() {
    for pid in $pids; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    rm -rf "$work"
}
trap cleanup EXIT

start() { # $1: port, $2: name, then flags
    local p=$1 name=$2
    shift 2
    "$build/mas-sandboxd" -listen "127.0.0.1:$p" --state-dir "$work/$name" "$@" >/dev/null 2>"$work/$name.log" &
    pids="$pids $!"
    for _ in $(seq 100); do
        curl -fs "http://127.0.0.1:$p/healthz" >/dev/null && break
        sleep 0.05
    done
    curl -fs "http://127.0.0.1:$p/v1/sandboxes" -d '{}' |
        /usr/bin/python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])' >"$work/$name.id"
}
start "$port" with
start "$((port + 1))" without --audit=false

load() { # $1: name, $2: port
    "$build/bench/load" "$2" "/v1/sandboxes/$(cat "$work/$1.id")/exec" "$body" 16 "${SECONDS_A_LOAD:-2}" |
        cut -f1
}
# Each pair is measured back to back, the order changes from pair to pair.
load with "$port" >/dev/null
load without "$((port + 1))" >/dev/null
for i in $(seq "${ROUNDS:-12}"); do
    if [ $((i % 2)) = 0 ]; then
        a=$(load with "$port")
        b=$(load without "$((port + 1))")
    else
        b=$(load without "$((port + 1))")
        a=$(load with "$port")
    fi
    echo "$a $b" >>"$work/pairs"
done

awk '{ print $1 / $2 }' "$work/pairs" | sort -n | awk '{ r[NR] = $1 } END { printf "audit_ratio\t%.3f\n", r[int((NR + 1) / 2)] }'
awk '{ a += $1; b += $2 } END { printf "with\t%.0f\nwithout\t%.0f\n", a / NR, b / NR }' "$work/pairs"
"$build/bench/audit-verify" 2>/dev/null | sed 's/^/verify_/'
