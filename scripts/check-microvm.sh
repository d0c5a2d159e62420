#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Virtual machines by software emulation: makes what they start from, of Debian packages, and runs the conformance suite
# and their own over them. Needs root. Ends with one line: N passed, N failed. Usage: check-microvm.sh BUILD [full]
# With "full", every guest that does harm, a hundred machines in a row, and the suites of check-guest as well.
# MICROVM_CACHE: where that is kept (/var/cache/mas-sandbox/microvm).
set -u
cd "$(dirname "$0")/.." || exit 1
. scripts/tap.sh
export BUILD=$1
export MAS_MICROVM_DIR=${MICROVM_CACHE:-/var/cache/mas-sandbox/microvm}

passed=0 failed=0 skipped=0
output=$(mktemp) || exit 1
trap 'rm -f "$output" "$output.errors"' EXIT
if ! scripts/microvm/machine.sh "$MAS_MICROVM_DIR" "$BUILD"; then
    echo "not ok - what machines start from can be made"
    echo "0 passed, 1 failed"
    exit 1
fi
run() {
    local began=$SECONDS
    scripts/second-try.sh "$@" >"$output" 2>"$output.errors" </dev/null
    tap_end "$output" "$*" $?
    tap_failures "$output"
    echo "# $((SECONDS - began)) s: $*"
    skipped=$((skipped + $(grep -c '^ok .*# SKIP ' "$output")))
    passed=$((passed + $(grep '^ok ' "$output" | grep -vc '# SKIP ')))
    failed=$((failed + $(grep -c '^not ok' "$output")))
}
[ "${2:-}" = full ] && export MAS_MICROVM_FULL=1
run /usr/bin/python3 tests/microvm/test-microvm.py
run /usr/bin/python3 tests/microvm/test-snapshots.py
run /usr/bin/python3 tests/microvm/test-shares.py
# What one with a network by address reaches and does not; check-egress-full has all of it.
run env MAS_RUNTIME=microvm /usr/bin/python3 tests/egress/test-addresses.py "TCP to"
run /usr/bin/python3 tests/security/test-processes.py microvm
run /usr/bin/python3 tests/microvm/test-machine-config.py
run /usr/bin/python3 tests/microvm/test-firecracker.py
run /usr/bin/python3 tests/microvm/test-scripts.py
run /usr/bin/python3 tests/runtime/test-conformance.py microvm
[ "${2:-}" = full ] && run /usr/bin/python3 tests/microvm/test-hundred.py
[ "${2:-}" = full ] && run scripts/check-guest.sh "$BUILD"
line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
