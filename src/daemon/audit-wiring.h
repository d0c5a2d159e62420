/* The audit of a control plane: opened as the configuration says, signed by the warden. */
#pragma once

#include "daemon/control.h"

struct audit;
struct error;
struct store;
struct warden_client;

/* *ret is NULL with audit: false. */
int audit_wire(const struct control_context *ctx, struct warden_client *warden, struct store *store,
               struct audit **ret, struct error *err);
