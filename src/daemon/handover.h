/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's configuration, on its way over the warden (proto/handover.h). */
#pragma once

#include "proto/handover.h"

struct claimant;
struct config;
struct error;

/* Before the process becomes the warden: a sealed memory file, or -errno. */
int handover_seal_config(const struct config *c);
/* In a program that is asked whether it could take over: answers, and returns the exit status. */
int handover_probe(void);
/* In the control plane: takes the warden's first record, with descriptors of what is promised to
 * sandboxes and of what is claimed beside it (-1: an older warden has none), and the configuration,
 * which is closed. */
int handover_take(struct handover *ret, struct config *c, struct claimant *ret_room,
                  struct error *err);
