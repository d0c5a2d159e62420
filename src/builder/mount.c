/* SPDX-License-Identifier: Apache-2.0 */
/* See mount.h. */
#include "builder/mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "builder/mount-calls.h"
#include "builder/root.h"

#define OWN_ROOT_DIR       "/mnt" /* not a system directory, so it is not bound into itself */
#define BLANK_DISK_OPTIONS "size=1m,nr_inodes=64,mode=0755"

/* The path is a caller's, below a directory that the operator allowed and that others may write
 * to. No link in it is followed, not even one that would stay below: it could be swapped at any
 * moment. */
int mount_open_beneath(int dirfd, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int fd = (int)syscall(SYS_openat2, dirfd, path[0] ? path : ".", &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* Places that are the same in every sandbox. No mount of a caller's may cover one or lie below it.
 */
static const char *const system_dirs[] = {
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
    "/etc", "/dev", "/proc", "/sys", "/.mas",  "/run",
};

static bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == 0 || path[n] == '/');
}

static bool is_system(const char *path)
{
    for (size_t i = 0; i < ELEMENTS(system_dirs); i++)
        if (is_below(path, system_dirs[i]))
            return true;
    return false;
}

int mount_proc(void)
{
    return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0 ? -errno : 0;
}

const char *const mount_proc_masked[] = {
    "/proc/acpi",        "/proc/asound",      "/proc/interrupts",    "/proc/kcore",
    "/proc/keys",        "/proc/key-users",   "/proc/latency_stats", "/proc/timer_list",
    "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",          NULL,
};
const char *const mount_proc_read_only[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", NULL,
};

/* What is not there needs no mask. A directory cannot be covered by a device, and that is asked
 * before: a mount that the kernel has to take back costs a grace period of its own. */
