/* SPDX-License-Identifier: Apache-2.0 */
/* See child.h. Runs in a copy of the zygote or the warden with full rights over its own new
 * namespaces and none over the host's, and gives those up step by step; every step that fails ends
 * it with a report. */
#include "warden/local/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "warden/cgroup.h"
#include "warden/local/image.h"
#include "warden/landlock.h"
#include "warden/local/mount.h"
#include "builder/rlimits.h"
#include "warden/local/root.h"
#include "filter/filter.h"
#include "warden/local/userns.h"

#define SCRATCH_INODES     64
#define SCRATCH_OPEN_FILES 1024
#define SCORE_FD           "6" /* CHILD_FREE_FD */

static int negative_errno(int r)
{
    return r < 0 ? -errno : r;
}

/* Groups and gid before the uid: after the change of the uid there is no right left to change them.
 * With one id for all (shared_uid) the kernel allows no setgroups(). */
static int become_inside(bool shared_uid)
{
    uid_t id = shared_uid ? SANDBOX_TOOL_ID : SANDBOX_RUNNER_ID;
    if (!shared_uid && setgroups(0, NULL) < 0)
        return -errno;
    if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return -errno;
    return 0;
}

static const int kept_caps[] = {CAP_SETUID, CAP_SETGID, CAP_KILL};
_Static_assert(ELEMENTS(kept_caps) == CHILD_RUNNER_CAPS, "child_runner_caps has their names");

static bool is_kept(int cap, bool shared_uid)
{
    for (size_t i = 0; !shared_uid && i < ELEMENTS(kept_caps); i++)
        if (kept_caps[i] == cap)
            return true;
    return false;
}

/* Up to the last capability that the running kernel knows, which may be newer than our headers. */
static int bound_caps(bool shared_uid)
{
    for (int cap = 0; cap <= CAP_LAST_CAP || prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!is_kept(cap, shared_uid) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 &&
            errno != EINVAL)
            return -errno;
    return 0;
}

static int drop_caps(bool shared_uid)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    uint32_t kept = 0;
    for (size_t i = 0; !shared_uid && i < ELEMENTS(kept_caps); i++)
        kept |= 1u << kept_caps[i];
    data[0].effective = data[0].permitted = kept;
    return negative_errno((int)syscall(SYS_capset, &header, data));
}

/* A descriptor for writing would keep /proc from being sealed, so it is opened before that is
 * mounted, in the one that the template has in its place and that no path leads to afterwards. (A
 * mount of its own would do as well, but to give it back costs a grace period of the kernel's.) The
 * files of a process that is closed to others are the host's root's, so it is opened to them first:
 * there is no other process in the sandbox yet. From here on it stays closed. */
static int open_score(void)
{
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    int fd = negative_errno(open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC));
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return fd;
}

/* Everything that does not depend on the plan. The order is given: ids are changed once they are
 * mapped; the tie to the warden comes after that, because a change of ids unties it; /proc is
 * mounted before the limits of user namespaces are written through it, and masked and sealed
 * afterwards. Returns the descriptor of the runner's score (toolrunner/oom-order.h), or -errno. */
static int become_blank(const struct child_template *t, int *seat)
{
    if (!t->from_zygote) { /* which has all of it already */
        fd_write_file_at(AT_FDCWD, "/proc/self/oom_score_adj", CHILD_OOM_ADJ);
        child_reset_signals();
        child_must(negative_errno(setsid()), "setsid", -1);
        child_must(rlimits_apply_fixed(), "set limits", -1);
    }
    child_wait_for_byte("wait for the id maps");
    child_must(become_inside(t->shared_uid), "change ids", WALL_USERS);
    child_must(child_die_with_warden(), "tie to the warden", -1);
    umask(022);
    if (!t->from_zygote) /* which has given it a network (network.h) */
        child_must(child_raise_loopback(), "loopback", WALL_NETWORK);
    int score = open_score();
    child_must(mount_proc(), "mount /proc", WALL_FILESYSTEM);
    int user_limits = child_open_user_limits();
    child_must(user_limits, "open user limits", WALL_USERS);
    child_must(child_write_user_limits(&t->user_limits, user_limits), "lower user limits",
               WALL_USERS);
    child_must(mount_proc_masks(), "mask /proc", WALL_FILESYSTEM);
    child_must(mount_devpts(), "mount /dev/pts", WALL_FILESYSTEM);
    child_must(
        mount_disk_prepare(t->shared_uid ? SANDBOX_TOOL_ID : SANDBOX_RUNNER_ID, SANDBOX_TOOL_ID),
        "prepare the disk", WALL_DISK);
    child_must(bound_caps(t->shared_uid), "bound capabilities", WALL_USERS);
    /* The memory's, and not before: what the kernel keeps for all this is the same for every blank,
     * and dearer to get and to give back when it is counted as the sandbox's. */
    if (*seat >= 0)
        child_must(cgroup_sit(seat), "join the cgroup", -1);
    child_must(negative_errno(unshare(CLONE_NEWCGROUP)), "cgroup namespace", -1);
    child_must(child_forbid_cgroup_namespaces(user_limits), "lower user limits", WALL_USERS);
    fd_close(&user_limits);
    child_must(mount_proc_seal(), "seal /proc", WALL_FILESYSTEM);
    return score;
}

