/* SPDX-License-Identifier: Apache-2.0 */
/* What all processes that build a sandbox share: the descriptors that connect them with the warden,
 * the order that they get, and the steps that are the same for all.
 *
 * The warden and the process share a SOCK_SEQPACKET channel (descriptor 4, kept by the runner for
 * fresh connections): first what the process waits for, one byte back when it can take an order,
 * then struct child_order with the mounts' descriptors, then one byte with the disk's and the
 * image's, if there are any. Failures come back as struct child_failure on a close-on-exec pipe;
 * its end without a record means that the runner runs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/order.h"

#define CHILD_STREAM_FD  3
#define CHILD_CHANNEL_FD 4
#define CHILD_FAILURE_FD 5
#define CHILD_FREE_FD    6
#define CHILD_OOM_ADJ    "200" /* before the daemon's own when the host is out of memory */

/* Ids inside every sandbox. */
#define SANDBOX_RUNNER_ID 0
#define SANDBOX_TOOL_ID   1000
#define SANDBOX_NOBODY_ID 65534

/* Detached mounts that come with an order; -1 where there is none. */
struct child_trees {
    int mounts[PLAN_MOUNTS_MAX];
    int disk, image;
    int authority; /* a file with the certificate of the interceptor */
};
void child_trees_init(struct child_trees *t);
void child_trees_close(struct child_trees *t);

/* Moves the descriptors to their numbers and closes all others but *extra_fd (may be NULL), which
 * becomes CHILD_FREE_FD. 0 or -errno. */
int child_keep_descriptors(int stream_fd, int channel_fd, int failure_fd, int *extra_fd);
/* The same without closing any: numbers below CHILD_FREE_FD are taken. */
int child_take_descriptors(int stream_fd, int channel_fd, int failure_fd);
/* Signals as a program expects them. */
void child_reset_signals(void);
/* Ties the caller to the warden. To be called after the last change of credentials, which undoes
 * it. */
int child_die_with_warden(void);
/* Where r is negative, reports that the step failed and ends the caller. wall: enum wall, or -1. */
void child_must(int r, const char *step, int wall);

#define CHILD_ARGS_MAX 15
size_t child_runner_args(const struct child_order *o, bool shared_uid, const char **argv);
#define CHILD_RUNNER_CAPS 3
extern const char *const child_runner_env[], *const child_runner_caps[]; /* NULL-terminated */
void child_report_running(void); /* where no exec closes the pipe */
void child_wait_for_byte(const char *step);
void child_receive_order(struct child_order *o, struct child_trees *ret);
int child_raise_loopback(void);
/* In a user namespace of the sandbox's: no namespaces inside, and no more of inotify and fanotify
 * than this. The first is both others in one. */
int child_lower_user_limits(const struct user_limits *l);
int child_open_user_limits(void);
int child_write_user_limits(const struct user_limits *l, int dirfd);
int child_forbid_cgroup_namespaces(int dirfd);
