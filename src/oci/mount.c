/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher's mounts: a bundle below /run of its copy of the template root, a /proc of its own pid
 * namespace, and control groups of one version, because a mix of both trips runtimes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/image.h"
#include "builder/mount.h"
#include "oci/launcher.h"

#define RUN_OPTIONS "size=16m,nr_inodes=4k,mode=0755"
#define SYS_OPTIONS "size=64k,nr_inodes=64,mode=0755"
#define CGROUP_DIR  "/sys/fs/cgroup"

static int mount_tmpfs(const char *path, const char *options)
{
    return mount("tmpfs", path, "tmpfs", MS_NOSUID, options) < 0 ? -errno : 0;
}

static int mount_cgroup(const char *controllers)
{
    char path[128];
    snprintf(path, sizeof(path), CGROUP_DIR "/%s", controllers);
    int r = fd_make_dir_at(AT_FDCWD, path, 0755);
    unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    return r < 0 || mount("cgroup", path, "cgroup", flags, controllers) == 0 ? r : -errno;
}

static int mount_cgroups(bool v2, char *const *controllers)
{
    int r = mount_tmpfs("/sys", SYS_OPTIONS);
    if (r < 0)
        return r;
    r = fd_make_dir_at(AT_FDCWD, "/sys/fs", 0755);
    if (r < 0)
        return r;
    r = fd_make_dir_at(AT_FDCWD, CGROUP_DIR, 0755);
    if (r < 0)
        return r;
    if (v2)
        return mount("cgroup2", CGROUP_DIR, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0
                   ? -errno
                   : 0;
    r = mount_tmpfs(CGROUP_DIR, SYS_OPTIONS);
    for (; r == 0 && *controllers; controllers++)
        r = mount_cgroup(*controllers);
    return r;
}

int oci_mount_base(bool cgroup_v2, char *const *controllers)
{
    static const char *const dirs[] = {OCI_TEMPLATE, OCI_ROOTFS, OCI_DISK,
                                       OCI_MOUNTS,   OCI_BUNDLE, OCI_STATE};
    _cleanup_close_ int tree =
        open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0)
        return -errno;
    int r = mount_tmpfs(OCI_DIR, RUN_OPTIONS);
    for (size_t i = 0; r == 0 && i < ELEMENTS(dirs); i++)
        r = fd_make_dir_at(AT_FDCWD, dirs[i], 0755);
    if (r < 0)
        return r;
    /* The copy must be taken before anything is mounted over the template. */
    if (move_mount(tree, "", AT_FDCWD, OCI_TEMPLATE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    r = umount2(OCI_TEMPLATE "/proc", MNT_DETACH) < 0 ? -errno : 0;
    if (r < 0)
        return r;
    r = mount_proc();
    if (r < 0)
        return r;
    return mount_cgroups(cgroup_v2, controllers);
}

int oci_mount_disk(const struct child_order *o, int disk_fd, uint32_t runner_id, uint32_t tool_id)
{
    char options[96];
    if (disk_fd >= 0) /* its parts are made already */
        return move_mount(disk_fd, "", AT_FDCWD, OCI_DISK, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno
                                                                                        : 0;
    snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu,mode=0755",
             (unsigned long long)o->disk_bytes, (unsigned long long)o->disk_inodes);
    if (mount("sandbox", OCI_DISK, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        return -errno;
    _cleanup_close_ int fd = open(OCI_DISK, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : mount_disk_make_parts(fd, runner_id, tool_id);
}

static int bind_template(void)
{
    return mount(OCI_TEMPLATE, OCI_ROOTFS, NULL, MS_BIND | MS_REC, NULL) < 0 ? -errno : 0;
}

/* runsc remounts its root without the flags that it has, which a user namespace does not let it
 * lose. Its kernel runs no program of the host's, so they would mean nothing. */
static int clear_flags(void)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    return mount_setattr(AT_FDCWD, OCI_ROOTFS, 0, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

/* Places for mounts are made by the runtime, in a root that no other sandbox shares. */
static int make_root(const struct child_order *o)
{
    const char *targets[PLAN_MOUNTS_MAX];
    for (uint32_t i = 0; i < o->n_mounts; i++)
        targets[i] = o->mounts[i].target;
    if (!mount_targets_need_root(targets, o->n_mounts))
        return bind_template();
    if (mount("root", OCI_ROOTFS, "tmpfs", MS_NOSUID | MS_NODEV, MOUNT_OWN_ROOT_OPTIONS) < 0)
        return -errno;
    _cleanup_close_ int fd = open(OCI_ROOTFS, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : mount_fill_root(OCI_TEMPLATE, OCI_ROOTFS, fd);
}

int oci_mount_root(const struct child_order *o)
{
    int r = make_root(o);
    return r < 0 || !oci_flavour((enum oci_backend)o->backend)->own_kernel ? r : clear_flags();
}

#define UPPER_DIR OCI_DISK "/upper"
#define WORK_DIR  OCI_DISK "/work"

static int fill_upper(struct image_upper *u)
{
    if (mkdir(UPPER_DIR, 0755) < 0 || mkdir(WORK_DIR, 0700) < 0 ||
        chown(UPPER_DIR, u->root_id, u->root_id) < 0 || chown(WORK_DIR, u->root_id, u->root_id) < 0)
        return -errno;
    _cleanup_close_ int lower = open(OCI_IMAGE, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int upper = open(UPPER_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return lower < 0 || upper < 0 ? -errno : image_upper_fill(u, lower, upper);
}

int oci_mount_image(const struct child_order *o, int image_fd, struct image_upper *u,
                    const uint32_t ids[3])
{
    const struct oci_overlay overlay = {OCI_IMAGE, UPPER_DIR, WORK_DIR, ids[0], ids[1], ids[2]};
    snprintf(u->step, sizeof(u->step), "attach the image");
    int r = fd_make_dir_at(AT_FDCWD, OCI_IMAGE, 0755);
    if (r == 0 && move_mount(image_fd, "", AT_FDCWD, OCI_IMAGE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        r = -errno;
    if (r < 0)
        return r;
    r = fill_upper(u);
    if (r < 0)
        return r;
    snprintf(u->step, sizeof(u->step), "mount the image");
    r = oci_overlay_mount(&overlay, OCI_ROOTFS);
    return r < 0 || !oci_flavour((enum oci_backend)o->backend)->own_kernel ? r : clear_flags();
}

/* Made here and not by the runtime, which would follow links and own what it makes. */
static int make_target(const char *target, uint32_t tool_id)
{
    char base[64];
    const char *rest = target;
    const struct disk_part *part = mount_find_part(target, &rest);
    snprintf(base, sizeof(base), "%s%s%s", part ? OCI_DISK : OCI_ROOTFS, part ? "/" : "",
             part ? part->name : "");
    int fd = mount_make_target(base, rest, tool_id);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

int oci_mount_host_dirs(const struct child_order *o, const int *mount_fds, uint32_t tool_id)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < o->n_mounts; i++)
        r = make_target(o->mounts[i].target, tool_id);
    for (uint32_t i = 0; r == 0 && i < o->n_mounts; i++) {
        char path[64];
        snprintf(path, sizeof(path), OCI_MOUNTS "/%u", i);
        r = fd_make_dir_at(AT_FDCWD, path, 0755);
        if (r == 0 && move_mount(mount_fds[i], "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
            r = -errno;
    }
    return r;
}

/* runsc takes a namespace in which it sees this directory's rmem_default for the host's own, and
 * refuses to take its links over. Linux shows the file in every network namespace since 6.9.
 * runsc's processes mount a /proc of their own, which the kernel lets a user namespace do only
 * where all of one can be seen already: so there is another without a cover. */
int oci_mount_over_settings(void)
{
    int r = fd_make_dir_at(AT_FDCWD, OCI_PROC, 0755);
    if (r < 0)
        return r;
    if (mount("proc", OCI_PROC, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return -errno;
    return mount("settings", "/proc/sys/net/core", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                 "size=4k,mode=0555") < 0
               ? -errno
               : 0;
}
