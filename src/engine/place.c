/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into the container is mounted below the sandbox's directory, in the mount namespace of
 * the engine, and taken away again once the container has its own copies: an engine takes paths
 * only, and so the disk can be one file system with one budget and host directories keep the owner
 * maps that the warden gave them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "engine/engine.h"
#include "builder/image.h"
#include "builder/mount.h"
#include "builder/flavour.h"
#include "builder/root.h"
#include "oci/seccomp.h"
#include "filter/filter-table.h"
#include "filter/filter.h"

#define PLACE_PATH_SIZE (2 * ENGINE_PATH_SIZE + 64)
#define PROFILE_MAX     (1024 * 1024)
/* The overlay's own features that an image could use are off. */
#define OVERLAY_OPTIONS ",redirect_dir=nofollow,metacopy=off,index=off"

static void path_of(const struct engine *e, const char *name, char ret[PLACE_PATH_SIZE])
{
    snprintf(ret, PLACE_PATH_SIZE, "%s/%s", e->order.dir, name);
}

/* Runtimes walk to the root as the container's user, so it has a place that is that user's. */
static void root_path_of(const struct engine *e, const char *name, char ret[PLACE_PATH_SIZE])
{
    snprintf(ret, PLACE_PATH_SIZE, "%s/%s", e->root, name);
}

/* The process that listens at the engine's socket: the engine, or the service manager that hands it
 * its socket. 0: a process of another pid namespace; -errno: no process listens. Waits where many
 * connect at once. */
static pid_t engine_pid(const struct engine *e)
{
    struct sockaddr_un sun = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = e->order.timeout_ms / 1000,
                                     .tv_usec = (suseconds_t)(e->order.timeout_ms % 1000) * 1000};
    struct ucred peer;
    socklen_t len = sizeof(peer);
    memcpy(sun.sun_path, e->order.socket, sizeof(sun.sun_path));
    _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -errno;
    return peer.pid;
}

/* Mounts must be where the engine looks, whichever namespace that is. */
int place_enter(const struct engine *e)
{
    char path[64];
    pid_t pid = engine_pid(e);
    if (pid < 0) /* made elsewhere, they would not be found again */
        return -EHOSTDOWN;
    if (pid == 0)
        return 0; /* what it does not see, it cannot bind: verify() finds out */
    snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid);
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return setns(fd, CLONE_NEWNS) < 0 ? -errno : 0;
}

