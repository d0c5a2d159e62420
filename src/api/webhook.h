/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a URL of the operator's about approvals: POST with a JSON body, signed with HMAC-SHA-256.
 *
 * The control plane cannot connect anywhere, so a delivery is a call of the tool http_client as the
 * identity "webhook": in a helper sandbox, through the gateway, to that one host, and through the
 * gate, where a policy that denies everything denies it too (`key: webhook` allows it). One
 * delivery at a time, tried again a few times; what does not fit the queue is dropped and logged.
 */
#pragma once

#include <uv.h>

#include "api/config.h"

struct approvals;
struct event_journal;
struct tool_options;
struct webhook;

struct webhook_options {
    uv_loop_t *loop;
    struct approvals *approvals;
    struct event_journal *events; /* NULL in line mode, which sends none */
    const struct tool_options *tool;
    struct webhook_config config;
};

struct webhook *webhook_new(const struct webhook_options *o);
void webhook_free(struct webhook *w); /* after the loop; NULL is fine */
