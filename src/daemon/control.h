/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane: mas-sandboxd, started by the warden to have no privileges.
 *
 * The warden forks, arranges descriptors as proto/handover.h says and executes mas-sandboxd with a
 * flag; main() then calls
 * control_stage(), which gives everything up (drop.h) and calls control_main(). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "proto/handover.h" /* CONTROL_EXIT_* */

struct claimant;
struct config;

struct control_context {
    const struct config *config;
    uv_loop_t *loop;
    int warden_sock;             /* SOCK_SEQPACKET, plans (proto/plan.h) */
    int gateway_sock;            /* SOCK_SEQPACKET (gateway/gateway-client.h) */
    int keeper_sock;             /* SOCK_SEQPACKET (keeper/keeper-client.h) */
    int kube_sock;               /* SOCK_SEQPACKET (proto/kube.h), or -1 without a cluster */
    const struct claimant *room; /* what is promised and claimed already (proto/claims.h) */
    const int *listeners;        /* listening sockets; none in line mode */
    size_t n_listeners;
    const char *state_path; /* our own directory, as seen after the drop */
    pid_t warden_pid;
    bool line_mode;              /* serve stdin and stdout, return at end of input */
    uint64_t generation;         /* 1 for the first control plane of this warden, then 2, ... */
    uint64_t generations_before; /* control planes of earlier wardens of this state directory */
    void (*on_serving)(void);    /* once, when requests are answered from now on */
};

/* Serves until told to stop: SIGTERM drains, a second one stops at once (SIGINT never comes here).
 * A return of 0 ends the daemon; any other value, or a crash, has the control plane started again.
 * Descriptors of the context are the control plane's to keep or close. */
int control_main(struct control_context *ctx);

/* The process between execution and control_main(). Returns its exit status. */
int control_stage(void);
