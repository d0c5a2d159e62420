/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's policy file, as the control plane gets it: it cannot see the path any more, so the
 * warden opens the file anew each time and passes the descriptor; it is read and parsed here.
 *
 * Read at start, on SIGHUP, on request, and every second to see whether it has changed. The
 * newest policy that was good is kept in the state directory, and is what a control plane that is
 * started again goes on with: the file may be bad, or half written. */
#pragma once

#include <stdbool.h>
#include <uv.h>

struct error;
struct gate;
struct identity;
struct policy_file;
struct warden_client;

struct policy_file_options {
    uv_loop_t *loop;
    struct warden_client *warden;
    struct gate *gate;
    const char *name;      /* for messages; NULL: no policy is configured */
    const char *state_dir; /* where the last good one is kept */
    bool again;            /* an earlier control plane of this daemon had loaded one */
};

/* Loads it, blocking. NULL with err set: there is none that could be used. */
struct policy_file *policy_file_open(const struct policy_file_options *o, struct error *err);
/* done comes once, later: changed says whether there is another revision now. */
typedef void (*policy_file_fn)(void *data, bool changed, const struct error *err);
void policy_file_reload(struct policy_file *f, const struct identity *who, policy_file_fn done,
                        void *data);
void policy_file_close(struct policy_file *f); /* NULL is fine */
