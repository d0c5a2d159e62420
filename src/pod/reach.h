/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of the proof that a cluster enforces network policies (kube/broker-prove.c), each a
 * pod that mas-link is the only program of. */
#pragma once

/* Exit codes of the one that calls: what the broker reads of it. */
#define REACH_DONE       0
#define REACH_NEVER_OPEN 3
#define REACH_STILL_OPEN 4

/* Answers every connection with the witness's line, until it is ended. -errno with *ret_what naming
 * the step that failed. */
int reach_serve(const char **ret_what);
/* Tries until the witness answers, or until no connection to it comes about any more. Returns an
 * exit code of those above. */
int reach_until_open(const char *address);
int reach_until_closed(const char *address);
