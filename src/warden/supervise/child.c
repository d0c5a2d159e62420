/* SPDX-License-Identifier: Apache-2.0 */
/* A child is forked from the warden, which lives in a mount namespace of its own and, unless
 * started as root, in a user namespace where it is root. The child goes back to the host's view
 * first. The user namespace cannot be left; a nested one, in which the caller is the caller again
 * and which has no say over the warden's, is as good. */
#include "warden/supervise/child.h"

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
#include "warden/startup.h"
#include "warden/supervise/supervise.h"

#define FIRST_FD HANDOVER_WARDEN
#define FDS_MAX  (HANDOVER_KUBE - FIRST_FD + 1)
/* Above any number that a child finds a descriptor at. */
#define PARKING (FIRST_FD + FDS_MAX)

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
    if (r < 0)
        return r;
    return fd_write_file_at(AT_FDCWD, "/proc/self/gid_map", map);
}

/* Settings of the sanitizers, which are read at start, and a test's fault; nothing else of the
 * operator's. */
static char **child_environment(void)
{
    static const char *const names[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS",  "LSAN_OPTIONS",
                                        "MAS_FAULT",    "MAS_CLOCK_JUMP", "MAS_CUT_RUNNERS"};
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

/* Moves fds[0..n) to FIRST_FD and up; all others but 0 to 2 are closed by the execution. */
static int arrange_descriptors(const int *fds, size_t n)
{
    int parked[FDS_MAX];
    /* One that is -1 stays closed. Twice, because a source may sit on the number that another one
     * is to have. */
    for (size_t i = 0; i < n; i++) {
        parked[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD_CLOEXEC, PARKING);
        if (parked[i] < 0 && fds[i] >= 0)
            return -errno;
    }
    for (size_t i = 0; i < n; i++)
        if (parked[i] < 0)
            close(FIRST_FD + (int)i);
        else if (dup2(parked[i], FIRST_FD + (int)i) < 0)
            return -errno;
    return close_range(FIRST_FD + (unsigned)n, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ? -errno : 0;
}

/* In the child; returns only on failure. Executed, and not only forked: the memory of the warden
 * has what it knows of all sandboxes. as_caller: without root's rights in the warden's user
 * namespace, where it has one.
 */
static int exec_program(const struct supervise_options *o, int program, const char *called,
                        const char *flag, bool as_caller, const int *fds, size_t n)
{
    _cleanup_free_ char *name = xstrdup(called), *role = xstrdup(flag);
    char *argv[] = {name, role, NULL};
    program = fcntl(program, F_DUPFD_CLOEXEC, PARKING);
    int r = program < 0 ? -errno : warden_enter_host(o->warden);
    if (r == 0 && as_caller && warden_in_userns(o->warden))
        r = become_caller_again(o->startup->uid, o->startup->gid);
    if (r == 0)
        r = arrange_descriptors(fds, n);
    if (r < 0)
        return r;
    execveat(program, "", argv, child_environment(), AT_EMPTY_PATH);
    return -errno;
}

static int exec_daemon(const struct supervise_options *o, int program, const char *flag,
                       bool as_caller, const int *fds, size_t n)
{
    return exec_program(o, program, "mas-sandboxd", flag, as_caller, fds, n);
}

/* --- control plane */

int child_send_handover(const struct supervise_options *o, const struct child_control *child,
                        int warden_end)
{
    struct handover h = {
        .major = PROTOCOL_MAJOR,
        .minor = PROTOCOL_MINOR,
        .generation = child->generation,
        .generations_before = child->generations_before,
        .warden_pid = getpid(),
        .privileged = o->startup->privileged,
        .own_root = warden_has_own_root(o->warden),
        .line_mode = o->startup->line_mode,
        .announce = child->announce,
        .n_listeners = o->startup->n_listeners,
        .uid = o->startup->uid,
        .gid = o->startup->gid,
    };
    snprintf(h.state_path, sizeof(h.state_path), "%s", o->startup->control_path);
    const int room[] = {warden_promised_fd(o->warden), warden_claims_fd(o->warden)};
    ssize_t n = fd_send_msg(warden_end, &h, sizeof(h), room, ELEMENTS(room));
    return n < 0 ? (int)n : 0;
}

static int exec_control(const struct supervise_options *o, int program,
                        const struct child_control *child)
{
    const struct startup *s = o->startup;
    int fds[FDS_MAX] = {child->warden_sock, s->control_config_fd, child->gateway_sock,
                        child->keeper_sock, child->ready_fd,      s->state_control_fd};
    for (uint32_t i = 0; i < HANDOVER_LISTENERS_MAX; i++)
        fds[HANDOVER_LISTEN - FIRST_FD + i] = i < s->n_listeners ? s->listeners[i].fd : -1;
    fds[HANDOVER_KUBE - FIRST_FD] = s->kube_settings_fd < 0 ? -1 : child->kube_sock;
    if (s->line_mode && (dup2(s->line_in, 0) < 0 || dup2(s->line_out, 1) < 0))
        return -errno;
    return exec_daemon(o, program, HANDOVER_CONTROL_FLAG, true, fds, FDS_MAX);
}

pid_t child_start_control(const struct supervise_options *o, int program,
                          const struct child_control *child)
{
    pid_t warden = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_control(o, program, child);
    log_error("control plane cannot be executed: %s", strerror(-r));
    _exit(CONTROL_EXIT_REFUSED);
}

/* --- gateway and image keeper */

pid_t child_start_gateway(const struct supervise_options *o, int program, int sock)
{
    const int fds[] = {sock, o->startup->gateway_config_fd};
    pid_t warden = getpid(), pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_daemon(o, program, HANDOVER_GATEWAY_FLAG, true, fds, ELEMENTS(fds));
    log_error("gateway cannot be executed: %s", strerror(-r));
    _exit(1);
}

pid_t child_start_kube(const struct supervise_options *o, int sock)
{
    const struct startup *s = o->startup;
    const int fds[] = {sock, s->kube_settings_fd};
    pid_t warden = getpid(), pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_program(o, s->kube_fd, "mas-kube", HANDOVER_KUBE_FLAG, true, fds, ELEMENTS(fds));
    log_error("mas-kube cannot be executed: %s", strerror(-r));
    _exit(1);
}

/* In the host's view, but with the warden's rights: it makes a root and a user namespace of its own
 * of them before it looks at anything. */
pid_t child_start_keeper(const struct supervise_options *o, int program, int sock, int gateway_sock)
{
    const struct startup *s = o->startup;
    const int fds[] = {sock,
                       s->keeper_config_fd,
                       s->state_images_fd,
                       s->default_image_fd,
                       warden_promised_fd(o->warden),
                       gateway_sock,
                       warden_claims_fd(o->warden)};
    pid_t warden = getpid(), pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_daemon(o, program, HANDOVER_KEEPER_FLAG, false, fds, ELEMENTS(fds));
    log_error("image keeper cannot be executed: %s", strerror(-r));
    _exit(1);
}

pid_t child_start_probe(const struct supervise_options *o, int program, int answer_fd)
{
    const int fds[] = {answer_fd, o->startup->control_config_fd};
    pid_t warden = getpid(), pid = fork();
    if (pid != 0)
        return pid < 0 ? -errno : pid;
    helper_tie(warden);
    int r = exec_daemon(o, program, HANDOVER_PROBE_FLAG, true, fds, ELEMENTS(fds));
    dprintf(answer_fd, "it cannot be executed: %s", strerror(-r));
    _exit(1);
}
