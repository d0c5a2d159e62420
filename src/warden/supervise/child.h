/* SPDX-License-Identifier: Apache-2.0 */
/* The children of the warden that are not sandboxes, from fork to the execution of mas-sandboxd. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct supervise_options;

struct child_control {
    uint64_t generation, generations_before;
    bool announce;
    int warden_sock, gateway_sock, keeper_sock, kube_sock, ready_fd;
};

/* The first record on the socket to a new control plane; warden_end is ours. -errno. */
int child_send_handover(const struct supervise_options *o, const struct child_control *child,
                        int warden_end);
/* Each, of the program at that descriptor: the pid, or -errno. */
pid_t child_start_control(const struct supervise_options *o, int program,
                          const struct child_control *child);
pid_t child_start_gateway(const struct supervise_options *o, int program, int sock);
pid_t child_start_keeper(const struct supervise_options *o, int program, int sock,
                         int gateway_sock);
pid_t child_start_kube(const struct supervise_options *o, int sock);
pid_t child_start_probe(const struct supervise_options *o, int program, int answer_fd);
