#!/bin/sh
# The suites over the OCI runtimes of this host, with the real programs. Needs root. Ends with one
# line "N passed, N failed". Usage: check-containers.sh [BUILD]; RUNTIMES="crun runc gvisor"
set -eu

cd "$(dirname "$0")/.."
BUILD=${1:-build}
export BUILD
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for runtime in ${RUNTIMES:-crun runc gvisor}; do
    echo "# runtime conformance: $runtime"
    python3 tests/runtime/test-conformance.py "$runtime" >>"$log" 2>&1 || true
    echo "# pause and resume: $runtime"
    MAS_RUNTIME=$runtime python3 tests/api/test-pause.py >>"$log" 2>&1 || true
done

grep '^not ok' -A 20 "$log" || true
passed=$(grep -c '^ok ' "$log" || true)
failed=$(grep -c '^not ok ' "$log" || true)
[ "$passed" -gt 0 ] || failed=$((failed + 1))
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
