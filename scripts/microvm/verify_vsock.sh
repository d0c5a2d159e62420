#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Asks the runner of a machine for a sum through its vsock socket, and says whether the answer is right.
#
# Variables: VSOCK_UDS   the socket (/tmp/firecracker.vsock)
#            VSOCK_PORT  the runner's port (5000)
#            CLIENT_BIN  mas-toolrunner-client (default: that of the build, or the installed one)
#            TIMEOUT     how long an answer may take (60s)
set -euo pipefail

source=$(realpath "$(dirname "$0")/../..")
client=${CLIENT_BIN:-$source/build/mas-toolrunner-client}
[ -x "$client" ] || client=mas-toolrunner-client
answer=$(echo '{"id":"verify","tool":"calculator","args":{"expression":"15*8+7"}}' |
    "$client" --vsock "${VSOCK_UDS:-/tmp/firecracker.vsock}" --port "${VSOCK_PORT:-5000}" --timeout "${TIMEOUT:-60s}")
echo "$answer"
case $answer in
*'"result":127'*) echo "the runner answers over vsock" ;;
*)
    echo "verify_vsock.sh: the answer is not 127" >&2
    exit 1
    ;;
esac
