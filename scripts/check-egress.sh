#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The network of sandboxes: the scripts of tests/egress, which make network namespaces of their own and so need root.
# Usage: check-egress.sh BUILD
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
passed=0 failed=0 skipped=0
for script in "$here"/tests/egress/test-*.py; do
    BUILD=$build /usr/bin/python3 "$script" >"$output" 2>&1
    status=$?
    cat "$output"
    if [ "$status" -eq 77 ]; then
        skipped=$((skipped + 1))
        continue
    fi
    good=$(grep -c '^ok ' "$output")
    bad=$(grep -c '^not ok ' "$output")
    # It ended badly, or without any case, and no case failed: something went wrong that it does not count.
    [ "$bad" -gt 0 ] || { [ "$status" -eq 0 ] && [ "$good" -gt 0 ]; } || bad=1
    passed=$((passed + good))
    failed=$((failed + bad))
done
if [ "$passed" -eq 0 ] && [ "$failed" -eq 0 ]; then
    echo "0 passed, 0 failed, $skipped skipped"
    exit 0
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
