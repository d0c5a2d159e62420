/* SPDX-License-Identifier: Apache-2.0 */
/* One stream of the gateway: reads the CONNECT line or the head of an HTTP request, decides,
 * resolves, connects, relays, ends.
 *
 *   REQUEST ──line──▶ RESOLVE ──addresses──▶ CONNECT ──connected──▶ RELAY
 *      └────────────────┴───────────────────────┴──── ERR ──▶ REFUSE ──▶ gone
 *
 * Every state has one timer. A session belongs to its gateway's list and frees itself. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/epoll-loop.h"
#include "base/list.h"
#include "gateway/gateway-proto.h"
#include "gateway/hosts-file.h"
#include "gateway/resolv-file.h"
#include "gateway/rule-set.h"

#define GATEWAY_LOG_SHARES 64
#define GATEWAY_LOOKUPS    8 /* names that are with the resolver at a time */

/* The lines of some labels in the log. */
struct gateway_log_share {
    int64_t from_ms;
    uint32_t n;
};

/* A name server is asked by the loop itself where the host's files say that it has the last word
 * (session-dns.c). All else is libc's resolver's, with a thread for each name that is looked up at
 * a time, because it waits. What goes to the threads and comes back is a pointer to a struct
 * lookup, of which the thread is the only user meanwhile. */
struct gateway_resolver {
    struct resolv_file file;
    int64_t
        not_before_ms; /* when the name server is asked by the loop again, after it was silent */
    int ask[2], answer[2]; /* pipes: the threads read the first and write the second */
    pthread_t threads[GATEWAY_LOOKUPS];
    size_t n_threads; /* that were needed so far */
    struct epoll_watch answers;
};

/* What all sessions share. */
struct gateway {
    struct epoll_loop loop;
    struct gateway_resolver resolver;
    struct hosts_file hosts;
    struct list sessions;
    size_t n_sessions,
        n_refusing;      /* connections that are only being refused do not count in the first */
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

/* The loop and the resolver: 0 or -errno. The end of them waits for the lookups that are left. */
int session_loop_open(struct gateway *g);
void session_loop_close(struct gateway *g);

/* Takes stream_fd, report_fd (or -1), and what is in rules. A stream over a limit is answered and
 * ended. */
void session_start(struct gateway *g, const struct gateway_request *req,
                   struct session_rules *rules, int stream_fd, int report_fd);
/* Ends all of them, without an answer. */
void session_end_all(struct gateway *g);