static int open_landlock(const struct child_template *t)
{
    const char *writable[MOUNT_WRITABLE_MAX + 1] = {NULL};
    if (t->landlock_abi <= 0)
        return -1;
    mount_writable_dirs(writable);
    int fd = landlock_open(t->landlock_abi, writable);
    child_must(fd, "landlock", WALL_LANDLOCK);
    return fd;
}

static void set_disk(const struct child_order *o, int disk_fd)
{
    if (disk_fd >= 0) {
        child_must(mount_disk_replace(disk_fd), "mount the disk", WALL_DISK);
        return;
    }
    child_must(mount_disk_resize(o->disk_bytes, o->disk_inodes), "size the disk", WALL_DISK);
    if (o->flags & PLAN_TOOL_NOBODY)
        child_must(mount_disk_give(SANDBOX_NOBODY_ID), "give the disk", WALL_DISK);
}

/* An image is the root as a whole; without one, a root of its own is made only for mounts that the
 * template has no place for. True when there is another root now. */
static bool change_root(const struct child_template *t, const struct child_order *o,
                        const struct child_trees *trees, const char *const *targets, uid_t owner)
{
    if (trees->image >= 0) {
        struct image_upper upper = {
            .root_id = t->shared_uid ? SANDBOX_TOOL_ID : SANDBOX_RUNNER_ID,
            .tool_id = owner,
            .targets = targets,
            .n_targets = o->n_mounts,
            .authority_fd = trees->authority,
        };
        int r = image_root_enter(trees->image, &upper);
        child_must(r, upper.step, WALL_FILESYSTEM);
        return true;
    }
    if (!mount_targets_need_root(targets, o->n_mounts))
        return false;
    child_must(mount_own_root(), "make a root of its own", WALL_FILESYSTEM);
    return true;
}

static void open_landlock_again(const struct child_template *t, bool image, int *landlock_fd)
{
    fd_close(landlock_fd);
    *landlock_fd = open_landlock(t);
    if (image && *landlock_fd >= 0)
        child_must(image_root_allow_writing(*landlock_fd, t->landlock_abi), "landlock",
                   WALL_LANDLOCK);
}

/* Disk and mounts as ordered. The prepared Landlock rules are about what the paths named before. */
static void build_filesystem(const struct child_template *t, const struct child_order *o,
                             const struct child_trees *trees, int *landlock_fd)
{
    const char *targets[PLAN_MOUNTS_MAX];
    uid_t owner = o->flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    bool image = trees->image >= 0;
    for (uint32_t i = 0; i < o->n_mounts; i++)
        targets[i] = o->mounts[i].target;
    set_disk(o, trees->disk);
    bool own_root = change_root(t, o, trees, targets, owner);
    for (uint32_t i = 0; i < o->n_mounts; i++)
        child_must(mount_attach(trees->mounts[i], targets[i], owner), "attach a mount",
                   WALL_FILESYSTEM);
    if (trees->authority >= 0 && !image)
        child_must(mount_authority(trees->authority), "add a certificate authority",
                   WALL_FILESYSTEM);
    if (own_root && !image) /* an image's root is the sandbox's own to write */
        child_must(mount_seal_root(), "seal the root", WALL_FILESYSTEM);
    if (trees->disk >= 0 || own_root)
        open_landlock_again(t, image, landlock_fd);
    for (uint32_t i = 0; i < o->n_mounts && *landlock_fd >= 0; i++)
        child_must(landlock_allow_writing(*landlock_fd, t->landlock_abi, targets[i]), "landlock",
                   WALL_LANDLOCK);
}

