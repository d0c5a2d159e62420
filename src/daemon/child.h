/* The children of the warden that are not sandboxes, from fork to their own code. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct supervise_options;

struct child_control {
    uint64_t generation, generations_before;
    int warden_sock, gateway_sock, keeper_sock, ready_fd;
};

/* Each: the pid, or -errno. */
pid_t child_start_control(const struct supervise_options *o, const struct child_control *child);
pid_t child_start_gateway(const struct supervise_options *o, int sock);
pid_t child_start_keeper(const struct supervise_options *o, int sock);
