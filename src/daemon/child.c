/* A child is forked from the warden, which lives in a mount namespace of its own and, unless
 * started as root, in a user namespace where it is root. The child goes back to the host's view
 * first. The user namespace cannot be left; a nested one, in which the caller is the caller again
 * and which has no say over the warden's, is as good. */
#include "daemon/child.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/control.h"
#include "daemon/handover.h"
#include "daemon/listeners.h"
#include "daemon/programs.h"
#include "store/state-dir.h"
#include "daemon/supervise.h"
#include "daemon/gateway-stage.h"
#include "daemon/keeper-stage.h"
#include "warden/warden.h"

static int become_caller_again(uid_t uid, gid_t gid)
{
    char map[64];
    /* /proc/self belongs to root while we are not dumpable. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (unshare(CLONE_NEWUSER) < 0)
        return -errno;
    fd_write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny");
    snprintf(map, sizeof(map), "%u 0 1", (unsigned)uid);
    int r = fd_write_file_at(AT_FDCWD, "/proc/self/uid_map", map);
    snprintf(map, sizeof(map), "%u 0 1", (unsigned)gid);
    return r < 0 ? r : fd_write_file_at(AT_FDCWD, "/proc/self/gid_map", map);
}

static int enter_host(const struct supervise_options *o)
{
    int r = warden_enter_host(o->warden);
    if (r < 0 || !warden_in_userns(o->warden))
        return r;
    return become_caller_again(o->uid, o->gid);
}

/* --- control plane */

static int seal(const struct supervise_options *o, const struct child_control *child, pid_t warden)
{
    struct handover h = {
        .generation = child->generation,
        .generations_before = child->generations_before,
        .warden_pid = warden,
        .privileged = o->privileged,
        .own_root = warden_has_own_root(o->warden),
        .line_mode = o->line_mode,
        .n_listeners = (uint32_t)o->listeners->n,
        .uid = o->uid,
        .gid = o->gid,
    };
    snprintf(h.state_path, sizeof(h.state_path), "%s", o->state->control_path);
    return handover_seal(&h, o->config);
}

static int arrange(const struct supervise_options *o, const struct child_control *child, int memory)
{
    int fds[HANDOVER_LISTENERS_MAX + 8];
    size_t n = 0;
    fds[n++] = child->warden_sock;
    fds[n++] = child->gateway_sock;
    fds[n++] = child->keeper_sock;
    fds[n++] = memory;
    fds[n++] = child->ready_fd;
    fds[n++] = o->state->control_fd;
    for (size_t i = 0; i < o->listeners->n; i++)
        fds[n++] = o->listeners->fds[i];
    if (o->line_mode && (dup2(o->line_in, 0) < 0 || dup2(o->line_out, 1) < 0))
        return -errno;
    return handover_arrange(fds, n);
}

/* Settings of the sanitizers, which are read at start, and a test's fault; nothing else of the
 * operator's. */
static char **child_environment(void)
{
    static const char *const names[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
                                        "MAS_FAULT", "MAS_CLOCK_JUMP"};
    static char text[ELEMENTS(names)][512], *env[ELEMENTS(names) + 1];
    size_t n = 0;
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        const char *value = getenv(names[i]);
        if (!value)
            continue;
        snprintf(text[n], sizeof(text[n]), "%s=%s", names[i], value);
        env[n] = text[n];
        n++;
    }
    return env;
}

static int exec_control(const struct supervise_options *o, const struct child_control *child,
                        pid_t warden)
{
    static char name[] = "mas-sandboxd", flag[] = HANDOVER_FLAG;
    char *argv[] = {name, flag, NULL};
    int memory = seal(o, child, warden);
    if (memory < 0)
        return memory;
    int self = fcntl(o->programs->self, F_DUPFD_CLOEXEC, HANDOVER_LISTEN + HANDOVER_LISTENERS_MAX);
    int r = self < 0 ? -errno : enter_host(o);
    if (r == 0)
        r = arrange(o, child, memory);
    if (r < 0)
        return r;
    execveat(self, "", argv, child_environment(), AT_EMPTY_PATH);
    return -errno;
}

pid_t child_start_control(const struct supervise_options *o, const struct child_control *child)
{
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_control(o, child, warden);
    log_error("control plane cannot be executed: %s", strerror(-r));
    _exit(CONTROL_EXIT_REFUSED);
}

/* --- gateway */

/* Executed anew, like the control plane: a fork would keep tokens and keys in its memory. */
static int exec_gateway(const struct supervise_options *o, int sock)
{
    char **argv = gateway_stage_argv(o->privileged, o->config);
    int self = fcntl(o->programs->self, F_DUPFD_CLOEXEC, HANDOVER_LISTEN + HANDOVER_LISTENERS_MAX);
    int r = self < 0 ? -errno : enter_host(o);
    if (r == 0)
        r = handover_arrange(&sock, 1);
    if (r < 0)
        return r;
    execveat(self, "", argv, child_environment(), AT_EMPTY_PATH);
    return -errno;
}

pid_t child_start_gateway(const struct supervise_options *o, int sock)
{
    pid_t warden = getpid(), pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_gateway(o, sock);
    log_error("gateway cannot be executed: %s", strerror(-r));
    _exit(1);
}

/* --- image keeper */

/* In the host's view, but with the warden's rights: it makes a root and a user namespace of its own
 * of them before it looks at anything. */
static int exec_keeper(const struct supervise_options *o, int sock)
{
    int fds[KEEPER_FDS] = {sock, o->state->images_fd, o->programs->default_image};
    size_t n = o->programs->default_image < 0 ? KEEPER_FDS - 1 : KEEPER_FDS;
    char **argv = keeper_stage_argv(o);
    int self = fcntl(o->programs->self, F_DUPFD_CLOEXEC, HANDOVER_LISTEN + HANDOVER_LISTENERS_MAX);
    int r = self < 0 ? -errno : warden_enter_host(o->warden);
    if (r == 0)
        r = handover_arrange(fds, n);
    if (r < 0)
        return r;
    execveat(self, "", argv, child_environment(), AT_EMPTY_PATH);
    return -errno;
}

pid_t child_start_keeper(const struct supervise_options *o, int sock)
{
    pid_t warden = getpid(), pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_keeper(o, sock);
    log_error("image keeper cannot be executed: %s", strerror(-r));
    _exit(1);
}