static int mask_path(const char *path)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    const char *mask = S_ISDIR(st.st_mode) ? ROOT_EMPTY_DIR : "/dev/null";
    return mount(mask, path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

int mount_proc_masks(void)
{
    int r = 0;
    for (size_t i = 0; r == 0 && mount_proc_masked[i]; i++)
        r = mask_path(mount_proc_masked[i]);
    return r;
}

int mount_proc_seal(void)
{
    return mount(NULL, "/proc", NULL,
                 MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0
               ? -errno
               : 0;
}

int mount_devpts(void)
{
    return mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
                 "newinstance,ptmxmode=0666,mode=0600,max=" MOUNT_PTYS_MAX) < 0
               ? -errno
               : 0;
}

const struct disk_part disk_parts[] = {
    {"workspace", "/workspace", 0755, true}, {"tmp", "/tmp", 01777, false},
    {"home", "/home/sandbox", 0755, true},   {"cache", "/cache", 0755, true},
    {"shm", "/dev/shm", 01777, false},       {"vartmp", "/var/tmp", 01777, false},
    {"run", ROOT_GATEWAY_DIR, 0755, false},
};
const size_t n_disk_parts = ELEMENTS(disk_parts);
_Static_assert(ELEMENTS(disk_parts) <= MOUNT_WRITABLE_MAX, "room for every part");

bool mount_target_ok(const char *target)
{
    if (is_system(target))
        return false;
    for (size_t i = 0; i < ELEMENTS(disk_parts); i++) {
        const char *part = disk_parts[i].target;
        if (is_below(part, target) && strcmp(part, target) != 0)
            return false; /* over a parent of the disk's places: they would be hidden */
    }
    return true;
}

size_t mount_writable_dirs(const char **ret)
{
    for (size_t i = 0; i < ELEMENTS(disk_parts); i++)
        ret[i] = disk_parts[i].target;
    return ELEMENTS(disk_parts);
}

static int make_part(int root_fd, const struct disk_part *part, uid_t owner)
{
    if (mkdirat(root_fd, part->name, part->mode) < 0)
        return -errno;
    if (owner == geteuid() && owner == getegid())
        return 0;
    return fchownat(root_fd, part->name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int mount_disk_make_parts(int root_fd, uid_t runner_id, uid_t tool_id)
{
    mode_t mask = umask(0);
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(disk_parts); i++)
        r = make_part(root_fd, &disk_parts[i], disk_parts[i].tools ? tool_id : runner_id);
    umask(mask);
    return r;
}

static int bind_parts(const char *disk)
{
    for (size_t i = 0; i < ELEMENTS(disk_parts); i++) {
        char source[64];
        snprintf(source, sizeof(source), "%s/%s", disk, disk_parts[i].name);
        if (mount(source, disk_parts[i].target, NULL, MS_BIND, NULL) < 0)
            return -errno;
    }
    return 0;
}

/* Mounted where its last part goes, the whole is covered in the end, for good: to unmount it would
 * take a grace period of the kernel's, twice as long as all the rest here. */
int mount_disk_prepare(uid_t runner_id, uid_t tool_id)
{
    const char *place = disk_parts[ELEMENTS(disk_parts) - 1].target;
    if (mount("sandbox", place, "tmpfs", MS_NOSUID | MS_NODEV, BLANK_DISK_OPTIONS) < 0)
        return -errno;
    _cleanup_close_ int root_fd = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = root_fd < 0 ? -errno : mount_disk_make_parts(root_fd, runner_id, tool_id);
    if (r < 0)
        return r;
    return bind_parts(place);
}

int mount_disk_resize(uint64_t bytes, uint64_t inodes)
{
    char options[96];
    snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu", (unsigned long long)bytes,
             (unsigned long long)inodes);
    /* Any part will do: the limits are the file system's. */
    return mount(NULL, disk_parts[0].target, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0
               ? -errno
               : 0;
}

/* The whole image is attached where no command sees it, its parts are bound to their places, and
 * the whole is taken away: what is left are the parts, whose mounts keep the image alive. */
int mount_disk_replace(int image_fd)
{
    if (move_mount(image_fd, "", AT_FDCWD, ROOT_DISK_DIR, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    int r = bind_parts(ROOT_DISK_DIR);
    return r < 0 || umount2(ROOT_DISK_DIR, MNT_DETACH) == 0 ? r : -errno;
}

int mount_disk_give(uid_t tool_id)
{
    for (size_t i = 0; i < ELEMENTS(disk_parts); i++)
        if (disk_parts[i].tools && chown(disk_parts[i].target, tool_id, tool_id) < 0)
            return -errno;
    return 0;
}

const struct disk_part *mount_find_part(const char *target, const char **ret_rest)
{
    for (size_t k = 0; k < ELEMENTS(disk_parts); k++) {
        if (!is_below(target, disk_parts[k].target))
            continue;
        *ret_rest = target + strlen(disk_parts[k].target);
        return &disk_parts[k];
    }
    return NULL;
}

bool mount_targets_need_root(const char *const *targets, size_t n)
{
    const char *rest;
    for (size_t i = 0; i < n; i++)
        if (!mount_find_part(targets[i], &rest))
            return true;
    return false;
}

static int add_root_entry(const char *from, const char *at, int root_fd, const struct dirent *e)
{
    char path[NAME_MAX + 2], source[NAME_MAX + 64], target[NAME_MAX + 64], link[PATH_MAX];
    snprintf(path, sizeof(path), "/%s", e->d_name);
    snprintf(source, sizeof(source), "%s%s", from, path);
    if (e->d_type == DT_LNK) {
        ssize_t n = readlink(source, link, sizeof(link) - 1);
        if (n < 0)
            return -errno;
        link[n] = 0;
        return symlinkat(link, root_fd, e->d_name) < 0 ? -errno : 0;
    }
    if (mkdirat(root_fd, e->d_name, 0755) < 0)
        return -errno;
    if (!is_system(path))
        return 0;
    snprintf(target, sizeof(target), "%s%s", at, path);
    return mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0 ? -errno : 0;
}

int mount_fill_root(const char *from, const char *at, int root_fd)
{
    DIR *dir = opendir(from[0] ? from : "/");
    int r = 0;
    if (!dir)
        return -errno;
    for (struct dirent *e; r == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = add_root_entry(from, at, root_fd, e);
    closedir(dir);
    if (r < 0)
        return r;
    if (mkdirat(root_fd, "home/sandbox", 0755) < 0 || mkdirat(root_fd, "var/tmp", 0755) < 0 ||
        symlinkat("../run", root_fd, "var/run") < 0)
        return -errno;
    return 0;
}

/* pivot_root(".", ".") stacks the old root upon the new one, at the same place, so that no
 * directory is needed for it, and the unmount below takes the whole old tree away. */
int mount_own_root(void)
{
    if (mount("root", OWN_ROOT_DIR, "tmpfs", MS_NOSUID | MS_NODEV, MOUNT_OWN_ROOT_OPTIONS) < 0)
        return -errno;
    _cleanup_close_ int root_fd = open(OWN_ROOT_DIR, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return -errno;
    int r = mount_fill_root("", OWN_ROOT_DIR, root_fd);
    if (r < 0)
        return r;
    /* Parts below system directories came along with those. */
    for (size_t i = 0; i < ELEMENTS(disk_parts); i++) {
        char target[64];
        snprintf(target, sizeof(target), "%s%s", OWN_ROOT_DIR, disk_parts[i].target);
        if (!is_system(disk_parts[i].target) &&
            mount(disk_parts[i].target, target, NULL, MS_BIND, NULL) < 0)
            return -errno;
    }
    if (fchdir(root_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

int mount_seal_root(void)
{
    return mount(NULL, "/", NULL, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0
               ? -errno
               : 0;
}

/* Each part is opened by itself and never through a link: the directories above a target may be the
 * sandbox's own, or an image's, and a link among them would move the mount somewhere else. On a
 * read-only file system the directory has to be there already. */
int mount_make_target(const char *root, const char *target, uid_t owner)
{
    _cleanup_close_ int at = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char path[PLAN_PATH_SIZE];
    char *save = NULL;
    snprintf(path, sizeof(path), "%s", target);
    for (char *name = strtok_r(path, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        if (mkdirat(at, name, 0755) == 0) {
            if (fchownat(at, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        } else if (errno != EEXIST && errno != EROFS) {
            return -errno;
        }
        int next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        fd_close(&at);
        at = next;
    }
    return fd_steal(&at);
}

int mount_attach(int tree_fd, const char *target, uid_t owner)
{
    _cleanup_close_ int at = mount_make_target("/", target, owner);
    if (at < 0)
        return at;
    return move_mount(tree_fd, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0
               ? -errno
               : 0;
}
