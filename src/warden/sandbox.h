/* The life of one sandbox: blank, ordered, running, reaped, removed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/plan.h"

struct sandbox;
struct warden;

/* Starts a sandbox from a plan that ceiling_check() accepted; takes mount_fds. 0: the reply follows
 * from here. Otherwise -errno with reply's message and wall set, and nothing is left behind. */
int warden_sandbox_create(struct warden *w, const struct plan *p, const struct plan_limits *limits,
                          int *mount_fds, struct plan_reply *reply);
struct sandbox *warden_sandbox_find(const struct warden *w, const char *id);
int sandbox_kill(struct sandbox *s);
/* A fresh connection to its runner: the control plane's end, or -errno. */
int sandbox_connect(struct sandbox *s);
int sandbox_freeze(struct sandbox *s, bool on);
void sandbox_read_stats(const struct sandbox *s, struct plan_reply *ret);
/* Fills id, pid and mechanisms. */
void sandbox_describe(const struct sandbox *s, struct plan_reply *ret);
/* Sends the EXITED events that no control plane has had yet. */
void sandbox_flush_exited(struct warden *w);
/* Makes blanks up to the configured number: at once, at the start; later soon, one by one. */
void sandbox_fill_blanks(struct warden *w);
void sandbox_plan_refill(struct warden *w);
/* Kills all, reaps all, removes all. */
void sandbox_end_all(struct warden *w);
