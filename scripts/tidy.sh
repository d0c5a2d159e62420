#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy with the checks of .clang-tidy over the sources of a build directory. Usage: tidy.sh BUILD [FILE...]
set -u
build=$1
shift
cd "$(dirname "$0")/.." || exit 1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ $# -gt 0 ]; then printf '%s\0' "$@"; else find src -name '*.c' -print0; fi |
    xargs -0 -n 40 -P "$(nproc)" clang-tidy --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option >"$log" 2>&1
status=$?
grep -vE '^[0-9]+ warnings?( and [0-9]+ errors?)? generated|^Suppressed|^Use -' "$log"
[ $status = 0 ] && echo "clang-tidy: nothing found"
exit $status
