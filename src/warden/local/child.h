/* What happens between clone() and the runner's exec, in the new process.
 *
 * A child first makes itself a blank: namespaces, ids, cgroup, /proc, everything that is the same
 * for all sandboxes. Then it waits for its order, and only with it becomes a sandbox. Blanks can
 * thus be made ahead; each is given to exactly one sandbox.
 *
 * The warden and the child share a SOCK_SEQPACKET channel (descriptor 4 of the child, kept by the
 * runner for fresh connections): first one byte once the id maps are written, one byte
 * back when the child is a blank, then struct child_order with the mounts' descriptors, then one
 * byte with the disk's and the image's, if there are any. Failures come back as struct
 * child_failure on a close-on-exec pipe; its end without a record means that the runner runs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "proto/plan.h"

struct cgroup;
struct sock_fprog;

#define CHILD_STREAM_FD  3
#define CHILD_CHANNEL_FD 4
#define CHILD_FREE_FD    6     /* the one below reports failures */
#define CHILD_OOM_ADJ    "200" /* before the daemon's own when the host is out of memory */

/* The same for all children of a warden; read by the child from its copy of the warden's memory. */
struct child_template {
    const struct sock_fprog *seccomp;
    int landlock_abi;
    bool shared_uid;
    uint32_t inotify_instances, inotify_watches, fanotify_groups, fanotify_marks;
    bool seat_late;   /* the memory's group may be joined by who has given up the warden's user */
    bool from_zygote; /* a copy of it (zygote.h), not of the warden */
    /* The zygote's: goes on as the runner, if it can; or returns. NULL: the runner is executed. */
    void (*become_runner)(size_t argc, const char **argv);
};

struct child_mount {
    char target[PLAN_PATH_SIZE];
};

/* Detached mounts that come with an order; -1 where there is none. */
struct child_trees {
    int mounts[PLAN_MOUNTS_MAX];
    int disk, image;
};
void child_trees_init(struct child_trees *t);
void child_trees_close(struct child_trees *t);

struct child_order {
    uint32_t flags; /* enum plan_flags */
    uint32_t n_mounts;
    uint32_t disk_from_fd, image_from_fd; /* they come with a second message */
    uint32_t open_files;
    uint32_t process_rlimit; /* 0: a cgroup limits processes */
    uint32_t backend;        /* enum oci_backend: who builds the rest */
    uint32_t platform;       /* that its kernel is known to work on: 1 and the index, or 0 */
    uint64_t disk_bytes, disk_inodes;
    struct limits limits; /* those that a cgroup enforces */
    char hostname[64];
    char workdir[PLAN_PATH_SIZE];
    struct child_mount mounts[PLAN_MOUNTS_MAX];
};

struct child_failure {
    int32_t error;
    int32_t wall; /* or -1 */
    char step[160];
};

/* For plain.c and oci-launch.c: descriptors moved to their numbers, all others but *extra_fd (may
 * be NULL) closed; signals as a program expects them; a failed step reported. */
int child_keep_descriptors(int stream_fd, int channel_fd, int failure_fd, int *extra_fd);
/* The same without closing any: numbers below CHILD_FREE_FD are taken. */
int child_take_descriptors(int stream_fd, int channel_fd, int failure_fd);
void child_reset_signals(void);
int child_die_with_warden(void);
void child_must(int r, const char *step, int wall);

/* For oci-*.c: the same steps, for a sandbox that an OCI runtime builds. */
#define CHILD_ARGS_MAX 15
size_t child_runner_args(const struct child_order *o, bool shared_uid, const char **argv);
extern const char *const child_runner_env[], *const child_runner_caps[]; /* NULL-terminated */
void child_report_running(void); /* where no exec closes the pipe */
void child_wait_for_byte(const char *step);
void child_receive_order(struct child_order *o, struct child_trees *ret);
int child_raise_loopback(void);
int child_lower_user_limits(const struct child_template *t);

/* Never returns. The descriptors are the child's ends. cg: to be made and joined; NULL: none. */
void child_main(const struct child_template *t, const struct cgroup *cg, int stream_fd,
                int channel_fd, int failure_fd) __attribute__((noreturn));
