/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's other duty: it starts the gateway and the control plane, starts them again when they
 * crash, and ends when the control plane ends or a signal says so. */
#pragma once

struct startup;
struct warden;

struct supervise_options {
    struct startup *startup;
    struct warden *warden;
    int signal_fd; /* SIGTERM, SIGINT and SIGHUP, which are blocked */
    int notify_fd; /* or -1 */
};

/* Runs warden_loop() and returns the daemon's exit status; all children are gone by then. */
int supervise(const struct supervise_options *options);
