/* SPDX-License-Identifier: Apache-2.0 */
/* A child's root of an image, see image.h. The blank's root is still there when this begins, with
 * all that every sandbox has mounted in it; what is needed is bound into the new one, by
 * descriptors of directories that were made above the image. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "warden/local/image.h"
#include "warden/landlock.h"
#include "builder/mount-calls.h"
#include "warden/local/mount.h"
#include "warden/local/root.h"

/* Directories of the template that nothing is in. */
#define LOWER_DIR "/media"
#define NEW_ROOT  "/mnt"
/* Parts of the part of the disk that is the runner's own: in the new root only the last shows. */
#define UPPER_DIR ROOT_GATEWAY_DIR "/upper"
#define WORK_DIR  ROOT_GATEWAY_DIR "/work"
#define RUN_DIR   ROOT_GATEWAY_DIR "/run"

#define TOP_MAX  256  /* directories of an image's root that may be written */
#define SEEN_MAX 4096 /* names in it that are looked at for them */

static const struct {
    const char *source, *target;
    unsigned long flags;
} system_binds[] = {
    {"/proc", "/proc", MS_BIND | MS_REC},
    {"/dev", "/dev", MS_BIND | MS_REC}, /* with its terminals and its shared memory */
    {ROOT_EMPTY_DIR, "/sys", MS_BIND},
    {"/.mas", "/.mas", MS_BIND},
    {RUN_DIR, ROOT_GATEWAY_DIR, MS_BIND},
};

static bool is_systems(const char *path)
{
    for (size_t i = 0; i < ELEMENTS(system_binds); i++) {
        size_t n = strlen(system_binds[i].target);
        if (strncmp(path, system_binds[i].target, n) == 0 && (path[n] == 0 || path[n] == '/'))
            return true;
    }
    return false;
}

/* The path is of a directory that we made, or else this fails. */
static int bind_at(int root_fd, const char *source, const char *target, unsigned long flags)
{
    char path[32];
    _cleanup_close_ int at = mount_open_beneath(root_fd, target + 1);
    if (at < 0)
        return at;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
    return mount(source, path, NULL, flags, NULL) < 0 ? -errno : 0;
}

static int bind_all(int root_fd)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(system_binds); i++)
        r = bind_at(root_fd, system_binds[i].source, system_binds[i].target, system_binds[i].flags);
    for (size_t i = 0; r == 0 && i < n_disk_parts; i++)
        if (!is_systems(disk_parts[i].target))
            r = bind_at(root_fd, disk_parts[i].target, disk_parts[i].target, MS_BIND);
    return r;
}

static int prepare_upper(struct image_upper *u)
{
    static const char *const dirs[] = {UPPER_DIR, WORK_DIR, RUN_DIR};
    for (size_t i = 0; i < ELEMENTS(dirs); i++)
        if (mkdir(dirs[i], 0755) < 0)
            return -errno;
    _cleanup_close_ int lower = open(LOWER_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int upper = open(UPPER_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (lower < 0 || upper < 0)
        return -errno;
    return image_upper_fill(u, lower, upper);
}

int image_root_enter(int tree_fd, struct image_upper *u)
{
    snprintf(u->step, sizeof(u->step), "attach the image");
    if (move_mount(tree_fd, "", AT_FDCWD, LOWER_DIR, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    int r = prepare_upper(u);
    if (r < 0)
        return r;
    snprintf(u->step, sizeof(u->step), "mount the image");
    r = image_mount_overlay(LOWER_DIR, UPPER_DIR, WORK_DIR, NEW_ROOT, ",userxattr");
    if (r < 0)
        return r;
    _cleanup_close_ int root_fd = open(NEW_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    snprintf(u->step, sizeof(u->step), "fill the image's root");
    r = bind_all(root_fd);
    if (r < 0)
        return r;
    if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

static int allow_entry(int landlock_fd, int abi, const char *name)
{
    char path[NAME_MAX + 2];
    struct stat st;
    snprintf(path, sizeof(path), "/%s", name);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_systems(path) ||
        lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    int r = landlock_allow_writing(landlock_fd, abi, path);
    return r < 0 ? r : 1;
}

int image_root_allow_writing(int landlock_fd, int abi)
{
    DIR *dir = opendir("/");
    int r = 0, n = 0, seen = 0;
    if (!dir)
        return -errno;
    for (struct dirent *e; r >= 0 && n < TOP_MAX && seen < SEEN_MAX && (e = readdir(dir)); seen++) {
        r = allow_entry(landlock_fd, abi, e->d_name);
        n += r > 0;
    }
    closedir(dir);
    return r < 0 ? r : 0;
}
