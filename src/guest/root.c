/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest's first process mounts and loads. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "builder/mount-calls.h"
#include "builder/child.h"
#include "builder/mount.h"
#include "builder/root.h"
#include "guest/internal.h"
#include "warden/local/mount.h"

#define MODULES_DIR    "/modules"
#define NEW_ROOT       "/root"
#define DEVICE_WAIT_MS 10000
#define DEVICE_POLL_MS 2
#define LIST_MAX       4096
#define DISK_PATH_SIZE 48

/* Of the machine as the kernel shows it, which the root does not. */
static struct {
    int dev_fd, block_fd;
} views;

void guest_mount_kernel_views(void)
{
    mkdir("/dev", 0755);
    mkdir("/proc", 0755);
    mkdir("/sys", 0755);
    mkdir(NEW_ROOT, 0755);
    mount("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount("sys", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL);
    views.dev_fd = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    views.block_fd = open("/sys/block", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* A module that the kernel refuses shows as the device that never comes. */
void guest_load_modules(const char *names)
{
    _cleanup_strbuf_ struct strbuf list = STRBUF_INIT(LIST_MAX);
    char path[128], *save = NULL;
    snprintf(path, sizeof(path), MODULES_DIR "/%s", names);
    if (fd_read_file_at(AT_FDCWD, path, &list) < 0)
        return;
    for (char *name = strtok_r(list.data, " \n", &save); name;
         name = strtok_r(NULL, " \n", &save)) {
        snprintf(path, sizeof(path), MODULES_DIR "/%s.ko", name);
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            syscall(SYS_finit_module, fd, "", 0);
    }
}

bool guest_find_word(const char *word, char *ret, size_t size)
{
    _cleanup_strbuf_ struct strbuf line = STRBUF_INIT(LIST_MAX);
    if (fd_read_file_at(AT_FDCWD, "/proc/cmdline", &line) < 0 || !line.data)
        return false;
    size_t len = strlen(word);
    for (const char *at = line.data; (at = strstr(at, word)); at += len)
        if (at == line.data || at[-1] == ' ') {
            snprintf(ret, size, "%.*s", (int)strcspn(at + len, " \n"), at + len);
            return true;
        }
    return false;
}

/* Devices appear while their drivers look for them. */
static int open_device(const char *path, int flags)
{
    const struct timespec pause = {.tv_nsec = DEVICE_POLL_MS * 1000000};
    for (int waited = 0;; waited += DEVICE_POLL_MS) {
        int fd = open(path, flags | O_CLOEXEC);
        if (fd >= 0)
            return fd;
        if (waited >= DEVICE_WAIT_MS)
            return -errno;
        nanosleep(&pause, NULL);
    }
}

int guest_open_port(const char *path)
{
    return open_device(path, O_RDWR);
}

static bool has_serial(const char *name, const char *serial)
{
    char path[32];
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(64);
    snprintf(path, sizeof(path), "%s/serial", name);
    if (fd_read_file_at(views.block_fd, path, &text) < 0 || !text.data)
        return false;
    text.data[strcspn(text.data, "\n")] = 0;
    return strcmp(text.data, serial) == 0 && faccessat(views.dev_fd, name, R_OK, 0) == 0;
}

/* Where the kernel's line says the disks' order, a disk's place in it; or -1. */
static int place_of_disk(const char *name)
{
    char list[LIST_MAX], *save = NULL;
    int place = 0;
    if (!guest_find_word(GUEST_DISKS_WORD, list, sizeof(list)))
        return -1;
    for (char *id = strtok_r(list, ",", &save); id; id = strtok_r(NULL, ",", &save), place++)
        if (strcmp(id, name) == 0)
            return place;
    return -1;
}

/* Disks are told apart by their serial numbers: which of them the kernel finds first is chance,
 * unless its line says their order. ret has room for DISK_PATH_SIZE. */
static int find_disk(const char *serial, char *ret)
{
    static const char *const names[] = {"vda", "vdb", "vdc", "vdd", "vde", "vdf",
                                        "vdg", "vdh", "vdi", "vdj", "vdk"};
    _Static_assert(ELEMENTS(names) == 3 + MACHINE_DRIVES_MAX, "root, disk, image and drives");
    const struct timespec pause = {.tv_nsec = DEVICE_POLL_MS * 1000000};
    const int place = place_of_disk(serial);
    for (int waited = 0; waited < DEVICE_WAIT_MS; waited += DEVICE_POLL_MS) {
        for (size_t i = 0; i < ELEMENTS(names); i++)
            if (place < 0 ? has_serial(names[i], serial)
                          : (int)i == place && faccessat(views.dev_fd, names[i], R_OK, 0) == 0) {
                snprintf(ret, DISK_PATH_SIZE, "/proc/self/fd/%d/%s", views.dev_fd, names[i]);
                return 0;
            }
        nanosleep(&pause, NULL);
    }
    return -ENODEV;
}

static int mount_disk_at(const char *serial, const char *target, unsigned long flags)
{
    static const char *const types[] = {"ext4", "erofs"};
    char path[DISK_PATH_SIZE];
    int r = find_disk(serial, path);
    for (size_t i = 0; r == 0 && i < ELEMENTS(types); i++)
        if (mount(path, target, types[i], flags | MS_NODEV | MS_NOSUID, NULL) == 0)
            return 0;
    return r < 0 ? r : -errno;
}

/* The operator's drives, whose names the kernel's line has, each in a directory of its name. What
 * is written to one is on it at once: a machine ends without a word to its kernel. */
static int mount_drives(void)
{
    char path[sizeof(GUEST_DRIVES_DIR NEW_ROOT) + MACHINE_DRIVE_SIZE + 2], *save = NULL;
    char list[LIST_MAX];
    if (!guest_find_word(GUEST_DRIVES_WORD, list, sizeof(list)))
        return 0;
    if (mount("drives", NEW_ROOT GUEST_DRIVES_DIR, "tmpfs", MS_NOSUID | MS_NODEV,
              "size=64k,nr_inodes=32,mode=0755") < 0)
        return -errno;
    for (char *id = strtok_r(list, ",", &save); id; id = strtok_r(NULL, ",", &save)) {
        size_t n = strcspn(id, GUEST_WRITABLE);
        unsigned long flags = id[n] ? MS_SYNCHRONOUS : MS_RDONLY;
        id[n] = 0;
        snprintf(path, sizeof(path), NEW_ROOT GUEST_DRIVES_DIR "/%s", id);
        int r = mkdir(path, 0755) < 0 ? -errno : mount_disk_at(id, path, flags);
        if (r < 0)
            return r;
    }
    return 0;
}

/* A sandbox with an image or with directories of the host has another root than the machine, and
 * writes only to its disk and its mounts: so the drives are one of these. */
void guest_open_drives(struct guest *g)
{
    struct child_order *o = &g->order.child;
    char list[LIST_MAX];
    if (!guest_find_word(GUEST_DRIVES_WORD, list, sizeof(list)))
        return;
    int fd =
        open_tree(AT_FDCWD, GUEST_DRIVES_DIR, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (fd < 0 || o->n_mounts >= PLAN_MOUNTS_MAX)
        guest_give_up(g, "show the guest's drives", fd < 0 ? errno : E2BIG);
    snprintf(o->mounts[o->n_mounts++].target, sizeof(o->mounts[0].target), GUEST_DRIVES_DIR);
    g->share_fds[g->n_shares++] = fd;
}

/* What a copy of a machine has read of a disk is the other machine's. */
static void forget_blocks(const char *path)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        ioctl(fd, BLKFLSBUF, 0);
}

/* A detached mount, or -errno. */
static int mount_disk(const char *serial, bool read_only)
{
    char path[DISK_PATH_SIZE];
    int r = find_disk(serial, path);
    if (r < 0)
        return r;
    forget_blocks(path);
    _cleanup_close_ int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    if (fs < 0 || fsconfig(fs, FSCONFIG_SET_STRING, "source", path, 0) < 0 ||
        (read_only && fsconfig(fs, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0) ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = fsmount(fs, FSMOUNT_CLOEXEC,
                     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0));
    return fd < 0 ? -errno : fd;
}

void guest_open_disk(struct guest *g, uid_t runner_id, uid_t tool_id)
{
    g->disk_fd = -1;
    if (!g->order.child.disk_from_fd)
        return;
    int r = g->disk_fd = mount_disk(GUEST_DATA_DISK, false);
    r = r < 0 ? r : mount_disk_make_parts(g->disk_fd, runner_id, tool_id);
    if (r < 0)
        guest_give_up(g, "mount the guest's disk", -r);
}

void guest_open_image(struct guest *g, uid_t runner_id)
{
    const struct mount_owner owners[] = {
        {SANDBOX_RUNNER_ID, runner_id},
        {SANDBOX_TOOL_ID, SANDBOX_TOOL_ID},
        {SANDBOX_NOBODY_ID, SANDBOX_NOBODY_ID},
    };
    g->image_fd = -1;
    if (!g->order.child.image_disk)
        return;
    int r = g->image_fd = mount_disk(GUEST_IMAGE_DISK, true);
    _cleanup_close_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r = r < 0 ? r : mount_map_owners(g->image_fd, proc, owners, ELEMENTS(owners));
    if (r < 0)
        guest_give_up(g, "mount the guest's image", -r);
    g->order.child.image_from_fd = 1;
}

static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};

static const struct {
    const char *name, *target;
} links[] = {
    {"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
    {"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"},
};

/* Not the kernel's own, which shows every device of the machine. */
static int mount_devices(void)
{
    if (mount("dev", NEW_ROOT "/dev", "tmpfs", MS_NOSUID, "size=64k,nr_inodes=64,mode=0755") < 0)
        return -errno;
    _cleanup_close_ int dir = open(NEW_ROOT "/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || mkdirat(dir, "pts", 0755) < 0 || mkdirat(dir, "shm", 0755) < 0)
        return -errno;
    for (size_t i = 0; i < ELEMENTS(devices); i++)
        if (mknodat(dir, devices[i].name, S_IFCHR | 0666,
                    makedev(devices[i].major, devices[i].minor)) < 0)
            return -errno;
    for (size_t i = 0; i < ELEMENTS(links); i++)
        if (symlinkat(links[i].target, dir, links[i].name) < 0)
            return -errno;
    return 0;
}

/* The new root is moved over the old one, which nothing can name any more. (An initramfs cannot be
 * pivoted away from.) */
static int move_root(void)
{
    if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
        chdir("/") < 0)
        return -errno;
    return 0;
}

/* The root that machine.sh makes has the runner; for another one the runner is this very program,
 * which the disk must have a place for. An image cannot be laid over that. */
static int bind_runner(void)
{
    const unsigned long flags = MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    struct stat st;
    if (stat(NEW_ROOT ROOT_RUNNER_PATH, &st) == 0 && st.st_size > 0)
        return 0;
    if (mount("/init", NEW_ROOT ROOT_RUNNER_PATH, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, NEW_ROOT ROOT_RUNNER_PATH, NULL, MS_REMOUNT | flags, NULL) < 0)
        return -errno;
    return 0;
}

void guest_enter_root(struct guest *g)
{
    int r = mount_disk_at(GUEST_ROOT_DISK, NEW_ROOT, MS_RDONLY);
    if (r < 0)
        guest_give_up(g, "mount the guest's root", -r);
    r = mount_drives();
    if (r < 0)
        guest_give_up(g, "mount the guest's drives", -r);
    umask(0);
    r = mount_devices();
    umask(022);
    if (r == 0 &&
        mount("proc", NEW_ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        r = -errno;
    if (r == 0)
        r = bind_runner();
    if (r == 0)
        r = move_root();
    if (r < 0)
        guest_give_up(g, "enter the guest's root", -r);
}
