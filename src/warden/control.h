/* SPDX-License-Identifier: Apache-2.0 */
/* The socket to the control plane: plans in, replies and events out. */
#pragma once

#include <stdbool.h>

#include "proto/plan.h"

struct warden;

int control_attach(struct warden *w, int sock);
void control_detach(struct warden *w);
bool control_is_attached(const struct warden *w);
/* Queues a record; takes fd (-1: none). Without a control plane it is dropped. */
void control_send(struct warden *w, struct plan_reply *reply, int fd);
