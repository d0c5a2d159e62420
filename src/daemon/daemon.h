/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's life as the main process: from a checked configuration to its exit status. */
#pragma once

struct config;
struct config_problems;

/* What can only be checked with the rest of the daemon at hand; reads nothing, changes nothing. */
void daemon_check(const struct config *c, struct config_problems *p);
int daemon_run(struct config *c);
/* Removes cgroups and disk images of daemons that are gone; those of running ones stay. */
int daemon_clean(const struct config *c);
