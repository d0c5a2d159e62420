#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What other people's MCP programs say about the daemon: the protocol's conformance suite, its
# inspector and its SDK. They and the Node they need come from npm, in the versions of
# tests/mcp/package.json, into a cache directory (MCP_CACHE). Ends with one line: N passed, N failed.
# Usage: check-mcp.sh BUILD, or check-mcp.sh --install for that alone.
set -u
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
key=$(sha256sum "$here/tests/mcp/package.json" | cut -c1-16)
cache=${MCP_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mas-sandbox/mcp}/$key

# Installed beside and then moved: an install that was cut short is never taken for a whole one.
install() {
    command -v npm >/dev/null || "$here/scripts/install-deps.sh" mcp || return 1
    mkdir -p "$cache.new.$$" && cp "$here/tests/mcp/package.json" "$cache.new.$$" || return 1
    (cd "$cache.new.$$" && npm install --no-fund --no-audit --no-package-lock --ignore-scripts \
        --loglevel=error) || return 1
    mv -T "$cache.new.$$" "$cache" 2>/dev/null || [ -d "$cache/node_modules" ]
}

if [ ! -d "$cache/node_modules" ] && ! install; then
    rm -rf "$cache.new.$$"
    echo "check-mcp: what tests/mcp/package.json names could not be installed" >&2
    echo "0 passed, 1 failed"
    exit 1
fi
rm -rf "$cache.new.$$"
[ "$build" != --install ] || exit 0
BUILD=$build exec /usr/bin/python3 "$here/tests/mcp/check.py" "$cache/node_modules"
