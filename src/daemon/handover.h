/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's configuration, on its way over the warden (proto/handover.h). */
#pragma once

#include "proto/handover.h"

struct config;
struct error;

/* Before the process becomes the warden: a sealed memory file, or -errno. */
int handover_seal_config(const struct config *c);
/* In a program that is asked whether it could take over: answers, and returns the exit status. */
int handover_probe(void);
/* In the control plane: takes the warden's first record, with a descriptor of what is promised to
 * sandboxes (-1: an older warden has none), and the configuration, which is closed. */
int handover_take(struct handover *ret, struct config *c, int *ret_promised_fd, struct error *err);
