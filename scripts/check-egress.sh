#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The network of sandboxes: every script of tests/egress, over several runtimes. They make network namespaces of their own
# and so need root. Ends with one line: N passed, N failed. Usage: check-egress.sh BUILD; RUNTIMES is a list (local crun),
# EGRESS a list of scripts (test-*.py, of microvm two of them), MICROVM_CACHE where machines start from; JOBS: scripts at a time, one more
# than there are processors, because they wait much.
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/tap.sh

# One script over one runtime: its TAP goes to a file, what failed is shown.
if [ "$1" = --one ]; then
    output=$2 runtime=$3 script=$4
    # local-ids and local-alone are local with a daemon of an ordinary user.
    case $runtime in
    local-*) export MAS_EGRESS_USER="${runtime#local-}" MAS_RUNTIME=local ;;
    *) export MAS_RUNTIME="$runtime" ;;
    esac
    set -- /usr/bin/python3 "tests/egress/$script"
    case $runtime in
    # Engines of one kind share locks: not two at once.
    podman* | docker*) set -- flock "${output%/*}/${runtime%%-*}.lock" scripts/with-engine.sh "${runtime%%-*}" "$@" ;;
    esac
    began=$(date +%s)
    scripts/second-try.sh "$@" >"$output" 2>"$output.errors" </dev/null
    status=$?
    echo "# $(($(date +%s) - began)) s: $runtime: $script"
    case $status in
    0) grep -q '^ok' "$output" || echo "not ok - $script over $runtime has no cases" >>"$output" ;;
    77) echo "ok - $script over $runtime # SKIP $(sed -n 's/.*# SKIP //p' "$output")" >"$output" ;;
    esac
    [ $status = 77 ] || tap_end "$output" "$script over $runtime" $status
    tap_failures "$output"
    exit 0
fi

BUILD=$1
export BUILD
outputs=$(mktemp -d) || exit 1
trap 'rm -rf "$outputs"' EXIT
scripts=${EGRESS:-$(cd tests/egress && echo test-*.py)}
for runtime in ${RUNTIMES:-local crun}; do
    chosen=$scripts
    if [ "$runtime" = microvm ]; then
        # Links and authorities are another matter there; names go over the same frames as gVisor's, and its root has no clients.
        [ -n "${EGRESS:-}" ] || chosen="test-addresses.py test-intercept.py"
        export MAS_MICROVM_DIR="${MICROVM_CACHE:-/var/cache/mas-sandbox/microvm}"
        scripts/microvm/machine.sh "$MAS_MICROVM_DIR" "$BUILD" >/dev/null || exit 1
    fi
    for script in $chosen; do
        echo "$outputs/$runtime.$script" "$runtime" "$script"
    done
done >"$outputs/list"
xargs -P "${JOBS:-$(($(nproc) + 1))}" -n 3 scripts/check-egress.sh --one <"$outputs/list"
cat "$outputs"/*.py >"$outputs/all" 2>/dev/null
# A script that has left nothing to read has not run.
while read -r output runtime script; do
    [ -s "$output" ] || echo "not ok - $script over $runtime did not run" | tee -a "$outputs/all"
done <"$outputs/list"
skipped=$(grep -c '^ok .*# SKIP ' "$outputs/all")
passed=$(($(grep -c '^ok ' "$outputs/all") - skipped))
failed=$(grep -c '^not ok' "$outputs/all")
grep '^ok .*# SKIP ' "$outputs/all" | sed 's/^ok [0-9]* *- /skipped: /'
line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ] && [ $((passed + skipped)) -gt 0 ]
