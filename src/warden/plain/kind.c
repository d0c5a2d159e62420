/* SPDX-License-Identifier: Apache-2.0 */
/* The process runtime's cells: the runner as an ordinary process of an ordinary user, in nothing
 * but a pid namespace, which makes sure that it ends with all its children. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/rlimits.h"
#include "warden/cell-internal.h"
#include "warden/local/root.h"

#define PLAIN_WORKDIR "/tmp"

static int negative_errno(int r)
{
    return r < 0 ? -errno : 0;
}

static int become_user(const struct warden *w)
{
    uid_t uid = w->options.process_uid;
    gid_t gid = w->options.process_gid;
    if (!w->was_root)
        return userns_become_caller(uid, gid);
    if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    return 0;
}

static int plain_check(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    const char *why = NULL;
    if (!w->options.process_enabled)
        why = "the process runtime is not enabled (enable_process)";
    else if (p->n_mounts || p->flags != PLAN_PROCESS)
        why = "the process runtime has no mounts and no network tools";
    if (!why)
        return 0;
    snprintf(reply->message, sizeof(reply->message), "%s", why);
    return -EPERM;
}

static bool plain_takes(const struct plan *p)
{
    return p->flags & PLAN_PROCESS;
}

static void plain_main(const struct cell *s, const struct cell_ends *ends)
{
    const struct warden *w = s->warden;
    struct child_order order;
    struct child_trees trees;
    const char *argv[] = {"mas-toolrunner", "--fd",        "3",         "--channel", "4",
                          "--workdir",      PLAIN_WORKDIR, (char *)NULL};
    const char *env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" PLAIN_WORKDIR, NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    int runner = open(ROOT_RUNNER_PATH, O_RDONLY | O_CLOEXEC);
    int moved = runner < 0 ? -errno : negative_errno(setns(w->host_ns_fd, CLONE_NEWNS));
    if (child_keep_descriptors(ends->stream, ends->channel, ends->failure, &runner) < 0)
        _exit(125);
    child_must(moved, "leave the warden's root", -1);
    child_reset_signals();
    child_must(rlimits_apply_fixed(), "set limits", -1);
    child_must(rlimits_lower(RLIMIT_NOFILE, w->options.open_files_default), "set limits", -1);
    child_must((int)fd_send_msg(CHILD_CHANNEL_FD, "r", 1, NULL, 0), "report", -1);
    child_receive_order(&order, &trees); /* which says no more than that there is a plan */
    child_must(become_user(w), "become an ordinary user", -1);
    child_must(negative_errno(setsid()), "setsid", -1);
    child_must(negative_errno(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)), "no_new_privs", -1);
    child_must(child_die_with_warden(), "tie to the warden", -1);
    child_must(negative_errno(chdir(PLAIN_WORKDIR)), "chdir", -1);
    syscall(SYS_execveat, runner, "", argv, env, AT_EMPTY_PATH);
    child_must(-errno, "start the runner", -1);
    _exit(125);
}

const struct cell_ops cell_plain = {
    .name = "process",
    .size = sizeof(struct cell),
    .needs_namespaces = true,
    .takes = plain_takes,
    .check = plain_check,
    .clone_flags = CLONE_NEWPID,
    .clone = cell_clone,
    .main = plain_main,
    .send_order = cell_send_child_order,
    .kill = cell_kill_process,
    .freeze = cell_freeze_group,
    .read_stats = cell_read_group_stats,
    .disk = "/var/tmp",
};
