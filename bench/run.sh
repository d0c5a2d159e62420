#!/bin/bash
# Prints medians, minima and ratios from one interleaved run with peers from packages. Needs root.
# ROUNDS (10) and ITERATIONS (20) can be set.
set -eu
build=$(cd "$1" && pwd)
# crun refuses this mix of cgroup v1 controllers and a v2 mount: hide the v2 mount from the peers.
if [ -z "${BENCH_NS:-}" ]; then
    exec env BENCH_NS=1 unshare -m --propagation private "$0" "$build"
fi
umount /sys/fs/cgroup/unified 2>/dev/null || true

work=$(mktemp -d /var/tmp/mas-bench.XXXXXX)
port=$((20000 + RANDOM % 20000))
warm_port=$((port + 1))
daemon=
warm=
cleanup() {
    for pid in $daemon $warm; do
        kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
    done
    crun delete -f "mas-bench-$$" 2>/dev/null
    runc delete -f "mas-bench-$$" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT

# The same static program everywhere: busybox lies in /usr, which a sandbox sees too.
program="/usr/bin/busybox true"
mkdir -p "$work/bundle/rootfs/bin" "$work/bundle/rootfs/proc"
cp /usr/bin/busybox "$work/bundle/rootfs/bin/busybox"
make_bundle() { # $1: args as JSON
    (cd "$work/bundle" && rm -f config.json && runc spec &&
        sed -i "s/\"terminal\": true/\"terminal\": false/; s#^\t*\"sh\"#$1#" config.json)
}

"$build/mas-sandboxd" -listen "127.0.0.1:$port" --state-dir "$work/state" >/dev/null 2>"$work/log" &
daemon=$!
"$build/mas-sandboxd" -listen "127.0.0.1:$warm_port" --state-dir "$work/warm" \
    --warm-pool-size "${POOL:-32}" >/dev/null 2>"$work/warm.log" &
warm=$!
for p in $port $warm_port; do
    for _ in $(seq 100); do
        curl -fs "http://127.0.0.1:$p/healthz" >/dev/null && break
        sleep 0.05
    done
done
sleep 1 # the pool fills
id=$(curl -fs "http://127.0.0.1:$port/v1/sandboxes" -d '{}' |
    python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])')

make_bundle '"/bin/busybox","sleep","1000000"'
(cd "$work/bundle" && runc run -d "mas-bench-$$" >/dev/null 2>&1 </dev/null)
make_bundle '"/bin/busybox","true"'
cat >"$work/crun-run" <<X
#!/bin/sh
cd $work/bundle && exec crun run c\$\$
X
cat >"$work/runc-run" <<X
#!/bin/sh
cd $work/bundle && exec runc run r\$\$
X
chmod +x "$work/crun-run" "$work/runc-run"

"$build/bench/bench-compare" -n "${ITERATIONS:-20}" -r "${ROUNDS:-10}" \
    "bare fork+exec|spawn|$program" \
    "bwrap --unshare-all|spawn|bwrap --unshare-all --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp $program" \
    "crun run|spawn|$work/crun-run" \
    "runc run|spawn|$work/runc-run" \
    "runc exec|spawn|runc exec mas-bench-$$ /bin/busybox true" \
    "POST /v1/run, fresh sandbox|http|$port|/v1/run|{\"command\":[\"/usr/bin/busybox\",\"true\"]}" \
    "POST /v1/run, warm pool|http|$warm_port|/v1/run|{\"command\":[\"/usr/bin/busybox\",\"true\"]}" \
    "POST exec, running sandbox|http|$port|/v1/sandboxes/$id/exec|{\"command\":[\"/usr/bin/busybox\",\"true\"]}" \
    >"$work/result"

awk -F'\t' '
    { min[$1] = $2; med[$1] = $3; printf "%-44s %10d %10d\n", $1, $2, $3 }
    function ratio(a, b, want) {
        r = med[a] / med[b]
        printf "%-70s %7.3f   expected %s %s\n", a " / " b, r, want, r <= substr(want, 4) ? "" : "MISSED"
    }
    BEGIN { printf "%-44s %10s %10s\n", "what", "min us", "median us" }
    END {
        print ""
        ratio("POST /v1/run, fresh sandbox", "bwrap --unshare-all", "<= 0.4")
        ratio("POST exec, running sandbox", "runc exec", "<= 0.1")
        ratio("POST exec, running sandbox", "bare fork+exec", "<= 2")
        ratio("POST /v1/run, fresh sandbox", "crun run", "<= 0.15")
        ratio("POST /v1/run, fresh sandbox", "runc run", "<= 0.05")
        ratio("POST /v1/run, warm pool", "bwrap --unshare-all", "<= 0.3")
        ratio("POST /v1/run, warm pool", "bare fork+exec", "<= 3")
    }' "$work/result"
