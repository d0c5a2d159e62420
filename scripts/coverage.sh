#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds with gcov in build-coverage, runs the tests and prints which share of its lines each folder of src reached.
# Usage: coverage.sh [TEST...]   SUITES="unit api" runs these suites only; without either, all that make check runs.
# What a process did counts once it ends by exit(): runners and helpers that are killed are shown as less than they are.
set -u
cd "$(dirname "$0")/.." || exit 1
build=build-coverage
scripts/configure.sh $build -Db_coverage=true || exit 1
ninja -C $build || exit 1
find $build -name '*.gcda' -delete
suites=
for suite in ${SUITES:-}; do
    suites="$suites --suite $suite"
done
# Other users' processes write their counts beside root's.
chmod -R a+rwX $build 2>/dev/null
# shellcheck disable=SC2086
meson test -C $build --no-rebuild --num-processes "${JOBS:-$(($(nproc) + 1))}" --timeout-multiplier 5 $suites "$@" >$build/coverage-tests.log 2>&1
status=$?
sed -n '/^Ok:/p; /^Fail:/p; /^Timeout:/p' $build/coverage-tests.log
gcovr --root . --filter src/ --object-directory $build --gcov-ignore-parse-errors --csv $build 2>$build/coverage-gcovr.log |
    awk -F, 'NR > 1 { split($1, p, "/"); lines[p[2]] += $2; reached[p[2]] += $3; all += $2; got += $3 }
        END { for (d in lines) printf "%-20s %6d lines %5.1f %%\n", "src/" d, lines[d], 100 * reached[d] / (lines[d] ? lines[d] : 1) | "sort"
              close("sort"); if (!all) { print "no counts: see '$build'/coverage-gcovr.log"; exit 1 }
              printf "%-20s %6d lines %5.1f %%\n", "all", all, 100 * got / all }' || status=1
exit $status