/* It is the last descriptor that the runner gets; another program gets none. */
static int keep_score(const struct child_template *t, int fd)
{
    if (t->become_other) {
        fd_close_from(CHILD_FREE_FD);
        return 0;
    }
    if (fd == CHILD_FREE_FD)
        fd_set_cloexec(fd, false);
    else if (dup2(fd, CHILD_FREE_FD) < 0)
        return -errno;
    fd_close_from(CHILD_FREE_FD + 1);
    return 0;
}

/* From here on nothing is gained any more. no_new_privs comes before Landlock and seccomp, which
 * need it where there are no rights. Descriptors are closed after Landlock took its own. The tie to
 * the warden is made once more after the last change of credentials. The system call filter is
 * last: it forbids calls that the steps before it make. */
static void child_confine(const struct child_template *t, const struct child_order *o,
                          int landlock_fd, int score_fd)
{
    child_must(rlimits_apply_order(o), "lower rlimits", -1);
    child_must(negative_errno(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)), "no_new_privs", -1);
    if (landlock_fd >= 0)
        child_must(landlock_restrict(landlock_fd), "landlock", WALL_LANDLOCK);
    child_must(keep_score(t, score_fd), "keep the score", -1);
    child_must(drop_caps(t->shared_uid), "drop capabilities", WALL_USERS);
    child_must(child_die_with_warden(), "tie to the warden", -1);
    child_must(filter_install(t->seccomp), "seccomp", WALL_SYSCALLS);
}

static void start_runner(const struct child_template *t, const struct child_order *o)
    __attribute__((noreturn));

static void start_runner(const struct child_template *t, const struct child_order *o)
{
    const char *argv[CHILD_ARGS_MAX + 1] = {NULL};
    size_t argc = child_runner_args(o, t->shared_uid, argv);
    argv[argc++] = "--oom-score";
    argv[argc++] = SCORE_FD;
    if (t->become_runner)
        t->become_runner(argc, argv);
    execve(ROOT_RUNNER_PATH, (char **)argv, (char **)child_runner_env);
    child_must(-errno, "start the runner", -1);
    _exit(125);
}

/* What of the order is about the sandbox that another program is in. */
static void leave_to_other(const struct child_template *t, struct child_order *o)
{
    if (!o->disk_from_fd) {
        o->disk_bytes = t->scratch_bytes;
        o->disk_inodes = SCRATCH_INODES;
    }
    for (uint32_t i = 0; i < o->n_shares; i++)
        snprintf(o->mounts[i].target, sizeof(o->mounts[i].target), ORDER_SHARE_DIR "/%u", i);
    o->process_rlimit = 0;
    o->open_files = SCRATCH_OPEN_FILES;
}

/* The whole life of a sandbox's first process until it is the runner. It is a blank from "r" on,
 * and waits there for its order, perhaps for hours. The first thing is to die with the warden:
 * whatever follows, no half-made sandbox is left behind. */
void child_main(const struct child_template *t, const struct cgroup *cg, int stream_fd,
                int channel_fd, int failure_fd)
{
    struct child_order order, inner;
    struct child_trees trees;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int seat = -1, joined = 0;
    if (cg)
        joined = t->seat_late ? cgroup_enter_early(cg, &seat) : cgroup_enter(cg);
    if (child_keep_descriptors(stream_fd, channel_fd, failure_fd, seat >= 0 ? &seat : NULL) < 0)
        _exit(125);
    child_must(joined, "join the cgroup", -1);
    int score_fd = become_blank(t, &seat);
    child_must(score_fd, "open the score", -1);
    int landlock_fd = open_landlock(t);
    child_must((int)fd_send_msg(CHILD_CHANNEL_FD, "r", 1, NULL, 0), "report", -1);
    child_receive_order(&order, &trees);
    inner = order;
    if (t->become_other)
        leave_to_other(t, &order);
    child_must(negative_errno(sethostname(order.hostname, strlen(order.hostname))), "hostname", -1);
    build_filesystem(t, &order, &trees, &landlock_fd);
    child_must(negative_errno(chdir("/")), "chdir", WALL_FILESYSTEM);
    child_confine(t, &order, landlock_fd, score_fd);
    if (t->become_other)
        t->become_other(t, &inner);
    start_runner(t, &order);
}
