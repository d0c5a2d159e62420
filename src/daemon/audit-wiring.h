/* SPDX-License-Identifier: Apache-2.0 */
/* The audit of a control plane: opened as the configuration says, signed by the warden. */
#pragma once

#include "daemon/control.h"

struct audit;
struct error;
struct sandbox;
struct store;
struct warden_client;

/* *ret is NULL with audit: false. */
int audit_wire(const struct control_context *ctx, struct warden_client *warden, struct store *store,
               struct audit **ret, struct error *err);

/* Of struct manager_options, with the audit as data. */
void audit_on_sandbox(void *data, struct sandbox *sb);
void audit_on_connections_cut(void *data, struct sandbox *sb, uint64_t connected, uint64_t refused);
void audit_on_connection(void *data, struct sandbox *sb, const char *call, const char *asked,
                         const char *told, const char *rule);
