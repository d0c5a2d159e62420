#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Uses the packages in /packages/one and, with a higher number, in /packages/two as an administrator would: install,
# run, upgrade under a living sandbox, remove, purge; nothing may be left. Where systemd is PID 1 the unit does it;
# elsewhere the daemon is started by hand. Prints a line per step, "ok - WHAT", and ends at the first that fails.
set -eu
export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
names="mas-sandbox mas-sandbox-cli libsbx0 libsbx-dev mas-sandbox-doc"
log=$(mktemp)
step() { echo "ok - $1"; }
quiet() { "$@" >"$log" 2>&1 || { cat "$log"; echo "not ok - $*"; exit 1; }; }
files() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages \) -prune -o -print | sort; }
control_pid() { grep -lszx -- '--[c]ontrol-stage' /proc/[0-9]*/cmdline | cut -d / -f 3; }
# wait_until COMMAND...: for at most two minutes.
wait_until() {
    end=$(($(date +%s) + 120))
    while [ "$(date +%s)" -lt $end ]; do "$@" && return; sleep 0.1; done
    echo "not ok - this never became true: $*"
    [ ! "$systemd" ] || journalctl -n 20 --no-pager -u mas-sandboxd.service
    exit 1
}
runs_hello() { [ "$(sbx run -- echo hello 2>/dev/null)" = hello ]; }
other_control_plane() { pid=$(control_pid) && [ -n "$pid" ] && [ "$pid" != "$1" ]; }

systemd=
[ -d /run/systemd/system ] && systemd=yes
files >/tmp/before
if [ $systemd ]; then quiet dpkg -i /packages/one/*.deb; else quiet apt-get install -y -qq --no-install-recommends /packages/one/*.deb; fi
step "the packages install"

mas-sandboxd --config /etc/mas-sandbox/config.yaml --check-config
if [ $systemd ]; then
    quiet systemctl is-active mas-sandboxd.service
    quiet systemctl is-enabled mas-sandboxd.service
    step "the unit is enabled, and has started the daemon"
else
    mas-sandboxd --config /etc/mas-sandbox/config.yaml >/tmp/daemon.log 2>&1 &
    daemon=$!
fi
wait_until runs_hello
step "a daemon with the packaged configuration runs a command"

id=$(sbx create | sed 's/^id=\([^ ]*\).*/\1/')
sbx exec -id "$id" -sync -- sh -c 'echo kept >file'
sbx exec -id "$id" -- sh -c 'until [ -e go ]; do sleep 0.1; done; echo went' >/tmp/exec
exec=$(sed 's/^exec_id=\([^ ]*\).*/\1/' /tmp/exec)
before=$(control_pid)
if [ $systemd ]; then
    quiet systemctl reload mas-sandboxd.service
    quiet systemctl is-active mas-sandboxd.service
    wait_until runs_hello
    [ "$(control_pid)" = "$before" ]
    step "a reload without another program leaves the control plane as it is"
    quiet dpkg -i /packages/two/*.deb # which asks for a reload by itself
else
    quiet apt-get install -y -qq --no-install-recommends /packages/two/*.deb
    quiet sbx upgrade
fi
wait_until other_control_plane "$before"
wait_until runs_hello
step "an upgrade puts another control plane in the place of the old one"
[ "$(sbx exec -id "$id" -sync -- cat file)" = kept ]
sbx exec -id "$id" -sync -- touch go
[ "$(sbx logs -id "$id" -exec-id "$exec" -f)" = went ]
step "a sandbox and its running command live on over the upgrade"
sbx delete -id "$id" >/dev/null

if [ ! $systemd ]; then
    kill $daemon
    wait $daemon || true
fi
quiet apt-get remove -y -qq $names
[ -f /etc/mas-sandbox/config.yaml ] && [ ! -e /usr/sbin/mas-sandboxd ]
[ -z "$(control_pid)" ]
step "removed: no process is left, the configuration stays"
quiet dpkg --purge $names
[ ! $systemd ] || quiet systemctl daemon-reload
files >/tmp/after
left=$(comm -13 /tmp/before /tmp/after | grep -E 'mas-|sbx|sandbox' || true)
[ -z "$left" ] || { echo "not ok - left behind: $left"; exit 1; }
if grep -E 'mas-|sandbox' /proc/self/mounts; then echo "not ok - a mount is left"; exit 1; fi
step "purged: no file and no mount is left"
