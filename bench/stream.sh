#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# 256 MiB of one command's output through the journal and the binary WebSocket to a reader in C,
# against the same command piped to cat, in turns. Needs root. ROUNDS (7) can be set.
set -eu
build=$(cd "$1" && pwd)
work=$(mktemp -d /var/tmp/mas-bench.XXXXXX)
port=$((20000 + RANDOM % 20000))
daemon=
cleanup() {
    [ -n "$daemon" ] && kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

cat >"$work/config.yaml" <<X
journal_exec_bytes: 600Mi
journal_sandbox_bytes: 800Mi
journal_total_bytes: 1Gi
X
"$build/mas-sandboxd" -listen "127.0.0.1:$port" --state-dir "$work/state" \
    --config "$work/config.yaml" >/dev/null 2>"$work/log" &
daemon=$!
for _ in $(seq 100); do
    curl -fs "http://127.0.0.1:$port/healthz" >/dev/null && break
    sleep 0.05
done

bytes=$((256 * 1024 * 1024))
body='{"command":["dd","if=/dev/zero","bs=128k","count=2048","status=none"],"async":true}'
# The first round warms the page cache's memory up and does not count.
for _ in $(seq $((${ROUNDS:-7} + 1))); do
    t=$(date +%s%N)
    dd if=/dev/zero bs=128k count=2048 status=none | cat >/dev/null
    echo "pipe $((($(date +%s%N) - t) / 1000))" >>"$work/result"
    # A fresh sandbox a round: its journal goes with it.
    id=$(curl -fs "http://127.0.0.1:$port/v1/sandboxes" -d '{}' |
        /usr/bin/python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])')
    read -r got us messages < <("$build/bench/ws-read" "$port" "$id" "$body")
    [ "$got" = $bytes ] || { echo "got $got of $bytes bytes" >&2; exit 1; }
    echo "journal $us $messages" >>"$work/result"
    curl -fs -X DELETE "http://127.0.0.1:$port/v1/sandboxes/$id" >/dev/null
done

sorted() { awk -v k="$1" '$1 == k && seen++ { print $2 }' "$work/result" | sort -n; }
median() { sorted "$1" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
pipe=$(median pipe)
journal=$(median journal)
awk -v p="$pipe" -v j="$journal" -v pm="$(sorted pipe | head -1)" -v jm="$(sorted journal | head -1)" 'BEGIN {
    printf "256 MiB, command | cat >/dev/null              %8d us  %7.0f MiB/s\n", p, 268435456 / 1048576 / p * 1e6
    printf "256 MiB, journal and binary WebSocket to C     %8d us  %7.0f MiB/s\n", j, 268435456 / 1048576 / j * 1e6
    printf "best rounds: %d us and %d us, ratio %.3f\n", pm, jm, pm / jm
    printf "ratio of throughputs %.3f   expected >= 0.4 %s\n", p / j, (p / j < 0.4) ? "MISSED" : ""
}'
