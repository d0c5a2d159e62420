#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Our OCI runtimes against the same programs called by hand, interleaved. Needs root. ROUNDS (10).
# Usage: bench/oci.sh BUILD
set -eu
build=$(cd "$1" && pwd)
. "$(dirname "$0")/private-ns.sh"
BUILD=$build exec /usr/bin/python3 "$(dirname "$0")/oci.py"
