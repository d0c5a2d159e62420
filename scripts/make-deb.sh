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
    # Without a process per file: for two thousand files that took minutes on a busy machine.
    (cd "$source" && git ls-files -z | while IFS= read -r -d '' file; do
        if [ -e "$file" ]; then printf '%s\0' "$file"; fi
    done) >"$work/files"
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
