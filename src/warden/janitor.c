/* SPDX-License-Identifier: Apache-2.0 */
/* See janitor.h. */
#include "warden/janitor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "warden/cgroup.h"
#include "warden/sweep.h"

#define JANITOR_RETRY_MS 5
#define JANITOR_TRIES    2000 /* for one group; then the next start's sweep has to do it */
#define JANITOR_END_MS   5000 /* for all groups after the warden's end */

struct chore {
    struct list link;
    struct cgroup cgroup;
    int tries;
};

/* The warden's listening sockets, pipes and terminals must not stay open because of us. */
static void keep_only(const struct cgroup_root *root, int sock)
{
    int kept[2 * _CGROUP_MAX + 1];
    for (int i = 0; i < _CGROUP_MAX; i++) {
        kept[2 * i] = root->fd[i];
        kept[2 * i + 1] = root->parent_fd[i];
    }
    kept[2 * _CGROUP_MAX] = sock;
    fd_keep_only(kept, ELEMENTS(kept));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i <= 2 && null >= 0; i++)
        dup2(null, i);
    fd_close(&null);
}

/* false at the warden's end. */
static bool take_chore(const struct cgroup_root *root, int sock, struct list *chores)
{
    struct chore *c = new0(struct chore);
    ssize_t n = recv(sock, &c->cgroup, sizeof(c->cgroup), 0);
    if (n != sizeof(c->cgroup)) {
        free(c);
        return n < 0 && errno == EINTR;
    }
    c->cgroup.root = root;
    list_append(chores, &c->link);
    return true;
}

/* At the warden's end: all groups of this instance, also those that no chore was sent for. True
 * when none is left. */
static bool sweep_instance(const struct cgroup_root *root)
{
    bool gone = true;
    for (int i = 0; i < _CGROUP_MAX; i++) {
        if (root->parent_fd[i] < 0)
            continue;
        sweep_cgroup_tree(root->parent_fd[i], root->instance);
        gone = gone && faccessat(root->parent_fd[i], root->instance, F_OK, 0) < 0;
    }
    return gone;
}

static void janitor_main(const struct cgroup_root *root, int sock) __attribute__((noreturn));

/* The only helper that is not tied to the warden: it removes what the warden leaves, which takes
 * JANITOR_END_MS at the most. So it gives up first of all what a warden's death must set free. */
static void janitor_main(const struct cgroup_root *root, int sock)
{
    struct list chores = LIST_INIT(chores);
    keep_only(root, sock);
    prctl(PR_SET_NAME, "mas-janitor", 0, 0, 0);
    setsid(); /* away from the terminal's signals */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (bool alive = true; alive;) {
        struct pollfd p = {.fd = sock, .events = POLLIN};
        if (poll(&p, 1, list_empty(&chores) ? -1 : JANITOR_RETRY_MS) > 0)
            alive = take_chore(root, sock, &chores);
        /* A group can be removed only when the kernel has let go of its last process, which happens
         * some time after the process was reaped. That wait is why this is a process of its own. */
        list_for_each_safe(c, &chores, struct chore, link) {
            if (cgroup_remove(&c->cgroup) < 0 && ++c->tries < JANITOR_TRIES)
                continue;
            list_remove(&c->link);
            free(c);
        }
    }
    int64_t end = clock_mono_ms() + JANITOR_END_MS;
    while (!sweep_instance(root) && clock_mono_ms() < end)
        poll(NULL, 0, JANITOR_RETRY_MS);
    cgroup_root_leave(root);
    _exit(0);
}

int janitor_start(struct janitor *j, const struct cgroup_root *root)
{
    int pair[2];
    *j = (struct janitor){.sock = -1};
    if (!root->driver)
        return 0;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    j->pid = fork();
    if (j->pid == 0)
        janitor_main(root, pair[1]);
    close(pair[1]);
    j->sock = pair[0];
    if (j->pid > 0)
        return 0;
    int error = -errno;
    fd_close(&j->sock);
    j->pid = 0;
    return error;
}

void janitor_remove(struct janitor *j, struct cgroup *cg)
{
    if (cg->root && j->sock >= 0)
        send(j->sock, cg, sizeof(*cg), MSG_DONTWAIT | MSG_NOSIGNAL);
    *cg = (struct cgroup){0}; /* what could not be sent is swept at the end */
}

void janitor_stop(struct janitor *j)
{
    fd_close(&j->sock);
    if (j->pid > 0)
        waitpid(j->pid, NULL, 0);
    j->pid = 0;
}
