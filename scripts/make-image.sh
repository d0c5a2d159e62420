#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes a container image of the daemon, without an engine: an OCI image layout in one archive, BUILD/mas-sandbox-oci.tar,
# for `podman load -i`, `skopeo copy oci-archive:...` and `sbx image add`. It holds the programs of this build, their
# libraries, and the Debian packages of this host whose programs sandboxes without an image of their own use.
# The same build gives the same bytes: names are sorted, owners are root, times are the version's (SOURCE_DATE_EPOCH).
# Usage: make-image.sh BUILD
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/..")
. "$source/scripts/host-root.sh"
packages="base-files bash busybox-static ca-certificates coreutils crun dash diffutils e2fsprogs findutils grep gzip hostname
libc-bin libc6 login mount passwd sed tar uidmap util-linux"
epoch=${SOURCE_DATE_EPOCH:-$(date -d "$(sed -n 's/^ -- .*>  //p' "$source/debian/changelog" | head -n 1)" +%s)}
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$source/debian/changelog")
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree layout=$work/layout blobs=$work/layout/blobs/sha256

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

pack() { tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -cf - .; }

# blob TYPE FILE: puts FILE among the blobs and prints its descriptor.
blob() {
    local digest size
    digest=$(sha256sum <"$2" | cut -d ' ' -f 1)
    size=$(stat -c %s "$2")
    mv "$2" "$blobs/$digest"
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s}' "$1" "$digest" "$size"
}

make_layout() {
    local diff layer config manifest created
    mkdir -p "$blobs"
    created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
    pack "$tree" >"$work/layer"
    diff=$(sha256sum <"$work/layer" | cut -d ' ' -f 1)
    gzip -n "$work/layer"
    layer=$(blob layer.v1.tar+gzip "$work/layer.gz")
    cat >"$work/config" <<EOF
{"created":"$created","architecture":"$architecture","os":"linux","config":{"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Entrypoint":["/usr/local/sbin/mas-sandboxd"],"Cmd":["--listen",":8080","--state-dir","/var/lib/mas-sandbox"],"Volumes":{"/var/lib/mas-sandbox":{}},"ExposedPorts":{"8080/tcp":{}},"StopSignal":"SIGTERM","Labels":{"org.opencontainers.image.title":"mas-sandbox","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff"]},"history":[{"created":"$created","created_by":"scripts/make-image.sh"}]}
EOF
    config=$(blob config.v1+json "$work/config")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
        "$config" "$layer" >"$work/manifest"
    manifest=$(blob manifest.v1+json "$work/manifest")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' \
        "${manifest%\}},\"annotations\":{\"org.opencontainers.image.ref.name\":\"mas-sandbox:$version\"}}" >"$layout/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
}

make_root
make_layout
pack "$layout" >"$build/mas-sandbox-oci.tar.new"
mv "$build/mas-sandbox-oci.tar.new" "$build/mas-sandbox-oci.tar"
echo "$build/mas-sandbox-oci.tar: mas-sandbox:$version, $(stat -c %s "$build/mas-sandbox-oci.tar") bytes, sha256 $(sha256sum <"$build/mas-sandbox-oci.tar" | cut -c 1-16)"
