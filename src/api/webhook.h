/* Tells a URL of the operator's about approvals: POST with a JSON body, signed with HMAC-SHA-256.
 *
 * The control plane cannot connect anywhere, so a delivery is a call of the tool http_client as the
 * identity "webhook": in a helper sandbox, through the gateway, to that one host, and through the
 * gate, where a policy that denies everything denies it too (`key: webhook` allows it). One
 * delivery at a time, tried again a few times; what does not fit the queue is dropped and logged.
 */
#pragma once

#include <uv.h>

struct approvals;
struct tool_options;
struct webhook;

struct webhook_options {
    uv_loop_t *loop;
    struct approvals *approvals;
    const struct tool_options *tool;
    const char *url;
    const char *secret;
    size_t queue_max;    /* deliveries that wait; what comes then is dropped */
    int tries_max;       /* of one of them */
    uint64_t timeout_ms; /* of one try */
};

struct webhook *webhook_new(const struct webhook_options *o);
void webhook_free(struct webhook *w); /* after the loop; NULL is fine */
