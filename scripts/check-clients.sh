#!/bin/sh
# The MAS library itself, unmodified from the Go module proxy, runs its sandbox example against the daemon in both of its
# modes. It is built into a cache directory (CLIENTS_CACHE) in the versions below: the one of litellm that the library
# pins does not compile. Ends with one line: N passed, N failed[, N skipped].
# Usage: check-clients.sh BUILD
set -u
build=$1
here=$(cd "$(dirname "$0")/.." && pwd)
mas=github.com/voocel/mas@ae06985
litellm=github.com/voocel/litellm@v1.3.2
cache=${CLIENTS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mas-sandbox/clients}/${mas##*@}-${litellm##*@}

# 1.25 is what the library's go.mod asks for.
version=$(go env GOVERSION 2>/dev/null)
minor=$(expr "$version" : 'go1\.\([0-9]*\)')
if [ "${minor:-0}" -lt 25 ]; then
    echo "check-clients: Go 1.25 or newer is not on PATH (${version:-there is none}): the MAS library was not run" >&2
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

# Built beside and then moved: a build that was cut short is never taken for a whole one.
build_agent() {
    mkdir -p "$cache.new.$$" && cd "$cache.new.$$" || return 1
    go mod init clients && go get "$mas" "$litellm" &&
        go build -o sandbox_agent github.com/voocel/mas/examples/sandbox_agent || return 1
    mv -T "$cache.new.$$" "$cache" 2>/dev/null || [ -x "$cache/sandbox_agent" ]
}

if [ ! -x "$cache/sandbox_agent" ] && ! (build_agent); then
    rm -rf "$cache.new.$$"
    echo "check-clients: $mas could not be fetched or built" >&2
    echo "0 passed, 1 failed"
    exit 1
fi
rm -rf "$cache.new.$$"
BUILD=$build exec python3 "$here/tests/clients/check.py" "$cache/sandbox_agent"
