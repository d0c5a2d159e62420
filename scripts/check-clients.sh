#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Clients of the source systems against the daemon: our own decoder of their contracts in Go, with the exact types that
# their clients have, and the MAS library itself, unmodified from the Go module proxy, which runs its sandbox example in
# both of its modes. The library is built into a cache directory (CLIENTS_CACHE) in the versions below: the one of litellm
# that it pins does not compile. Ends with one line: N passed, N failed[, N skipped].
# Usage: check-clients.sh BUILD
set -u
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
mas=github.com/voocel/mas@ae06985
litellm=github.com/voocel/litellm@v1.3.2
cache=${CLIENTS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/mas-sandbox/clients}/${mas##*@}-${litellm##*@}

# 1.25 is what the library's go.mod asks for.
version=$(go env GOVERSION 2>/dev/null)
minor=$(expr "$version" : 'go1\.\([0-9]*\)')
if [ "${minor:-0}" -lt 25 ]; then
    echo "check-clients: Go 1.25 or newer is not on PATH (${version:-there is none}): no client was run" >&2
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/contracts" && cp "$here/tests/clients/contracts/main.go" "$work/contracts/" || exit 1
(cd "$work/contracts" && go mod init contracts && go build -o "$work/decoder" .) >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    echo "0 passed, 1 failed"
    exit 1
}

# Built beside and then moved: a build that was cut short is never taken for a whole one. Exit status 2: it cannot be had.
build_agent() {
    mkdir -p "$work/mas" && cd "$work/mas" || return 1
    go mod init clients && { go get "$mas" "$litellm" || return 2; }
    go build -o sandbox_agent github.com/voocel/mas/examples/sandbox_agent || return 1
    mkdir -p "${cache%/*}" && { mv -T "$work/mas" "$cache" 2>/dev/null || [ -x "$cache/sandbox_agent" ]; }
}
agent=$cache/sandbox_agent
if [ ! -x "$agent" ]; then
    (build_agent) >"$work/log" 2>&1
    case $? in
    0) ;;
    2) agent= ;;
    *)
        cat "$work/log" >&2
        echo "0 passed, 1 failed"
        exit 1
        ;;
    esac
fi
[ -n "$agent" ] || echo "check-clients: skipped: the module proxy does not give $mas: $(tail -n 1 "$work/log")" >&2
BUILD=$build /usr/bin/python3 "$here/tests/clients/check.py" "$work/decoder" "$agent"
