#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# mas-kube against a real API server and etcd, and pods by a real kubelet and containerd: each script of tests/kube has
# servers of its own in namespaces of its own, and nothing is left on the host. Needs root, and the programs that
# `make kube-tools` makes once; without them it is one skip. Ends with one line: N passed, N failed[, N skipped].
# Usage: check-kube.sh BUILD [full]; KUBE is a list of scripts, KUBE_AT_ONCE how many of them run at the same time, KUBE_DIR
# where they are. With "full", also what takes longer than CI has: those that are named in $long, one after the other.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/tap.sh
BUILD=$(cd "$1" && pwd) || exit 1
export BUILD
[ "${2:-}" = full ] && export MAS_KUBE_FULL=1
tools=$(scripts/kube-tools.sh --where) || exit 1
# A program that does not match its sum was cut short or changed: it is not run.
for name in etcd kube-apiserver; do
    if ! (cd "$tools" 2>/dev/null && sha256sum --status -c "$name.sha256" 2>/dev/null); then
        echo "check-kube: there is no $name in $tools: \`make kube-tools\` makes it, once, in an hour" >&2
        echo "0 passed, 0 failed, 1 skipped"
        exit 0
    fi
done

outputs=$(mktemp -d) || exit 1
trap 'rm -rf "$outputs"' EXIT
folder=${KUBE_DIR:-tests/kube}
# Each script starts seven servers: more of them at once than this only wait for each other.
at_once=${KUBE_AT_ONCE:-3}
long="test-conformance.py test-inside.py test-security.py test-stream.py"
# Long ones first, so that the last to end is a short one.
first="test-runtime.py test-losses.py test-broker.py test-pod.py"
scripts=${KUBE:-$(cd "$folder" && { ls -U $first; ls test-*.py | grep -vxF "$(printf '%s\n' $long $first)"; } 2>/dev/null)}

kube_run() {
    local script=$1 output=$outputs/$1 began=$SECONDS status
    scripts/second-try.sh timeout 1800 /usr/bin/python3 "$folder/$script" >"$output" 2>"$output.errors" </dev/null
    status=$?
    case $status in
    0) grep -q '^ok' "$output" || echo "not ok - $script has no cases" >>"$output" ;;
    77) echo "ok - $script # SKIP $(sed -n 's/.*# SKIP //p' "$output")" >"$output" ;;
    esac
    [ $status = 77 ] || tap_end "$output" "$script" $status
    echo "# $((SECONDS - began)) s: $script"
}

for script in $scripts; do
    while [ "$(jobs -rp | wc -l)" -ge "$at_once" ]; do wait -n; done
    kube_run "$script" &
done
wait
if [ "${2:-}" = full ] && [ -z "${KUBE:-}" ]; then
    for script in $long; do
        kube_run "$script"
    done
fi
cat "$outputs"/*.py >"$outputs/all"
tap_failures "$outputs/all"
skipped=$(grep -c '^ok .*# SKIP ' "$outputs/all")
passed=$(($(grep -c '^ok ' "$outputs/all") - skipped))
failed=$(grep -c '^not ok' "$outputs/all")
grep '^ok .*# SKIP ' "$outputs/all" | sed 's/^ok [0-9]* *- /skipped: /'
line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ] && [ $((passed + skipped)) -gt 0 ]
