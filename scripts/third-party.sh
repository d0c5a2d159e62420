#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the terms of what is compiled into our programs and is not ours, from the packages that it came from.
# Libraries that are loaded at start are not among it: they come with terms of their own.
# Usage: third-party.sh OUTPUT
set -eu
out=$1
{
    echo "What these programs contain of others, and under which terms."
    part() { # $1: what it is and where it went, then names of packages, of which one is installed
        what=$1
        shift
        for package in "$@"; do
            [ -f "/usr/share/doc/$package/copyright" ] || continue
            printf '\n======== %s (Debian package %s %s)\n\n' "$what" "$package" \
                "$(dpkg-query -W -f '${Version}' "$package" 2>/dev/null || echo unknown)"
            cat "/usr/share/doc/$package/copyright"
            return
        done
    }
    # Where Debian has the library itself, it is linked and not compiled in.
    [ -f /usr/share/doc/libllhttp-dev/copyright ] || part "llhttp, in mas-sandboxd" node-llhttp
    part "musl, in mas-toolrunner" musl-dev musl
    part "jansson, in mas-toolrunner" libjansson-dev libjansson4
    part "busybox, in default-image.tar" busybox-static
} >"$out.new"
mv "$out.new" "$out"
