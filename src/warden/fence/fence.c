/* SPDX-License-Identifier: Apache-2.0 */
/* See fence.h. From fork() to the runner's exec, as child.c does it for namespaces: first what is
 * the same for all, then the order, then rights are given up step by step. */
#include "warden/fence/fence.h"
#include "builder/rlimits.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/capability.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "base/log.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "warden/cgroup.h"
#include "warden/state.h"

#define RUNNER_RIGHTS ((1u << CAP_SETUID) | (1u << CAP_SETGID)) /* for its first instructions */

static int negative_errno(int r)
{
    return r < 0 ? -errno : 0;
}

/* --- the host */

static void set_why(struct fence_host *h, const char *what, int error)
{
    snprintf(h->why, sizeof(h->why), "%s%s%s", what, error ? ": " : "",
             error ? strerror(-error) : "");
}

struct fence_host *fence_host(const struct warden *w)
{
    return w->hosts[CELL_FENCED];
}

int fence_host_open(struct warden *w, struct error *err)
{
    const char *parent = w->options.fence_dir;
    struct fence_host *h = w->hosts[CELL_FENCED] = new0(struct fence_host);
    (void)err;
    h->parent_fd = h->dir_fd = h->uids_fd = -1;
    h->runner_fd = fcntl(w->options.runner_fd, F_DUPFD_CLOEXEC, FENCE_FD_MIN);
    int swept = fence_dir_sweep(parent);
    if (swept)
        log_info("swept boxes of dead wardens count=%d", swept);
    int r = fence_rules_open_proc(h);
    if (r < 0)
        set_why(h, "it needs /proc", r);
    else if (landlock_abi() < FENCE_ABI_MIN)
        set_why(h, "it needs Landlock of version 3 in the kernel", 0);
    else if ((r = fence_dir_open(h, parent)) < 0)
        set_why(h, "make a directory in landlock_dir", r);
    return 0;
}

/* It is known now whether users are separate. */
void fence_host_start(struct warden *w)
{
    struct fence_host *h = fence_host(w);
    bool shared_uid = w->ids.shared;
    struct error err = {0};
    if (h->why[0])
        return;
    if (shared_uid && landlock_abi() < FENCE_ABI_SHARED)
        return set_why(h,
                       "without user ids of its own it needs Landlock of version 6, which keeps "
                       "signals in",
                       0);
    if (fence_filter_init(&h->filter, shared_uid, false, &err) < 0)
        return set_why(h, err.message, 0);
    if (filter_compile(&filter_fence_keeper, &h->keeper_filter, &err) < 0)
        return set_why(h, err.message, 0);
    if (shared_uid && fence_filter_init(&h->notify_filter, true, true, &err) < 0)
        log_info("commands cannot change modes of files here: %s", err.message);
}

void fence_host_close(struct warden *w)
{
    struct fence_host *h = fence_host(w);
    if (!h)
        return;
    fd_close(&h->runner_fd);
    fd_close(&h->uids_fd);
    for (size_t i = 0; i < FENCE_PROC_MAX; i++)
        if (h->proc_fds[i] > 0)
            fd_close(&h->proc_fds[i]);
    if (h->dir_fd >= 0) /* from here, the path may lead elsewhere */
        unlinkat(h->parent_fd, strrchr(h->path, '/') + 1, AT_REMOVEDIR);
    fd_close(&h->parent_fd);
    fd_close(&h->dir_fd);
    free(h->filter.filter);
    free(h->notify_filter.filter);
    filter_done(&h->keeper_filter);
    free(h);
    w->hosts[CELL_FENCED] = NULL;
}

void fence_box_name(const struct cell *s, char name[32])
{
    snprintf(name, 32, "s%llu", (unsigned long long)s->serial);
}

void fence_box_path(const struct cell *s, char *path, size_t size)
{
    char name[32];
    fence_box_name(s, name);
    snprintf(path, size, "%s/%s", fence_host(s->warden)->path, name);
}

/* --- the child */

struct fenced {
    const struct cell *cell;
    const struct warden *warden;
    bool shared;
    uint32_t runner_id, tool_id; /* of separate users */
    char box[FENCE_PATH_SIZE + 32];
    int runner_fd, rules_fd, command_rules_fd;
    int score_fd;    /* the runner's OOM score, or -1 */
    int notify_sock; /* to the keeper */
};

