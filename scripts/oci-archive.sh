# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that make container images without an engine: an OCI image layout of one layer, in one archive, for
# `podman load -i`, `ctr images import` and `skopeo copy oci-archive:...`. The same files give the same bytes: names are
# sorted, owners are root, times are the version's (SOURCE_DATE_EPOCH). The caller has set $source, the root of the sources.
epoch=${SOURCE_DATE_EPOCH:-$(date -d "$(sed -n 's/^ -- .*>  //p' "$source/debian/changelog" | head -n 1)" +%s)}
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' "$source/debian/changelog")
architecture=$(dpkg --print-architecture)

oci_pack() { tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -cf - .; }

# oci_blob BLOBS TYPE FILE: puts FILE among the blobs and prints its descriptor.
oci_blob() {
    local digest size
    digest=$(sha256sum <"$3" | cut -d ' ' -f 1)
    size=$(stat -c %s "$3")
    mv "$3" "$1/$digest"
    printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s}' "$2" "$digest" "$size"
}

# oci_archive TREE NAME CONFIG OUT: CONFIG has the members of an image's configuration but its labels. Loaded by podman or by
# containerd, the image is called localhost/NAME.
oci_archive() {
    local tree=$1 name=$2 settings=$3 out=$4 work layout blobs diff layer config manifest created new title=${2%%:*}
    work=$(mktemp -d)
    layout=$work/layout blobs=$work/layout/blobs/sha256
    mkdir -p "$blobs"
    created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
    oci_pack "$tree" >"$work/layer"
    diff=$(sha256sum <"$work/layer" | cut -d ' ' -f 1)
    gzip -n "$work/layer"
    layer=$(oci_blob "$blobs" layer.v1.tar+gzip "$work/layer.gz")
    cat >"$work/config" <<EOF
{"created":"$created","architecture":"$architecture","os":"linux","config":{$settings${settings:+,}"Labels":{"org.opencontainers.image.title":"$title","org.opencontainers.image.version":"$version","org.opencontainers.image.licenses":"Apache-2.0"}},"rootfs":{"type":"layers","diff_ids":["sha256:$diff"]},"history":[{"created":"$created","created_by":"scripts/${0##*/}"}]}
EOF
    config=$(oci_blob "$blobs" config.v1+json "$work/config")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
        "$config" "$layer" >"$work/manifest"
    manifest=$(oci_blob "$blobs" manifest.v1+json "$work/manifest")
    printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' \
        "${manifest%\}},\"annotations\":{\"org.opencontainers.image.ref.name\":\"$name\",\"io.containerd.image.name\":\"localhost/$name\"}}" >"$layout/index.json"
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    # A name of its own: scripts that make the same image at the same time would move each other's half of it into place.
    new=$(mktemp "$out.XXXXXX")
    oci_pack "$layout" >"$new"
    chmod 644 "$new"
    mv "$new" "$out"
    rm -rf "$work"
    echo "$out: $name, $(stat -c %s "$out") bytes, sha256 $(sha256sum <"$out" | cut -c 1-16)"
}
