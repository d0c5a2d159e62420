# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that run test scripts: what a script said on stdout is in FILE, as TAP, and on stderr in FILE.errors.

# tap_errors FILE: the end of what it said on stderr, as comments.
tap_errors() {
    tail -n 40 "$1.errors" | sed 's/^/# /'
}

# tap_end FILE NAME STATUS: a script that ended badly without a case that failed is a failure of its own: something went
# wrong that it does not count. What one said whose second try went well is kept with the line that says so.
tap_end() {
    if [ "$3" != 0 ]; then
        grep -q '^not ok' "$1" || { echo "not ok - $2 ended with $3" && tap_errors "$1"; } >>"$1"
    elif tail -n 1 "$1" | grep -q '^# unsteady: '; then
        tap_errors "$1" >>"$1"
    fi
}

# tap_failures FILE: every failure and every unsteady case, with the comments that say why. Those of a case stand before its
# line, those of a script after it.
tap_failures() {
    awk '
        /^# unsteady: / { printf "%s%s\n", why, $0; why = ""; after = /: the whole program/ ? 40 : 0; next }
        /^#/ { if (after > 0) { print; after-- } else why = why $0 "\n"; next }
        /^not ok/ { printf "%s%s\n", why, $0; why = ""; after = 40; next }
        { why = ""; after = 0 }' "$1"
}
