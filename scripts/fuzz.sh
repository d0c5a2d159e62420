#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds every fuzz target with clang, ASan and UBSan and runs each for FUZZ_SECONDS (600), two at a
# time. FUZZ names a subset. Prints what each one did; a crash fails and leaves its input in
# fuzz/corpus-run.
set -eu
cd "$(dirname "$0")/.."
CC=clang CFLAGS=-fsanitize=fuzzer-no-link scripts/configure.sh build-fuzz -Db_sanitize=address,undefined -Db_lundef=false
targets=${FUZZ:-$(cd fuzz && ls fuzz-*.c | sed 's/fuzz-//; s/\.c//') disconnect}
# disconnect is a script against the daemon itself, built the same way.
# shellcheck disable=SC2086
ninja -C build-fuzz $(printf '%s\n' $targets | sed '/^disconnect$/! s,^,fuzz/fuzz-,
    s/^disconnect$/mas-sandboxd mas-warden mas-toolrunner mas-tool-net mas-engine mas-oci mas-intercept/')

one() {
    name=$1
    if [ "$name" = disconnect ]; then
        mkdir -p fuzz/corpus-run
        if BUILD=build-fuzz fuzz/disconnect.py >fuzz/corpus-run/disconnect.log 2>&1; then
            echo "disconnect: clean, $(sed -n 's/^# \([0-9]* connections\).*/\1/p' fuzz/corpus-run/disconnect.log)"
            return 0
        fi
        echo "disconnect: FAILED, see fuzz/corpus-run/disconnect.log"
        return 1
    fi
    mkdir -p "fuzz/corpus-run/$name"
    if build-fuzz/fuzz/fuzz-$name -max_total_time="${FUZZ_SECONDS:-600}" -print_final_stats=1 \
        -rss_limit_mb=4096 -artifact_prefix="fuzz/corpus-run/$name-" "fuzz/corpus-run/$name" \
        "fuzz/corpus/$name" >"fuzz/corpus-run/$name.log" 2>&1; then
        runs=$(awk '/number_of_executed_units/ {print $2}' "fuzz/corpus-run/$name.log")
        echo "$name: clean, $runs executions, corpus $(ls "fuzz/corpus-run/$name" | wc -l) inputs"
    else
        echo "$name: FAILED, see fuzz/corpus-run/$name.log"
        return 1
    fi
}
export -f one
printf '%s\n' $targets | xargs -P 2 -I{} bash -c 'one {}'