/* A file that is larger than the whole budget breaks it; no more than that can be said here. */
static int lower_rlimits(const struct child_order *o)
{
    int r = rlimits_apply_fixed();
    if (r < 0)
        return r;
    r = rlimits_apply_order(o);
    if (r < 0)
        return r;
    /* There is no IPC namespace of its own: a POSIX message queue would be one of the host's. */
    r = rlimits_lower(RLIMIT_MSGQUEUE, 0);
    if (r < 0)
        return r;
    return o->disk_bytes ? rlimits_lower(RLIMIT_FSIZE, o->disk_bytes) : 0;
}

/* Without the right to drop them, no_new_privs keeps them out. */
int fence_bound_caps(void)
{
    int r = capability_bound(0);
    return r == -EPERM ? 0 : r;
}

static bool has_right(int cap)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 && data[0].permitted & (1u << cap);
}

static int set_caps(uint32_t rights, uint32_t inheritable)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{rights, rights, inheritable}};
    return negative_errno((int)syscall(SYS_capset, &header, data));
}

/* The runner becomes half the commands' user by itself (runner.c), which takes two rights past its
 * exec; there they end. */
static int become_separate(const struct fenced *f)
{
    uid_t id = f->runner_id;
    if (setgroups(0, NULL) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
        setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0)
        return -errno;
    uint32_t bounding = has_right(CAP_SETPCAP) ? 1u << CAP_SETPCAP : 0;
    int r = set_caps(RUNNER_RIGHTS | bounding, RUNNER_RIGHTS);
    if (r < 0)
        return r;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETGID, 0, 0) < 0)
        return -errno;
    r = fence_bound_caps(); /* not before: what is to be inherited must be in it */
    if (r < 0)
        return r;
    return set_caps(RUNNER_RIGHTS, RUNNER_RIGHTS);
}

static int become_user(const struct fenced *f)
{
    if (!f->shared)
        return become_separate(f);
    int r = f->warden->ids.in_userns ? userns_become_caller(f->warden->options.process_uid,
                                                            f->warden->options.process_gid)
                                     : 0;
    if (r < 0)
        return r;
    r = fence_bound_caps();
    if (r < 0)
        return r;
    return set_caps(0, 0);
}

/* The commands' rules go with the runner, its own and its program to its start, nothing else. */
static int place_descriptors(struct fenced *f)
{
    int *const fds[] = {&f->command_rules_fd, &f->rules_fd, &f->runner_fd, &f->notify_sock};
    for (size_t i = 0; i < ELEMENTS(fds); i++)
        if ((*fds[i] = fcntl(*fds[i], F_DUPFD_CLOEXEC, FENCE_FD_MIN)) < 0)
            return -errno;
    for (size_t i = 0; i < ELEMENTS(fds); i++) {
        int to = FENCE_RULES_FD + (int)i;
        if (dup3(*fds[i], to, i ? O_CLOEXEC : 0) < 0)
            return -errno;
        *fds[i] = to;
    }
    return negative_errno(close_range(FENCE_RULES_FD + ELEMENTS(fds), ~0U, 0));
}

/* Everything that does not depend on the plan. */
static void prepare_box(struct fenced *f)
{
    const struct fence_host *h = fence_host(f->warden);
    int abi = f->warden->child_template.landlock_abi;
    uid_t owner = f->shared ? (uid_t)-1 : f->tool_id;
    child_reset_signals();
    child_must(negative_errno(setsid()), "setsid", -1);
    umask(022);
    child_must(fence_box_make(f->box, owner, owner), "make a box", WALL_FILESYSTEM);
    f->rules_fd = fence_rules_open(h, abi, f->box, FENCE_RUNNER);
    child_must(f->rules_fd, "landlock", WALL_LANDLOCK);
    f->command_rules_fd = fence_rules_open(h, abi, f->box, FENCE_COMMAND);
    child_must(f->command_rules_fd, "landlock", WALL_LANDLOCK);
    child_must(place_descriptors(f), "descriptors", -1);
    child_wait_for_byte("wait for the warden");
}

/* The keeper answers the notifications, where the kernel lets it and no other process does so
 * already. */
static int apply_fence(const struct fenced *f)
{
    const struct fence_host *h = fence_host(f->warden);
    int fd = h->notify_filter.len ? fence_notify_install(&h->notify_filter) : -EOPNOTSUPP;
    if (fd < 0)
        return filter_install(&h->filter);
    ssize_t n = fd_send_msg(f->notify_sock, "n", 1, &fd, 1);
    close(fd);
    return n < 0 ? (int)n : 0;
}

