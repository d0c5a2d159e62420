/* SPDX-License-Identifier: Apache-2.0 */
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

#include "builder/child.h"

struct cgroup;
struct sock_fprog;

/* The same for all children of a warden; read by the child from its copy of the warden's memory. */
struct child_template {
    const struct sock_fprog *seccomp;
    int landlock_abi;
    bool shared_uid;
    struct user_limits user_limits;
    bool seat_late;   /* on this host the memory group can be joined after the change of ids */
    bool from_zygote; /* a copy of it (zygote.h), not of the warden */
    /* The zygote's: goes on as the runner, if it can; or returns. NULL: the runner is executed. */
    void (*become_runner)(size_t argc, const char **argv);
    /* Where the first process is another program, which has the order carried out elsewhere: goes
     * on as that, and never returns. The sandbox that it is in gets no more than scratch_bytes of
     * disk. NULL: it is the runner. */
    void (*become_other)(const struct child_template *t, const struct child_order *o);
    uint64_t scratch_bytes;
    const struct sock_fprog *other_seccomp; /* for what it starts */
    const void *other_config;               /* further settings of it */
};

/* Never returns. The descriptors are the child's ends. cg: to be made and joined; NULL: none. */
void child_main(const struct child_template *t, const struct cgroup *cg, int stream_fd,
                int channel_fd, int failure_fd) __attribute__((noreturn));
