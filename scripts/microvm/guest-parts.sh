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
