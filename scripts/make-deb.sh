#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of this tree (what git knows, as it is now) into BUILD/deb.
# Usage: make-deb.sh BUILD
set -euo pipefail
source=$(realpath "$(dirname "$0")/..")
mkdir -p "$1/deb"
out=$(realpath "$1/deb")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/mas-sandbox"
if git -C "$source" rev-parse >/dev/null 2>&1; then
    (cd "$source" && git ls-files -z | xargs -0 -I{} sh -c '[ -e "$1" ] && printf "%s\0" "$1"' _ {}) >"$work/files"
    tar -C "$source" --null -T "$work/files" -c | tar -C "$work/mas-sandbox" -x
else # a release archive, or what is left of a clone: all but what was built
    tar -C "$source" --exclude='./build*' --exclude=./.git -c . | tar -C "$work/mas-sandbox" -x
fi
log=$out/build.log
if ! (cd "$work/mas-sandbox" && DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage -us -uc -b) >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    echo "make-deb.sh: dpkg-buildpackage failed; all of it is in $log" >&2
    exit 1
fi
rm -f "$out"/*.deb
mv "$work"/*.deb "$out/"
ls "$out"/*.deb
