#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes a container image of the daemon, without an engine: BUILD/mas-sandbox-oci.tar, for `podman load -i`, `skopeo copy
# oci-archive:...` and `sbx image add`. It holds the programs of this build, their libraries, and the Debian packages of
# this host whose programs sandboxes without an image of their own use. The same build gives the same bytes.
# Usage: make-image.sh BUILD
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
. "$source/scripts/host-root.sh"
. "$source/scripts/oci-archive.sh"
packages="base-files bash busybox-static ca-certificates coreutils crun dash diffutils e2fsprogs findutils grep gzip hostname
libc-bin libc6 login mount passwd sed tar uidmap util-linux"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree

# What was installed, stripped: a linker's build id depends on where the sources lay.
install_programs() {
    local file
    DESTDIR=$work/installed meson install -C "$build" --no-rebuild --quiet >/dev/null
    mkdir -p "$tree/usr/local"
    for file in sbin bin libexec; do
        cp -r "$work/installed/usr/local/$file" "$tree/usr/local/"
    done
    find "$tree/usr/local" -type f -exec strip --strip-all --remove-section=.note.gnu.build-id {} + 2>/dev/null || true
}

make_root() {
    mkdir "$tree"
    install_programs
    # shellcheck disable=SC2046
    copy_packages "$tree" "$packages" $(find "$tree/usr/local" -type f)
    for file in passwd group; do
        cp "/usr/share/base-passwd/$file.master" "$tree/etc/$file"
    done
    install -m 644 /etc/ssl/certs/ca-certificates.crt -D "$tree/etc/ssl/certs/ca-certificates.crt"
    : >"$tree/etc/shadow"
    chmod 600 "$tree/etc/shadow"
    mkdir -p "$tree/var/lib/mas-sandbox"
    chmod 700 "$tree/var/lib/mas-sandbox"
    rm -f "$tree"/etc/{hostname,hosts,resolv.conf,machine-id}
    ldconfig -r "$tree"
    rm -rf "$tree/var/cache"
}

make_root
oci_archive "$tree" "mas-sandbox:$version" '"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Entrypoint":["/usr/local/sbin/mas-sandboxd"],"Cmd":["--listen",":8080","--state-dir","/var/lib/mas-sandbox"],"Volumes":{"/var/lib/mas-sandbox":{}},"ExposedPorts":{"8080/tcp":{}},"StopSignal":"SIGTERM"' "$build/mas-sandbox-oci.tar"
