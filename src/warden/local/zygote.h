/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote: a small process that sandboxes are cloned from.
 *
 * Theory of operation. To clone a process is to copy its memory map, and to execute a program is to
 * throw that copy away. The warden has some hundred mappings of libraries that no sandbox needs. So
 * it executes, once, the runner's own program from the template root, with --zygote: static, a few
 * mappings, the warden's rights and mount namespace, no descriptors but a socket, its own
 * network namespace and the directories of control groups. Asked for a blank, it clones one into
 * new namespaces, as a child of the warden (CLONE_PARENT), which reaps it and which it dies with.
 * From there on the clone goes through child.c like any other, but for the end: it has the runner's
 * code already, so it calls that instead of executing it (zygote-main.c).
 *
 * What a sandbox gets of the zygote's memory is constants and what the warden told it at the start:
 * the system call filter and numbers from the configuration. It never serves a sandbox and never
 * reads anything but the warden's requests. Where it cannot be started, or dies, the warden clones
 * blanks from itself. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "warden/cgroup.h"
#include "warden/local/child.h"

struct warden;

#define ZYGOTE_SOCKET_FD 3
#define ZYGOTE_OPTION    "--zygote" /* of the runner's program; before padding */
/* With the others, as long as what a runner is usually started with, which a clone writes over it.
 */
#define ZYGOTE_PADDING "------------------------------------------------------"

/* The first message; with the directories of control groups that has[] counts, in that order. Then
 * follow the two parts of the system call filter: the zygote's, which all clones inherit, and what
 * each adds (filter.h). */
struct zygote_setup {
    struct child_template template; /* without its pointers */
    bool has[_CGROUP_MAX];
};

/* Comes with the child's ends: stream, channel, failures; then the group to clone into, if any. */
#define ZYGOTE_CGROUP 3
struct zygote_request {
    char cgroup[CGROUP_NAME_SIZE];
    bool in[_CGROUP_MAX]; /* groups that the child makes and joins */
    bool into_cgroup;
};

struct zygote_reply {
    int32_t pid; /* or -errno */
};

/* In the warden. */
struct zygote {
    int sock; /* -1: there is none */
    pid_t pid;
    struct watch *watch;
    bool served; /* since it was started */
};
/* Functions of the row of local cells, see struct cell_ops. A start that fails is logged, and then
 * there is none. */
void zygote_start(struct warden *w);
void zygote_stop(struct warden *w);
bool zygote_is_there(const struct warden *w);
/* The pid of a new child of the caller, -ESRCH when the zygote is gone, or -errno of the clone.
 * ends: stream, channel, failures. cgroup_fd: to clone into, or -1. */
pid_t zygote_clone(struct warden *w, const struct cgroup *cg, int cgroup_fd, const int ends[3]);

/* In the zygote. Ends with the warden. run: what main() does with the arguments of a runner. */
void zygote_main(int argc, char **argv, int (*run)(int argc, char **argv))
    __attribute__((noreturn));
