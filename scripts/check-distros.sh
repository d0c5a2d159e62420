#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the README's two commands, `make demo` and `make check`, in bare roots of Debian releases: what they need must
# come from the project's own files. Each root has apt, make and nothing else of ours.
#
# Usage: check-distros.sh [SUITE ...]   default: bookworm trixie. Needs root. Ends with "N passed, N failed".
# DISTROS_CACHE keeps the bare roots (default /var/cache/mas-sandbox/distros); KEEP=1 leaves the used ones in place.
set -euo pipefail
. "$(dirname "$0")/bare-root.sh"
[ $# -gt 0 ] || set -- bookworm trixie

passed=0 failed=0
try() {
    local suite=$1 tree=$2 target=$3 log=$cache/$1-$3.log
    if in_root "$tree" make "$target" >"$log" 2>&1 </dev/null; then
        echo "ok - $suite: make $target: $(tail -n 1 "$log")"
        passed=$((passed + 1))
    else
        tail -n 40 "$log"
        echo "not ok - $suite: make $target (all of it: $log)"
        failed=$((failed + 1))
    fi
}

for suite in "$@"; do
    if ! bare_root "$suite"; then
        failed=$((failed + 1))
        continue
    fi
    tree=$(new_root "$suite")
    try "$suite" "$tree" demo
    try "$suite" "$tree" check
    [ -n "${KEEP:-}" ] || rm -rf --one-file-system "$tree"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
