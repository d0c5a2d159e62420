#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes a build directory unless there is one; what Meson says is shown only when it fails.
# Usage: configure.sh BUILD [MESON OPTION ...]
set -u
build=$1
shift
[ -f "$build/build.ninja" ] && exit 0
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
meson setup "$build" "$@" >"$log" 2>&1 && exit 0
cat "$log" >&2
echo "configure.sh: Meson could not set up $build" >&2
exit 1
