#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The network of sandboxes: tests/egress, which makes network namespaces of its own and so needs root.
# Usage: check-egress.sh BUILD
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
BUILD=$build /usr/bin/python3 "$here/tests/egress/test-egress.py" >"$output" 2>&1
status=$?
cat "$output"
if [ "$status" -eq 77 ]; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
passed=$(grep -c '^ok ' "$output")
failed=$(grep -c '^not ok ' "$output")
# It ended badly without a case that failed: something went wrong that it does not count.
[ "$status" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
