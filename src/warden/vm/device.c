/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a cell whose emulator needs the processor's own virtualization: those of every
 * cell, and /dev/kvm. They are nodes of the warden's, in a tmpfs of the host view's namespace that
 * is mounted over the cell's /dev: the host's own node is its group's, which the tool's user is not
 * in. No other kind of cell has it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "warden/local/mount.h"
#include "warden/state.h"
#include "warden/vm/vm.h"

#define DEVICES_NAME "machine-dev" /* in the warden's directory */

static const struct {
    const char *name;
    unsigned major, minor;
} nodes[] = {
    {"null", 1, 3},    {"zero", 1, 5}, {"full", 1, 7},   {"random", 1, 8},
    {"urandom", 1, 9}, {"tty", 5, 0},  {"kvm", 10, 232},
};

static int fill_devices(int dir)
{
    for (size_t i = 0; i < ELEMENTS(nodes); i++) {
        if (mknodat(dir, nodes[i].name, S_IFCHR | 0600, makedev(nodes[i].major, nodes[i].minor)) <
                0 ||
            fchmodat(dir, nodes[i].name, 0666, 0) < 0)
            return -errno;
    }
    if (symlinkat("/proc/self/fd", dir, "fd") < 0 || mkdirat(dir, "shm", 0755) < 0)
        return -errno;
    return 0;
}

void vm_devices_open(const struct warden *w, struct vm_host *h)
{
    char path[PATH_MAX];
    int r;
    if (h->why[0] || h->machine.vmm != MACHINE_FIRECRACKER || access("/dev/kvm", F_OK) < 0)
        return; /* without it, Firecracker says so */
    snprintf(path, sizeof(path), "%s/" DEVICES_NAME, w->options.state_dir);
    if ((mkdir(path, 0700) < 0 && errno != EEXIST) ||
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=64,mode=0755") <
            0 ||
        (h->devices_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = -errno;
    else
        r = fill_devices(h->devices_fd);
    if (r < 0)
        snprintf(h->why, sizeof(h->why), "machines cannot be given /dev/kvm: %s", strerror(-r));
}

int vm_devices_tree(const struct warden *w)
{
    const struct vm_host *h = w->hosts[CELL_VM];
    return mount_open_host_devices(w->host_ns_fd, w->own_ns_fd, h->devices_fd);
}
