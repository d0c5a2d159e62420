/* What the control plane can still see: a root of its own with a handful of files in it, and behind
 * that Landlock, which is all there is when the daemon was not started as root. */
#include "daemon/drop.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/log.h"

#define ROOT_SIZE "size=64k,nr_inodes=64,mode=0755"

/* Shown read-only where they exist. */
static const struct {
    const char *path;
    bool directory;
    bool device;
} kept[] = {
    {"/etc/resolv.conf", false, false},
    {"/etc/hosts", false, false},
    {"/etc/nsswitch.conf", false, false},
    {"/etc/ssl/openssl.cnf", false, false},
    {"/etc/ssl/certs", true, false},
    {"/usr/share/ca-certificates", true, false},
    {"/usr/local/share/ca-certificates", true, false},
    {"/dev/null", false, true},
    {"/dev/urandom", false, true},
};

/* --- a root of its own */

/* A detached copy of the mount at path: taken first, so that what is mounted later cannot hide it.
 */
static int clone_tree(const char *path)
{
    int fd = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    return fd < 0 ? -errno : fd;
}

/* Makes target's parents and target below the current directory. */
static int make_target(const char *target, bool directory)
{
    char path[128];
    snprintf(path, sizeof(path), "%s", target);
    for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    if (directory)
        return mkdir(path, 0755) < 0 && errno != EEXIST ? -errno : 0;
    _cleanup_close_ int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : 0;
}

static int attach_tree(int tree, const char *target, bool directory, uint64_t flags)
{
    struct mount_attr attr = {.attr_set = flags | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
    int r = make_target(target, directory);
    if (r < 0)
        return r;
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0 ||
        move_mount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static void close_trees(int (*trees)[ELEMENTS(kept)])
{
    for (size_t i = 0; i < ELEMENTS(kept); i++)
        fd_close(&(*trees)[i]);
}

static int attach_kept(int trees[ELEMENTS(kept)], struct error *err)
{
    for (size_t i = 0; i < ELEMENTS(kept); i++) {
        if (trees[i] < 0)
            continue;
        uint64_t flags = MOUNT_ATTR_RDONLY | (kept[i].device ? 0 : MOUNT_ATTR_NODEV);
        int r = attach_tree(trees[i], kept[i].path + 1, kept[i].directory, flags);
        if (r < 0)
            return error_set(err, ERROR_INTERNAL, -r, "show %s", kept[i].path);
    }
    return 0;
}

static int attach_state(int tree, int state_fd, struct error *err)
{
    struct stat want, got;
    int r = attach_tree(tree, &DROP_STATE_PATH[1], true, MOUNT_ATTR_NODEV);
    if (r < 0)
        return error_set(err, ERROR_INTERNAL, -r, "show the state directory");
    if (fstat(state_fd, &want) < 0 || stat(&DROP_STATE_PATH[1], &got) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "state directory");
    if (want.st_dev != got.st_dev || want.st_ino != got.st_ino)
        return error_set(err, ERROR_INTERNAL, 0, "the state directory was replaced");
    return 0;
}

/* Swaps the current directory, a mount, for the root and lets go of the old one. */
static int enter_root(struct error *err)
{
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_set(err, ERROR_INTERNAL, errno, "change root");
    if (mount(NULL, "/", NULL, flags, NULL) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "make the root read-only");
    return 0;
}

int drop_root(const char *state_path, int state_fd, struct error *err)
{
    int trees[ELEMENTS(kept)] __attribute__((cleanup(close_trees)));
    memset(trees, -1, sizeof(trees));
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "private mount namespace");
    _cleanup_close_ int state = clone_tree(state_path);
    if (state < 0)
        return error_set(err, ERROR_INTERNAL, -state, "%s", state_path);
    for (size_t i = 0; i < ELEMENTS(kept); i++) {
        trees[i] = clone_tree(kept[i].path);
        if (trees[i] < 0 && trees[i] != -ENOENT)
            return error_set(err, ERROR_INTERNAL, -trees[i], "%s", kept[i].path);
    }
    /* Any directory will do to stand on. */
    if (mount("tmpfs", state_path, "tmpfs", MS_NOSUID | MS_NODEV, ROOT_SIZE) < 0 ||
        chdir(state_path) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "private root");
    umask(0);
    int r = attach_state(state, state_fd, err);
    if (r == 0)
        r = attach_kept(trees, err);
    umask(077);
    return r < 0 ? r : enter_root(err);
}

/* --- Landlock */

#define FS_READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
/* Plain files and directories: no devices, no programs. */
#define FS_STATE                                                                                   \
    (FS_READ | LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REMOVE_FILE |                  \
     LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_REG | LANDLOCK_REFER | LANDLOCK_TRUNCATE)

/* 0 also when there is no such file. */
static int allow(int ruleset, const struct landlock_rights *refused, const char *path,
                 uint64_t rights)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    return landlock_ruleset_allow(ruleset, fd, rights & refused->fs);
}

/* 0 without Landlock in the kernel, which is logged; else the version. */
static int open_ruleset(struct landlock_rights *refused, bool with_network, int *ret_fd)
{
    int abi = landlock_abi();
    if (abi < 1) {
        log_warn("no landlock in this kernel: one wall less around pid=%d", getpid());
        return 0;
    }
    *refused = landlock_known(abi);
    if (with_network)
        refused->net = 0;
    *ret_fd = landlock_ruleset_open(abi, refused);
    return *ret_fd < 0 ? *ret_fd : abi;
}

int drop_files(const char *state_path, struct error *err)
{
    struct landlock_rights refused;
    _cleanup_close_ int ruleset = -1;
    int r = open_ruleset(&refused, false, &ruleset);
    if (r == 0)
        return 0;
    if (r > 0)
        r = allow(ruleset, &refused, state_path, FS_STATE);
    for (size_t i = 0; r == 0 && i < ELEMENTS(kept); i++)
        r = allow(ruleset, &refused, kept[i].path,
                  FS_READ | (kept[i].device ? LANDLOCK_WRITE_FILE : 0));
    if (r == 0)
        r = landlock_restrict(ruleset);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "landlock") : 0;
}

/* Directories, because resolv.conf and its like are replaced while we run; libraries, because libc
 * loads what nsswitch.conf names. */
static const char *const lookup[] = {
    "/etc",     "/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/lib", "/lib64",
    "/usr/lib", "/dev/urandom",
};

int drop_gateway_files(struct error *err)
{
    struct landlock_rights refused;
    _cleanup_close_ int ruleset = -1;
    int r = open_ruleset(&refused, true, &ruleset);
    if (r == 0)
        return 0;
    r = r < 0 ? r : 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(lookup); i++)
        r = allow(ruleset, &refused, lookup[i], FS_READ);
    if (r == 0)
        r = landlock_restrict(ruleset);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "landlock") : 0;
}
