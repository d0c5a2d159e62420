/* SPDX-License-Identifier: Apache-2.0 */
/* What machines start from: the operator's files, wherever they are, side by side in one directory
 * that is mounted in the cell of every machine. It is a tmpfs of the host view's namespace, with
 * each file bound to its name there: the emulator sees these files and none that lie beside them.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/local/mount.h"
#include "warden/state.h"
#include "warden/vm/vm.h"

#define FILES_NAME "machine" /* in the warden's directory */

/* What others may write to is theirs, and the guest's kernel is not to be. */
static bool is_good_file(const struct warden *w, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && !(st.st_mode & S_IWOTH) &&
           (!w->was_root || st.st_uid == 0);
}

static void refuse_file(struct vm_host *h, const char *path, int error)
{
    if (error)
        snprintf(h->why, sizeof(h->why), "%.160s: %s", path, strerror(error));
    else
        snprintf(h->why, sizeof(h->why),
                 "%.120s is not a file of the daemon's user that others cannot write; "
                 "scripts/microvm/machine.sh makes what a machine starts from",
                 path);
}

/* Binds the file to a name of the directory. */
static void bind_file(const struct warden *w, struct vm_host *h, const char *path, const char *name)
{
    if (h->why[0])
        return;
    if (!is_good_file(w, path))
        return refuse_file(h, path, 0);
    _cleanup_close_ int fd = openat(h->dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    _cleanup_close_ int file = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (fd < 0 || file < 0 || move_mount(file, "", h->dir_fd, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        refuse_file(h, path, errno);
}

/* A program that a sandbox sees anyway stays where it is: QEMU finds its files beside itself. */
static void bind_program(const struct warden *w, struct vm_host *h, char path[MACHINE_PATH_SIZE])
{
    if (strncmp(path, "/usr/", strlen("/usr/")) == 0)
        return;
    bind_file(w, h, path, VM_EMULATOR_NAME);
    snprintf(path, MACHINE_PATH_SIZE, "%s", VM_FILES_DIR "/" VM_EMULATOR_NAME);
}

static void fill_dir(const struct warden *w, struct vm_host *h)
{
    struct machine_config *m = &h->machine;
    char name[MACHINE_DRIVE_SIZE + 16];
    bind_program(w, h, m->vmm == MACHINE_QEMU ? m->qemu_bin : m->firecracker_bin);
    bind_file(w, h, m->kernel_image, VM_KERNEL_NAME);
    bind_file(w, h, m->initramfs, VM_INITRAMFS_NAME);
    bind_file(w, h, m->rootfs, VM_ROOT_NAME);
    for (uint32_t i = 0; i < m->n_drives; i++) {
        snprintf(name, sizeof(name), VM_DRIVE_PREFIX "%s", m->drives[i].id);
        bind_file(w, h, m->drives[i].path, name);
    }
}

static void make_dir(struct warden *w, struct vm_host *h)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/" FILES_NAME, w->options.state_dir);
    if ((mkdir(path, 0700) < 0 && errno != EEXIST) ||
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,nr_inodes=64,mode=0755") <
            0 ||
        (h->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        refuse_file(h, path, errno);
    else
        fill_dir(w, h);
}

void vm_files_open(struct warden *w)
{
    struct vm_host *h = w->hosts[CELL_VM];
    if (setns(w->host_ns_fd, CLONE_NEWNS) < 0) {
        snprintf(h->why, sizeof(h->why), "cannot enter the host view: %s", strerror(errno));
        return;
    }
    make_dir(w, h);
    vm_devices_open(w, h);
    if (setns(w->own_ns_fd, CLONE_NEWNS) < 0) {
        log_error("cannot leave the host view error=%s", strerror(errno));
        _exit(1); /* everything that follows would be done on the host */
    }
}

int vm_files_tree(const struct warden *w)
{
    const struct vm_host *h = w->hosts[CELL_VM];
    return mount_open_host_tree(w->host_ns_fd, w->own_ns_fd, h->dir_fd);
}
