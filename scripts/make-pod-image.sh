#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes one of the images that pods of sandboxes have, without an engine, in BUILD:
#   link   mas-link-oci.tar, mas-sandbox-link:VERSION: the static programs of the containers that are ours, and nothing else
#          (kube_link_image)
#   stream mas-stream-oci.tar, mas-sandbox-stream:VERSION: the static program of the container that brings output
#          (stream_sidecar_image)
#   base   mas-base-oci.tar, mas-sandbox-base:VERSION: the root file system that sandboxes without an image have elsewhere
# Usage: make-pod-image.sh BUILD link|stream|base
set -euo pipefail
[ $# = 2 ] || { echo "usage: make-pod-image.sh BUILD link|stream|base" >&2; exit 2; }
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
. "$source/scripts/oci-archive.sh"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

# Static programs, stripped.
put_programs() {
    local program
    for program; do
        # A program that asks for a loader finds none in there.
        if readelf -l "$build/$program" | grep -q 'INTERP'; then
            echo "make-pod-image.sh: $build/$program is not static" >&2
            exit 1
        fi
        install -m 755 "$build/$program" "$tree/$program"
        strip --strip-all --remove-section=.note.gnu.build-id "$tree/$program"
    done
}

make_link() {
    put_programs mas-link mas-link-tls mas-toolrunner
    oci_archive "$tree" "mas-sandbox-link:$version" '"Entrypoint":["/mas-link"]' "$build/mas-link-oci.tar"
}

make_stream() {
    put_programs mas-stream
    oci_archive "$tree" "mas-sandbox-stream:$version" '"Entrypoint":["/mas-stream"]' "$build/mas-stream-oci.tar"
}

make_base() {
    tar -xf "$build/default-image.tar" -C "$tree" --no-same-owner
    oci_archive "$tree" "mas-sandbox-base:$version" \
        '"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Cmd":["/bin/bash"],"WorkingDir":"/workspace"' \
        "$build/mas-base-oci.tar"
}

case $2 in
link) make_link ;;
stream) make_stream ;;
base) make_base ;;
*) echo "make-pod-image.sh: '$2' is none of link, stream, base" >&2; exit 2 ;;
esac
