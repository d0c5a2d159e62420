# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that make what a guest starts from: which of Debian's kernels it is, and the order of its modules.

# Versions of the package with a fault that guests meet. 6.1.192-1: ext4_mb_load_buddy_gfp() follows a null pointer when
# the page that it looks for was reclaimed, so a guest that is short of memory loses the disk that it writes to.
broken_kernels="6.1.192-1"

# kernel_package: prints the package that linux-image-cloud-amd64 stands for, or where that one is broken, the newest
# other kernel of the same series that apt has.
kernel_package() {
    local wanted series name version
    wanted=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/ *Depends: //p')
    [ -n "$wanted" ] || return 1
    series=$(echo "${wanted#linux-image-}" | cut -d. -f1-2)
    apt-cache search --names-only "^linux-image-${series/./\\.}\..*-cloud-amd64\$" | cut -d' ' -f1 | while read -r name; do
        version=$(apt-cache show --no-all-versions "$name" | sed -n 's/^Version: //p')
        case " $broken_kernels " in *" $version "*) ;; *) echo "$version $name" ;; esac
    done | sort -V | tail -n 1 | cut -d' ' -f2
}

# order_modules DIR NAME...: prints the names so that each comes after the others of them that it needs. Kernels differ
# in that even between two updates of one Debian release: virtio needs virtio_ring in one and is needed by it in another.
order_modules() {
    local dir=$1 name need ready left="" placed="" next
    shift
    left="$*"
    while [ -n "$left" ]; do
        next=""
        for name in $left; do
            ready=yes
            for need in $(tr '\0' '\n' <"$dir/$name.ko" | sed -n 's/^depends=//p' | tr , ' '); do
                case " $left " in *" $need "*) ready= ;; esac
            done
            if [ -n "$ready" ]; then placed="$placed $name"; else next="$next $name"; fi
        done
        if [ "$next" = " $left" ] || [ "$next" = "$left" ]; then
            echo "$(basename "$0"): these modules need each other:$next" >&2
            return 1
        fi
        left=${next# }
    done
    echo "${placed# }"
}

# debugfs_commands TREE: prints what makes the same tree in an empty file system, each file after its directory and all in
# the order of their names. Owners are root, times are those of E2FSPROGS_FAKE_TIME.
debugfs_commands() {
    local tree=$1 path name dir at=
    find "$tree" -mindepth 1 -printf '%P\n' | sort | while IFS= read -r path; do
        case $path in *\"*) echo "$(basename "$0"): a name with a quotation mark: $path" >&2; return 1 ;; esac
        dir=/${path%"${path##*/}"} name=${path##*/}
        [ "$dir" = "$at" ] || echo "cd \"$dir\""
        at=$dir
        if [ -L "$tree/$path" ]; then
            echo "symlink \"$name\" \"$(readlink "$tree/$path")\""
        elif [ -d "$tree/$path" ]; then
            printf 'mkdir "%s"\nset_inode_field "%s" mode 04%04o\n' "$name" "$name" "0$(stat -c %a "$tree/$path")"
        elif [ -f "$tree/$path" ]; then
            printf 'write "%s" "%s"\nset_inode_field "%s" mode 010%04o\n' "$tree/$path" "$name" "$name" "0$(stat -c %a "$tree/$path")"
        fi
    done
}

# make_ext4 TREE FILE: an ext4 image of a tree that has the same bytes whenever and wherever it is made of the same files.
# mke2fs -d would copy the times of the last change of each file's inode, and the order of the directory at hand.
make_ext4() {
    local tree=$1 file=$2 blocks
    export E2FSPROGS_FAKE_TIME=${SOURCE_DATE_EPOCH:-1}
    [ "$E2FSPROGS_FAKE_TIME" != 0 ] || E2FSPROGS_FAKE_TIME=1 # 0 would be the time of day
    blocks=$(find "$tree" -printf '%y %s\n' | awk '{n += $1 == "f" ? int(($2 + 4095) / 4096) + 1 : 1} END {print n}')
    rm -f "$file"
    mke2fs -q -F -t ext4 -b 4096 -O ^has_journal,^metadata_csum -m 0 -N $(($(find "$tree" | wc -l) + 64)) -U 00000000-0000-0000-0000-000000000002 \
        -E root_owner=0:0,hash_seed=00000000-0000-0000-0000-000000000001 "$file" $((blocks * 17 / 16 * 4 + 4096))k >/dev/null || return 1
    debugfs_commands "$tree" >"$file.commands" || return 1
    debugfs -w -f "$file.commands" "$file" >"$file.said" 2>&1 || return 1
    if grep -v '^debugfs\|^Allocated inode' "$file.said" >&2; then
        return 1
    fi
    rm -f "$file.commands" "$file.said"
}
