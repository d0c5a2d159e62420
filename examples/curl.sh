#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The native API by hand: a command in a sandbox of its own, then a sandbox that lasts with a file, a command whose output
# is followed while it runs, and its end.
#   MAS_SANDBOX_URL=http://127.0.0.1:8080 MAS_SANDBOX_TOKEN=... examples/curl.sh
set -eu
url=${MAS_SANDBOX_URL:-http://127.0.0.1:8080}

# request METHOD PATH [curl's options]
request() {
    method=$1 path=$2
    shift 2
    curl -sS --fail-with-body ${MAS_SANDBOX_TOKEN:+-H "Authorization: Bearer $MAS_SANDBOX_TOKEN"} \
        -X "$method" "$@" "$url$path"
}

# call METHOD PATH NAME [curl's options]: a text or number of the JSON that is answered, by its name (use jq where it is
# installed). An error ends the script and is shown.
call() {
    method=$1 path=$2 name=$3
    shift 3
    answer=$(request "$method" "$path" "$@") || { printf '%s\n' "$answer" >&2; exit 1; }
    printf '%s\n' "$answer" | member "$name"
}

member() {
    sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' | sed 's/\\n$//; s/\\n/\n/g'
}

output=$(call POST /v1/run stdout -d '{"command": ["echo", "hello"]}')
echo "one-shot: $output"

id=$(call POST /v1/sandboxes id -d '{"limits": {"memory_mb": 256}}')
trap 'call DELETE "/v1/sandboxes/$id" status >/dev/null' EXIT

script='for i in 1 2 3; do echo line $i; done; exit 3'
call PUT "/v1/sandboxes/$id/files/content?path=/workspace/job.sh" path --data-binary "$script" >/dev/null

# "async" answers at once. The log is the command's journal: it can be read from the start, again, or by others.
exec=$(call POST "/v1/sandboxes/$id/exec" exec_id -d '{"command": ["sh", "job.sh"], "async": true}')
request GET "/v1/sandboxes/$id/execs/$exec/logs?follow=1" --no-buffer | while read -r event; do
    case $event in
    *'"type":"output"'*) printf '%s\n' "$event" | member data ;;
    *'"type":"exit"'*) echo "exit code: $(printf '%s\n' "$event" | member exit_code)" ;;
    esac
done