static int attach_tree(int tree_fd, const char *path)
{
    int r = fd_make_dir_at(AT_FDCWD, path, 0755);
    if (r < 0)
        return r;
    return move_mount(tree_fd, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

int place_root(struct engine *e, int view_fd)
{
    char view[PLACE_PATH_SIZE], root[PLACE_PATH_SIZE], proc[PLACE_PATH_SIZE + 8];
    const struct child_order *o = &e->order.child;
    const char *targets[PLAN_MOUNTS_MAX];
    root_path_of(e, "view", view);
    root_path_of(e, "root", root);
    snprintf(proc, sizeof(proc), "%s/proc", view);
    int r = fd_make_dir_at(AT_FDCWD, e->root, 0755);
    if (r == 0 && (chown(e->root, e->runner_id, e->runner_id) < 0 || chmod(e->root, 0700) < 0))
        r = -errno;
    if (r < 0)
        return r;
    r = attach_tree(view_fd, view);
    if (r < 0)
        return r;
    if (umount2(proc, MNT_DETACH) < 0)
        return -errno;
    for (uint32_t i = 0; i < o->n_mounts; i++)
        targets[i] = o->mounts[i].target;
    e->own_root = mount_targets_need_root(targets, o->n_mounts);
    if (!e->own_root)
        return 0;
    r = fd_make_dir_at(AT_FDCWD, root, 0755);
    if (r == 0 && mount("root", root, "tmpfs", MS_NOSUID | MS_NODEV, MOUNT_OWN_ROOT_OPTIONS) < 0)
        r = -errno;
    _cleanup_close_ int fd = r < 0 ? -1 : open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r < 0)
        return r;
    return fd < 0 ? -errno : mount_fill_root(view, root, fd);
}

/* As the launcher of an OCI runtime does it (warden/local/image.h). */
static int mount_image(struct engine *e, int image_fd, struct image_upper *u)
{
    char lower[PLACE_PATH_SIZE], upper[PLACE_PATH_SIZE], work[PLACE_PATH_SIZE],
        root[PLACE_PATH_SIZE];
    struct stat st;
    path_of(e, "image", lower);
    path_of(e, "disk/upper", upper);
    path_of(e, "disk/work", work);
    root_path_of(e, "root", root);
    int r = attach_tree(image_fd, lower);
    if (r < 0)
        return r;
    if (mkdir(upper, 0755) < 0 || mkdir(work, 0700) < 0 ||
        chown(upper, e->runner_id, e->runner_id) < 0 || chown(work, e->runner_id, e->runner_id) < 0)
        return -errno;
    _cleanup_close_ int lower_fd = open(lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int upper_fd = open(upper, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (lower_fd < 0 || upper_fd < 0)
        return -errno;
    r = image_upper_fill(u, lower_fd, upper_fd);
    if (r < 0)
        return r;
    r = fd_make_dir_at(AT_FDCWD, root, 0755);
    if (r < 0)
        return r;
    /* By relative names: the directory's own may hold a colon or a comma, which separate layers and
     * options in the text that the kernel reads. */
    if (chdir(e->order.dir) < 0)
        return -errno;
    r = image_mount_overlay("image", "disk/upper", "disk/work", root, OVERLAY_OPTIONS);
    if (chdir("/") < 0 && r == 0)
        r = -errno;
    if (r < 0)
        return r;
    if (stat(root, &st) < 0)
        return -errno;
    e->root_dev = st.st_dev;
    return 0;
}

void place_image(struct engine *e, const struct child_trees *trees)
{
    const struct child_order *o = &e->order.child;
    const char *targets[PLAN_MOUNTS_MAX];
    char root[PLACE_PATH_SIZE];
    if (trees->image < 0)
        return;
    for (uint32_t i = 0; i < o->n_mounts; i++)
        targets[i] = o->mounts[i].target;
    if (e->own_root) { /* made for the mounts of the host's view */
        root_path_of(e, "root", root);
        umount2(root, MNT_DETACH | UMOUNT_NOFOLLOW);
    }
    struct image_upper u = {.root_id = e->runner_id,
                            .tool_id = e->tool_id,
                            .targets = targets,
                            .n_targets = o->n_mounts,
                            .authority_fd = trees->authority,
                            .step = "mount the image"};
    child_must(mount_image(e, trees->image, &u), u.step, WALL_FILESYSTEM);
    e->own_root = e->image = true;
}

int place_disk(struct engine *e, int disk_fd)
{
    const struct child_order *o = &e->order.child;
    char disk[PLACE_PATH_SIZE], options[96];
    struct stat st;
    path_of(e, "disk", disk);
    int r = fd_make_dir_at(AT_FDCWD, disk, 0755);
    if (r < 0)
        return r;
    snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu,mode=0755",
             (unsigned long long)o->disk_bytes, (unsigned long long)o->disk_inodes);
    if (disk_fd >= 0)
        r = attach_tree(disk_fd, disk);
    else if (mount("sandbox", disk, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
        r = -errno;
    _cleanup_close_ int fd = r < 0 ? -1 : open(disk, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r < 0 || fd < 0 || fstat(fd, &st) < 0)
        return r < 0 ? r : -errno;
    e->disk_dev = st.st_dev;
    if (disk_fd < 0)
        r = mount_disk_make_parts(fd, e->runner_id, e->tool_id);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n_disk_parts; i++) {
        uint32_t id = disk_parts[i].tools ? e->tool_id : e->runner_id;
        if (fchownat(fd, disk_parts[i].name, id, id, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    }
    return 0;
}

/* Places that podman does not make in a root that it does not own. docker's are made by docker. */
static int make_target(const struct engine *e, const char *target)
{
    char base[PLACE_PATH_SIZE + 32], dir[PLACE_PATH_SIZE];
    const char *rest = target;
    const struct disk_part *part = mount_find_part(target, &rest);
    if (!part && (!e->own_root || e->image))
        return 0;
    if (part)
        path_of(e, "disk", dir);
    else
        root_path_of(e, "root", dir);
    snprintf(base, sizeof(base), "%s%s%s", dir, part ? "/" : "", part ? part->name : "");
    int fd = mount_make_target(base, rest, e->tool_id);
    if (fd < 0)
        return fd;
    close(fd);
    return 0;
}

int place_mounts(struct engine *e, const int *mount_fds)
{
    const struct child_order *o = &e->order.child;
    char name[16], path[PLACE_PATH_SIZE];
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < o->n_mounts; i++)
        r = make_target(e, o->mounts[i].target);
    for (uint32_t i = 0; r == 0 && i < o->n_mounts; i++) {
        snprintf(name, sizeof(name), "m%u", i);
        path_of(e, name, path);
        r = attach_tree(mount_fds[i], path);
    }
    return r;
}

static int write_file(const char *path, const void *data, size_t len, uint32_t owner)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, len);
    if (r < 0)
        return r;
    return fchown(fd, owner, owner) < 0 ? -errno : 0;
}

static int write_filter(const struct engine *e)
{
    struct sock_fprog program = {0};
    struct error err = {0};
    char path[PLACE_PATH_SIZE];
    path_of(e, ENGINE_LINK "/" ENGINE_FILTER, path);
    if (filter_compile(filter_for_sandboxes(), &program, &err) < 0)
        return -EIO;
    int r = write_file(path, program.filter, program.len * sizeof(*program.filter), e->runner_id);
    filter_done(&program);
    return r;
}

static int write_profile(const struct engine *e)
{
    _cleanup_json_ json_t *profile = oci_seccomp_new(false);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(PROFILE_MAX);
    char path[PLACE_PATH_SIZE];
    path_of(e, "profile", path);
    int r = json_format(profile, &text);
    if (r < 0)
        return r;
    return write_file(path, text.data, text.len, 0);
}

/* Where ids are not mapped, the tool's name belongs to another number. */
static int write_users(const struct engine *e)
{
    char path[PLACE_PATH_SIZE], text[512];
    uint32_t id = e->tool_inside;
    int n = snprintf(text, sizeof(text),
                     "root:x:0:0:root:/:/usr/sbin/nologin\n"
                     "sandbox:x:%u:%u:sandbox:/home/sandbox:/bin/bash\n"
                     "nobody:x:65534:65534:nobody:/home/sandbox:/bin/sh\n",
                     id, id);
    path_of(e, "passwd", path);
    int r = write_file(path, text, (size_t)n, 0);
    n = snprintf(text, sizeof(text), "root:x:0:\nsandbox:x:%u:\nnogroup:x:65534:\n", id);
    path_of(e, "group", path);
    if (r < 0)
        return r;
    return write_file(path, text, (size_t)n, 0);
}

int place_files(struct engine *e)
{
    char link[PLACE_PATH_SIZE];
    path_of(e, ENGINE_LINK, link);
    if (chown(link, e->runner_id, e->runner_id) < 0)
        return -errno;
    int r = write_filter(e);
    if (r < 0)
        return r;
    r = write_profile(e);
    if (r < 0)
        return r;
    return write_users(e);
}

int place_authorities(const struct engine *e, int authority_fd)
{
    char view[PLACE_PATH_SIZE], path[PLACE_PATH_SIZE];
    if (authority_fd < 0 || e->image) /* an image has it among its own */
        return 0;
    root_path_of(e, "view" ROOT_AUTHORITIES, view);
    path_of(e, ENGINE_AUTHORITIES, path);
    return mount_write_authorities(view, authority_fd, path);
}

static void take_away(const char *path)
{
    umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    rmdir(path);
}

void place_clear(const struct engine *e)
{
    static const char *const names[] = {"root", "view"};
    char name[16], path[PLACE_PATH_SIZE];
    for (unsigned i = 0; i < PLAN_MOUNTS_MAX; i++) {
        snprintf(name, sizeof(name), "m%u", i);
        path_of(e, name, path);
        take_away(path);
    }
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        root_path_of(e, names[i], path);
        take_away(path);
    }
    rmdir(e->root);
    path_of(e, "image", path);
    take_away(path);
    path_of(e, "disk", path);
    take_away(path);
}
