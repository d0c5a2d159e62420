#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds and runs every test of a build directory, one after another where they need the machine to
# themselves, else one more at a time than there are processors (JOBS): many wait. Ends with one line: N passed,
# N failed[, N skipped].
set -u
build=$1
ninja -C "$build" || exit 1
# Meson puts the wrapper's name into the report's.
report=$build/meson-logs/testlog-second-try.sh.junit.xml
rm -f "$report"
ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0} \
    meson test -C "$build" --wrapper "$(cd "$(dirname "$0")" && pwd)/second-try.sh" --print-errorlogs --no-rebuild --num-processes "${JOBS:-$(($(nproc) + 1))}" --timeout-multiplier 3
status=$?
exec "$(dirname "$0")/count-tests.py" "$report" $status
