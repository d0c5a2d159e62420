/* SPDX-License-Identifier: Apache-2.0 */
/* What the broker of a cluster is handed. */
#pragma once

struct config;
struct error;

/* Reads the access that the configuration names, as the operator, and seals it with the ceiling in
 * a memory file that the control plane never gets. The broker keeps its own key in
 * state_dir, where it needs one. The descriptor; -1 where no cluster is configured; or less with
 * err set. */
int kube_stage_seal(const struct config *c, const char *state_dir, struct error *err);
