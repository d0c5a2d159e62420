/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's life as the main process: from a checked configuration to its exit status. */
#pragma once

struct config;
struct config_problems;
struct net_config;

/* What can only be checked with the rest of the daemon at hand; reads nothing, changes nothing. */
void daemon_check(const struct config *c, struct config_problems *p);
/* The operator's part of networks by address, as the warden is given it. */
void daemon_fill_network(const struct config *c, struct net_config *ret);
int daemon_run(struct config *c);
/* Removes cgroups and disk images of daemons that are gone; those of running ones stay. */
int daemon_clean(const struct config *c);
