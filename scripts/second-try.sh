#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a test program, and with MAS_TRY_AGAIN a second time when the first ended badly. What passes then is named as
# "# unsteady: …": `.ci/run` counts these lines and bears few of them. The output of the first try goes to stderr.
# The cases of a Python script have a second try each, by tests/lib: such a script is repeated only when it ended badly
# without a case that failed, as it does when its daemon or its servers do not start.
# Usage: second-try.sh PROGRAM [ARGUMENT ...]
set -u
[ -n "${MAS_TRY_AGAIN:-}" ] || exec "$@"
output=$(mktemp) || exit 1
trap 'rm -f "$output"' EXIT
"$@" >"$output"
status=$?
# 77 is a skip, and 124 a time that ran out: a second try would take as long again.
case $status in
0 | 77 | 124) again=no ;;
*) case "$*" in
    *.py*) grep -q '^not ok' "$output" && again=no || again=yes ;;
    *) again=yes ;;
    esac ;;
esac
if [ $again = yes ]; then
    sed 's/^/# first try: /' "$output" >&2
    echo "# first try: $* ended with status $status" >&2
    "$@" >"$output"
    status=$?
    [ $status -ne 0 ] || echo "# unsteady: $*: the whole program, which ended badly at first" >>"$output"
fi
cat "$output"
exit $status
