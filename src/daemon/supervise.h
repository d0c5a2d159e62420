/* The warden's other duty: it starts the gateway and the control plane, starts them again when they
 * crash, and ends when the control plane ends or a signal says so. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct config;
struct listeners;
struct programs;
struct state_dir;
struct warden;

struct supervise_options {
    const struct config *config;
    struct warden *warden;
    const struct programs *programs;
    const struct listeners *listeners;
    const struct state_dir *state;
    int signal_fd;         /* SIGTERM and SIGINT, see supervise_block_signals() */
    int notify_fd;         /* or -1 */
    bool line_mode;        /* the control plane gets line_in and line_out as stdin and stdout */
    int line_in, line_out; /* closed once it has them, so that its end is the end of the output */
    bool privileged;       /* root before the warden was made */
    uid_t uid;             /* privileged: what the control plane becomes; else the caller's own */
    gid_t gid;
};

/* Early, so that a signal during start-up waits. The signalfd, or -errno. */
int supervise_block_signals(void);
/* Runs warden_loop() and returns the daemon's exit status; all children are gone by then. */
int supervise(struct supervise_options *options);
