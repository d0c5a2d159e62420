/* SPDX-License-Identifier: Apache-2.0 */
/* Asking an installed mas-sandboxd whether it can take over, before the control plane that runs
 * makes way: it must speak this warden's protocol and understand the configuration. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct supervise_options;

struct upgrade {
    pid_t pid; /* of the program that is being asked; 0: none */
    int answer_fd;
    struct watch *exit, *timer;
    /* error: 0 where it fits, and message is its version; else message says why not. */
    void (*on_answer)(void *data, int error, const char *message);
    void *data;
};

#define UPGRADE_INIT                                                                               \
    {                                                                                              \
        .answer_fd = -1                                                                            \
    }

/* Starts the program at descriptor program; on_answer comes later, once. -errno. */
int upgrade_ask(struct upgrade *u, const struct supervise_options *o, int program,
                void (*on_answer)(void *data, int error, const char *message), void *data);
/* Without an answer. */
void upgrade_cancel(struct upgrade *u);
