/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that came with a request, read once and kept for the next request with the same ones.
 *
 * The control plane sends the whole text of a sandbox's rules with every connection, so that the
 * gateway decides by nothing that could be out of date. Reading it each time would make every
 * connection pay for all of its sandbox's rules: a set is found by the very bytes that it was read
 * from, so that other bytes are other rules. A set never changes; it lives as long as the cache or
 * a session has it. */
#pragma once

#include <stdint.h>

#include "base/list.h"
#include "gateway/gateway-proto.h"
#include "gateway/rule.h"

#define RULE_SETS_MAX 64 /* that are kept */

struct rule_set {
    struct list node; /* in its cache, the newest last; unlinked: in none */
    unsigned refs;
    struct rule_list hosts, denied;
    struct rule_list intercepted; /* hosts whose connections the interceptor gets */
    uint32_t n_hosts, n_denied, n_intercepted, len;
    char *text; /* len bytes, as they were sent */
};

struct rule_sets {
    struct list all;
    size_t n;
};

void rule_sets_init(struct rule_sets *c);
void rule_sets_done(struct rule_sets *c);
/* The rules of a request, whose numbers are within their limits, with a reference for the caller.
 * NULL where its text is not that many rules. */
struct rule_set *rule_sets_get(struct rule_sets *c, const struct gateway_request *req);
void rule_set_unref(struct rule_set *set);