static void confine_runner(struct fenced *f, const struct child_order *o, pid_t keeper)
{
    child_must(lower_rlimits(o), "lower rlimits", -1);
    /* Opened here, because the user below may not. The runner has it across execve(). */
    f->score_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (f->score_fd >= 0)
        fd_set_cloexec(f->score_fd, false);
    child_must(become_user(f), "change ids", WALL_USERS);
    child_must(negative_errno(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)), "no_new_privs", -1);
    child_must(landlock_restrict(f->rules_fd), "landlock", WALL_LANDLOCK);
    /* After the last change of credentials, which clears it. */
    child_must(negative_errno(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)), "tie to the keeper", -1);
    if (getppid() != keeper)
        _exit(0);
    child_must(apply_fence(f), "seccomp", WALL_SYSCALLS);
    /* The last one: it refuses further filters. */
    child_must(filter_install(f->warden->child_template.seccomp), "seccomp", WALL_SYSCALLS);
}

static void exec_runner(const struct fenced *f) __attribute__((noreturn));

static void exec_runner(const struct fenced *f)
{
    char id[16], rules[16], score[16], workdir[sizeof(f->box) + 32], home[sizeof(f->box) + 32];
    const char *argv[16] = {"mas-toolrunner",  "--fd", "3", "--channel", "4", "--workdir", workdir,
                            "--command-rules", rules};
    const char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", home, NULL};
    size_t n = 9;
    snprintf(id, sizeof(id), "%u", (unsigned)f->tool_id);
    snprintf(rules, sizeof(rules), "%d", FENCE_RULES_FD);
    snprintf(workdir, sizeof(workdir), "%s/" FENCE_WORKDIR, f->box);
    snprintf(home, sizeof(home), "HOME=%s/home", f->box);
    if (f->shared) {
        argv[n++] = "--shared-uid";
    } else {
        argv[n++] = "--acting-uid";
        argv[n++] = id;
    }
    if (f->score_fd >= 0) {
        snprintf(score, sizeof(score), "%d", f->score_fd);
        argv[n++] = "--oom-score";
        argv[n++] = score;
    }
    syscall(SYS_execveat, f->runner_fd, "", argv, env, AT_EMPTY_PATH);
    child_must(-errno, "start the runner", -1);
    _exit(125);
}

static void fenced_main(const struct cell *s, pid_t keeper, int notify_sock,
                        const struct cell_ends *ends) __attribute__((noreturn));

static void fenced_main(const struct cell *s, pid_t keeper, int notify_sock,
                        const struct cell_ends *ends)
{
    const struct warden *w = s->warden;
    struct child_order order;
    struct child_trees trees;
    struct fenced f = {
        .cell = s,
        .warden = w,
        .shared = w->ids.shared,
        .runner_fd = fence_host(w)->runner_fd,
        .notify_sock = notify_sock,
        .runner_id = id_block_host_id(&w->ids, s->id_block, SANDBOX_RUNNER_ID),
        .tool_id = id_block_host_id(&w->ids, s->id_block, SANDBOX_TOOL_ID),
    };
    fence_box_path(s, f.box, sizeof(f.box));
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int joined = cgroup_enter(&s->cgroup);
    int moved = warden_enter_host(w);
    if (child_take_descriptors(ends->stream, ends->channel, ends->failure) < 0)
        _exit(125);
    child_must(joined, "join the cgroup", -1);
    child_must(moved, "leave the warden's root", -1);
    prepare_box(&f);
    child_must((int)fd_send_msg(CHILD_CHANNEL_FD, "r", 1, NULL, 0), "report", -1);
    child_receive_order(&order, &trees);
    confine_runner(&f, &order, keeper);
    exec_runner(&f);
}

void fence_main(const struct cell *s, const struct cell_ends *ends)
{
    pid_t keeper = getpid();
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        _exit(125);
    for (int i = 0; i < 2; i++)
        if ((pair[i] = fcntl(pair[i], F_DUPFD_CLOEXEC, FENCE_FD_MIN)) < 0)
            _exit(125);
    pid_t pid = fork();
    if (pid == 0)
        fenced_main(s, keeper, pair[1], ends);
    if (pid < 0)
        _exit(125);
    fence_keep(s, pid, ends->channel, pair[0], ends->failure);
}
