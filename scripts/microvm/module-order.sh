# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that make an initramfs whose first process loads kernel modules one after the other.

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
