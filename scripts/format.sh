#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Formats all C sources by .clang-format, or says which are not formatted: format.sh write|check
# Versions of clang-format differ in details, so only version 14, Debian 12's, decides; elsewhere the exit status is 77.
set -eu
cd "$(dirname "$0")/.."
program=
for name in clang-format-14 clang-format; do
    if "$name" --version 2>/dev/null | grep -q 'version 14\.'; then
        program=$name
        break
    fi
done
if [ -z "$program" ]; then
    echo "clang-format 14 is not installed (Debian 12: apt install clang-format)" >&2
    exit 77
fi
sources() { find src tests fuzz bench examples docs -name '*.[ch]' -print0; }
case ${1:-} in
write) sources | xargs -0 "$program" -i ;;
check)
    unformatted=$(sources | xargs -0 -n 64 -P 2 "$program" --dry-run 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:.*clang-format-violations.*/\1/p' | sort -u)
    [ -z "$unformatted" ] && exit 0
    echo "not formatted by .clang-format (make format does it):" >&2
    echo "$unformatted" >&2
    exit 1 ;;
*) echo "usage: format.sh write|check" >&2; exit 2 ;;
esac
