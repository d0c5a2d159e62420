/* SPDX-License-Identifier: Apache-2.0 */
/* One stream of the gateway: reads the CONNECT line or the head of an HTTP request, decides,
 * resolves, connects, relays, ends.
 *
 *   REQUEST ──line──▶ RESOLVE ──addresses──▶ CONNECT ──connected──▶ RELAY
 *      └────────────────┴───────────────────────┴──── ERR ──▶ REFUSE ──▶ gone
 *
 * Every state has one timer. A session belongs to its gateway's list and frees itself. */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "gateway/gateway-proto.h"
#include "gateway/rule-set.h"

#define GATEWAY_LOG_SHARES 64

/* The lines of some labels in the log. */
struct gateway_log_share {
    int64_t from_ms;
    uint32_t n;
};

/* What all sessions share. */
struct gateway {
    uv_loop_t loop;
    struct list sessions;
    size_t n_sessions,
        n_refusing;      /* those that are only told of their refusal are not of the first */
    struct list lookups; /* in the resolver, those of ended sessions included */
    struct rule_list private_hosts, allow_hosts, deny_hosts;
    struct rule_list
        image_hosts;            /* open to what fetches images at loopback and private addresses */
    struct rule_sets rule_sets; /* of requests */
    uint32_t request_timeout_ms, resolve_timeout_ms, connect_timeout_ms, idle_timeout_ms;
    uint32_t max_sessions, max_sessions_per_label;
    struct gateway_log_share log_shares[GATEWAY_LOG_SHARES];
};

/* What one stream may ask for. */
struct session_rules {
    struct rule_set *set; /* referenced */
    int intercept_fd;     /* the interceptor's socket, or -1 */
};
void session_rules_done(struct session_rules *r);

/* Takes stream_fd, report_fd (or -1), and what is in rules. A stream over a limit is answered and
 * ended. */
void session_start(struct gateway *g, const struct gateway_request *req,
                   struct session_rules *rules, int stream_fd, int report_fd);
/* Ends all of them, without an answer. */
void session_end_all(struct gateway *g);
