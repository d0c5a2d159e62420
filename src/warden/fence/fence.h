/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes without namespaces: the landlock runtime.
 *
 * Theory of operation. The runner and its commands are processes of the host's own namespaces, in
 * directories of their own (a box), behind
 *
 *   Landlock   read and run /usr and a few files; write in the box; signals and abstract sockets
 *              stay inside (ABI 6)
 *   seccomp    the allowlist of all sandboxes, and filter.c: no sockets, no System V objects,
 *              no hold on other processes
 *   user ids   of their own where the warden may give them: one for the runner, one for commands
 *   cgroups    where the warden has them
 *
 * There is no pid namespace to end them with, so each sandbox has a keeper (keeper.c): a
 * child of the warden's that is the parent of the runner and of all that loses its parent. It ends
 * them when the runner ends, when the warden asks for it, and when the warden is gone. If the
 * keeper itself is killed, the runner dies with it and what is left becomes the warden's, which
 * ends it (stray.c). What outlives both is ended by the next daemon's sweep (dir.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/filter.h>

struct cell;
struct cell_ends;
struct error;
struct warden;
struct watcher;

#define FENCE_PATH_SIZE  128
#define FENCE_PROC_MAX   16
#define FENCE_ABI_MIN    3  /* before it, Landlock cannot refuse truncation */
#define FENCE_ABI_SHARED 6  /* where users are not separate: signals and sockets stay inside */
#define FENCE_RULES_FD   6  /* of the runner: what each command enters */
#define FENCE_FD_MIN     32 /* the warden's; below, a child arranges its own */
#define FENCE_WORKDIR    "workspace"

/* What all fenced sandboxes of a warden share. */
struct fence_host {
    int parent_fd;                /* where dir_fd is */
    int dir_fd;                   /* where boxes are made, locked while we live; -1: none */
    char path[FENCE_PATH_SIZE];   /* its name on the host */
    char why[192];                /* why there are no fenced sandboxes; "" when there are */
    int runner_fd;                /* the runner's program */
    int uids_fd;                  /* where blocks of ids are locked; -1: nowhere */
    int proc_fds[FENCE_PROC_MAX]; /* keep the kernel from forgetting what rules are about */
    struct sock_fprog filter;
    struct sock_fprog notify_filter; /* where the keeper can be asked; else filter */
    struct sock_fprog keeper_filter; /* what a keeper may call */
    struct watch *stray_timer;
};

struct fence_host *fence_host(const struct warden *w);
/* Functions of the row, see struct cell_ops. The first never fails: where there can be no such
 * sandboxes, why says so. */
int fence_host_open(struct warden *w, struct error *err);
void fence_host_start(struct warden *w);
void fence_host_close(struct warden *w);

/* The box of a cell: its name in dir_fd, and on the host. */
void fence_box_name(const struct cell *s, char name[32]);
void fence_box_path(const struct cell *s, char *path, size_t size);

/* In the cell's process: never returns. */
void fence_main(const struct cell *s, const struct cell_ends *ends) __attribute__((noreturn));
/* Of fence_main(): ends with the runner's status. notify_sock brings the listener, if there is one.
 */
void fence_keep(const struct cell *s, pid_t runner, int channel_fd, int notify_sock, int failure_fd)
    __attribute__((noreturn));
/* In the warden, after the keeper's end: what it should have done and did not. */
void fence_end_strays(struct warden *w, const struct cell *s);

/* A block of ids that no other daemon of this host has fenced sandboxes in, and its lock (-1 where
 * there are no locks). -EAGAIN when all are in use. */
int64_t fence_ids_take(struct warden *w, int *ret_lock_fd);

enum fence_whom { FENCE_RUNNER, FENCE_COMMAND };
/* A ruleset, or -errno. */
int fence_rules_open(const struct fence_host *h, int abi, const char *box, enum fence_whom whom);
int fence_rules_open_proc(struct fence_host *h);
/* Empties the bounding set, where the process has the right to. */
int fence_bound_caps(void);
/* notify: what concerns attributes of files is not refused but asked of the keeper. */
int fence_filter_init(struct sock_fprog *p, bool shared_uid, bool notify, struct error *err);

/* notify.c: the listener, or -errno; one question, answered. */
int fence_notify_install(const struct sock_fprog *p);
void fence_notify_serve(int notify_fd, const char *box);

/* dir.c */
int fence_dir_open(struct fence_host *h, const char *parent);
int fence_dir_sweep(const char *parent);
int fence_box_make(const char *path, uid_t uid, gid_t gid);
/* Opens a directory of our own user's that its modes close; never through a link. */
int fence_dir_unlock(int parent, const char *name);
/* max_ms 0: takes as long as it takes. */
int fence_box_remove(int dir_fd, const char *name, int max_ms);

/* stray.c: SIGKILL to all that the test finds; how many there were. */
struct fence_process {
    pid_t pid, parent;
    char state;
    unsigned long long started; /* with the pid, unlike any other process's */
};
typedef bool (*fence_is_one)(const struct fence_process *p, const struct fence_process *all,
                             size_t n, const void *data);
unsigned fence_kill(int proc_fd, fence_is_one is_one, const void *data);
bool fence_descends(const struct fence_process *p, const struct fence_process *all, size_t n,
                    const void *ancestor);
