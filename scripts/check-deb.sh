#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of `make deb` in bare Debian roots and uses them: install, start, run, upgrade under a living
# sandbox, remove, purge; nothing may be left. There is no systemd in such a root: the daemon is started by hand.
#
# Usage: check-deb.sh [SUITE ...]   default: bookworm trixie. Needs root. Ends with "N passed, N failed".
set -euo pipefail
. "$(dirname "$0")/bare-root.sh"
[ $# -gt 0 ] || set -- bookworm trixie

# In the root. $1: the packages of this version, $2: the same with a higher number.
use_packages() {
    cat <<'IN_ROOT'
set -eu
step() { echo "ok - $1"; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages \) -prune -o -print | sort >/tmp/before
apt-get install -y -qq --no-install-recommends /packages/one/*.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
step "the packages install"
mas-sandboxd --config /etc/mas-sandbox/config.yaml --check-config
mas-sandboxd --config /etc/mas-sandbox/config.yaml >/tmp/daemon.log 2>&1 &
daemon=$!
for _ in $(seq 100); do sbx run -addr http://127.0.0.1:8080 -- true >/dev/null 2>&1 && break; sleep 0.1; done
[ "$(sbx run -addr http://127.0.0.1:8080 -- echo hello)" = hello ]
step "a daemon with the packaged configuration runs a command"
id=$(sbx create -addr http://127.0.0.1:8080 | sed 's/^id=\([^ ]*\).*/\1/')
sbx exec -addr http://127.0.0.1:8080 -id "$id" -stream -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 1; done' >/tmp/out &
stream=$!
sleep 1
apt-get install -y -qq --no-install-recommends /packages/two/*.deb >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
sbx upgrade -addr http://127.0.0.1:8080
sbx exec -addr http://127.0.0.1:8080 -id "$id" -sync -- true
wait $stream || true
sbx logs -addr http://127.0.0.1:8080 -id "$id" -f >/tmp/again 2>/dev/null || true
step "an upgrade leaves a sandbox with a running command alive"
sbx delete -addr http://127.0.0.1:8080 -id "$id" >/dev/null
kill $daemon
wait $daemon || true
apt-get remove -y -qq mas-sandbox mas-sandbox-cli libsbx0 libsbx-dev mas-sandbox-doc >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
[ -f /etc/mas-sandbox/config.yaml ] && [ ! -e /usr/sbin/mas-sandboxd ]
step "removed, the configuration stays"
dpkg --purge mas-sandbox mas-sandbox-cli libsbx0 libsbx-dev mas-sandbox-doc >/tmp/log 2>&1 || { cat /tmp/log; exit 1; }
find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages \) -prune -o -print | sort >/tmp/after
left=$(comm -13 /tmp/before /tmp/after | grep -E 'mas-|sbx|sandbox' || true)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
step "purged, nothing is left"
IN_ROOT
}

passed=0 failed=0
for suite in "$@"; do
    bare_root "$suite" || { failed=$((failed + 1)); continue; }
    build=$(new_root "$suite")
    for version in one two; do
        [ $version = one ] || sed -i '1s/(\(.*\))/(\1+next)/' "$build/src/debian/changelog"
        in_root "$build" make deb >"$cache/$suite-deb.log" 2>&1 || {
            tail -n 30 "$cache/$suite-deb.log"
            echo "not ok - $suite: make deb"
            failed=$((failed + 1))
            rm -rf --one-file-system "$build"
            continue 2
        }
        mkdir -p "$build/$version" && mv "$build"/src/build/deb/*.deb "$build/$version/"
    done
    use=$(new_root "$suite")
    mkdir "$use/packages" && cp -r "$build/one" "$build/two" "$use/packages/"
    use_packages >"$use/use.sh"
    log=$cache/$suite-packages.log
    in_root "$use" sh /use.sh >"$log" 2>&1 || echo "not ok - $suite: $(tail -n 5 "$log" | tr '\n' ' ')" >>"$log"
    grep -E '^(not )?ok ' "$log" | sed "s/- /- $suite: /"
    passed=$((passed + $(grep -c '^ok ' "$log" || true)))
    failed=$((failed + $(grep -c '^not ok ' "$log" || true)))
    rm -rf --one-file-system "$build" "$use"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
