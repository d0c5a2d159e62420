#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The suites over the OCI runtimes and container engines of this host, with the real programs, images from a
# real registry, and the runtimes' config.json against the specification's schema. Needs root, and npm for the
# validator. Ends with one line: N passed, N failed. Usage: check-containers.sh [BUILD]; RUNTIMES="gvisor crun runc"
# ENGINES="podman docker"; docker-gvisor is another, which takes three minutes more; ENGINES_MORE=1: what else they pass.
# JOBS: suites at a time. check-containers.sh --install: the validator alone.
set -u

cd "$(dirname "$0")/.." || exit 1
. scripts/tap.sh
BUILD=${1:-build}
export BUILD
cache=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mas-sandbox/oci/$(sha256sum tests/oci/package.json | cut -c1-16)
# Where a suite's list is, and who reads it.
if [ "$BUILD" = --list ]; then
    BUILD=$CHECK_BUILD list=$2
else
    log=$(mktemp) list=
    trap 'rm -rf "$log" "$log".* "$cache.new.$$"' EXIT
fi

# Installed beside and then moved: an install that was cut short is never taken for a whole one.
install_validator() {
    [ -d "$cache/node_modules" ] && return
    command -v npm >/dev/null || scripts/install-deps.sh mcp || return 1
    mkdir -p "$cache.new.$$" && cp tests/oci/package.json "$cache.new.$$" || return 1
    (cd "$cache.new.$$" && npm install --no-fund --no-audit --no-package-lock --ignore-scripts \
        --loglevel=error) || return 1
    mv -T "$cache.new.$$" "$cache" 2>/dev/null || [ -d "$cache/node_modules" ]
}

# A program that prints TAP; one that ends without it has failed.
now() {
    began=$(date +%s)
    scripts/second-try.sh "$@" >"$log" 2>"$log.errors" </dev/null
    status=$?
    echo "# $(($(date +%s) - began)) s: ${MAS_RUNTIME:+$MAS_RUNTIME: }$*"
    tap_end "$log" "$*" $status
    tap_failures "$log"
    rm -f "$log.errors"
}

if [ "$list" ]; then
    while read -r log MAS_RUNTIME command; do
        export MAS_RUNTIME
        [ "$MAS_RUNTIME" != - ] || unset MAS_RUNTIME
        # shellcheck disable=SC2086
        now $command
    done <"$list"
    exit 0
fi

# Puts a suite on a list. Suites of one list are not run at once: engines of one kind share locks, and what one user may
# have can be used up once only, because daemons give out the same users.
run() {
    suites=$((suites + 1))
    case $* in
    *with-engine.sh\ podman* | *test-engine.py\ podman) list=podman ;;
    *with-engine.sh\ docker* | *test-engine.py\ docker) list=docker ;;
    *test-abuse.py) list=abuse ;;
    *) list=$suites ;;
    esac
    [ -e "$log.list.$list" ] || echo "$log.list.$list" >>"$log.lists"
    echo "$log.tap.$suites ${MAS_RUNTIME:--} $*" >>"$log.list.$list"
}

if [ "$BUILD" = --install ]; then
    install_validator
    exit
fi
if install_validator; then
    "$BUILD/tests/unit/oci-config" >"$log.configs"
    # shellcheck disable=SC2016
    (configs=$log.configs log=$log.tap.0; now sh -c 'exec node tests/oci/validate.js "$0/node_modules" <"$1"' "$cache" "$configs")
    rm -f "$log.configs"
else
    echo "not ok - the validator of tests/oci/package.json could not be installed" | tee "$log.tap.0"
fi

over_oci() {
    for runtime in "$@"; do
        run /usr/bin/python3 tests/runtime/test-conformance.py "$runtime"
        export MAS_RUNTIME="$runtime"
        run /usr/bin/python3 tests/api/test-pause.py
        run /usr/bin/python3 tests/runtime/test-oci.py
        run /usr/bin/python3 tests/runtime/test-oci-death.py
        run /usr/bin/python3 tests/security/test-escape.py
        run env MAS_IMAGE=1 /usr/bin/python3 tests/security/test-escape.py
        run /usr/bin/python3 tests/runtime/test-conformance.py --image "$runtime"
        run /usr/bin/python3 tests/fault/test-restart.py
        run /usr/bin/python3 tests/security/test-mounts.py
        run /usr/bin/python3 tests/security/test-abuse.py
        run /usr/bin/python3 tests/security/test-death.py
        unset MAS_RUNTIME
    done
}

# Engines of our own, with private directories; what they have in common with the others, then what is
# theirs alone.
over_engines() {
    for runtime in "$@"; do
        export MAS_RUNTIME="$runtime"
        engine=${runtime%%-*}
        for suite in "tests/runtime/test-conformance.py $runtime" tests/api/test-pause.py tests/security/test-escape.py \
            tests/security/test-mounts.py ${ENGINES_MORE:+tests/fault/test-restart.py tests/security/test-abuse.py}; do
            # shellcheck disable=SC2086
            run scripts/with-engine.sh "$engine" /usr/bin/python3 $suite
        done
        run env MAS_IMAGE=1 scripts/with-engine.sh "$engine" /usr/bin/python3 tests/security/test-escape.py
        unset MAS_RUNTIME
        [ "$engine" != "$runtime" ] || run /usr/bin/python3 tests/runtime/test-engine.py "$engine"
    done
}

# One list more at a time than there are processors, because many suites wait; long ones first.
suites=0
# shellcheck disable=SC2086
put_on_lists() {
    over_engines ${ENGINES-podman docker}
    run /usr/bin/python3 tests/runtime/test-daemon-image.py
    run /usr/bin/python3 tests/image/test-registry.py
    run /usr/bin/python3 tests/image/test-registry-user.py
    run /usr/bin/python3 tests/image/test-pull-progress.py
    run /usr/bin/python3 tests/image/test-hostile-registry.py
    over_oci ${RUNTIMES-gvisor crun runc}
}
put_on_lists
CHECK_BUILD=$BUILD xargs -P "${JOBS:-$(($(nproc) + 1))}" -n 1 scripts/check-containers.sh --list <"$log.lists"
cat "$log".tap.* >"$log"
# A suite that has left nothing to read has not run.
ran=$(find "$log".tap.* -size +0 | wc -l)
[ "$ran" = $((suites + 1)) ] || echo "not ok - $ran of $((suites + 1)) suites ran" | tee -a "$log"

skipped=$(grep -c '^ok .*# SKIP ' "$log")
passed=$(($(grep -c '^ok ' "$log") - skipped))
failed=$(grep -c '^not ok' "$log")
grep '^ok .*# SKIP ' "$log" | sed 's/^ok [0-9]* - /skipped: /'
line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
