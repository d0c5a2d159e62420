/* SPDX-License-Identifier: Apache-2.0 */
/* The audit in the state directory of a daemon, without the daemon. Nothing in it is changed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct audit_verifier;
struct evidence;
struct sbx_error;

/* The key and what was signed last, from the warden's files, unless there is a key already. */
int audit_offline_evidence(const char *state_dir, struct evidence *e, struct sbx_error *err);
/* Feeds the database to v. *ret_unchained: records that are still in the files only. */
int audit_offline_verify(const char *state_dir, struct audit_verifier *v, size_t *ret_unchained,
                         struct sbx_error *err);
/* To stdout, up to the newest checkpoint. *ret_left: newer records that are not in it. */
int audit_offline_export(const char *state_dir, uint64_t since, const struct evidence *e,
                         uint64_t *ret_left, struct sbx_error *err);
