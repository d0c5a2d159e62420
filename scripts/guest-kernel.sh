# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that boot Debian's own kernel in QEMU: the kernel, an initramfs that finds a disk, and the boot.
# They set source (the tree), work (a directory, where the kernel is kept) and seconds (the most that a guest may take).

# The guest's clock is this processor's, but the guest cannot measure its speed: it would wait for
# ever for the emulated timer it compares with. Prints it.
measure_clock() {
    gcc -O2 -I"$source/src" -o "$work/clock-rate" "$source/tests/microvm/clock-rate.c" "$source/src/vmm/clock-rate.c"
    "$work/clock-rate"
}
modules="virtio virtio_ring virtio_mmio virtio_blk loop overlay vsock"
. "$source/scripts/microvm/guest-parts.sh"

# The newest kernel that linux-image-cloud-amd64 stands for, unpacked in $work/kernel-VERSION.
fetch_kernel() {
    local package
    package=$(kernel_package) || true
    if [ -z "$package" ]; then
        echo "$(basename "$0"): apt knows no linux-image-cloud-amd64; apt-get update may help" >&2
        exit 1
    fi
    kernel=$work/kernel-${package#linux-image-}
    [ -d "$kernel" ] && return
    local download
    download=$(mktemp -d)
    (cd "$download" && apt-get download -qq -o APT::Sandbox::User=root "$package")
    rm -rf "$work"/kernel-* && mkdir -p "$kernel.new"
    dpkg-deb -x "$download"/*.deb "$kernel.new"
    rm -rf "$download"
    mv "$kernel.new" "$kernel"
}

make_initramfs() {
    local tree=$work/initramfs m
    rm -rf "$tree" && mkdir -p "$tree"/{bin,dev,modules,root}
    cp /bin/busybox "$tree/bin/busybox"
    install -m 755 "$source/tests/guest/init" "$tree/init"
    for m in $modules; do
        find "$kernel/lib/modules" -name "$m.ko" -exec cp {} "$tree/modules/" \;
    done
    # shellcheck disable=SC2086
    order_modules "$tree/modules" $modules >"$tree/modules/order"
    (cd "$tree" && find . | cpio -o -H newc --quiet) >"$work/initramfs.cpio"
}

# Boots $work/root.img to its end and prints its console. With one processor at most, QEMU would emulate it without memory
# barriers, and interrupts of its disks would get lost on a busy host (src/vmm/qemu.c). $1: words for the kernel, $2: a disk beside it, in $work.
boot_guest() {
    local khz line second=()
    khz=$(measure_clock) || return 1
    line="console=ttyS0 quiet reboot=t panic=-1 tsc_early_khz=$khz $1"
    [ -z "${2:-}" ] || second=(-drive "id=second,file=$work/$2,format=raw,if=none,cache=unsafe" -device virtio-blk-device,drive=second)
    timeout "$seconds" nice -n 10 qemu-system-x86_64 -M microvm -accel tcg -cpu qemu64 -m 1024 \
        -smp 1,maxcpus=2 -nodefaults -no-user-config -nographic -no-reboot -serial stdio \
        -kernel "$(echo "$kernel"/boot/vmlinuz-*)" -initrd "$work/initramfs.cpio" -append "$line" \
        -drive "id=root,file=$work/root.img,format=raw,if=none,cache=unsafe" \
        -device virtio-blk-device,drive=root "${second[@]}" </dev/null
}
