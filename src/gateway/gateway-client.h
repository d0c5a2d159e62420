/* SPDX-License-Identifier: Apache-2.0 */
/* The control plane's side of the gateway: hands it a stream. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

struct gateway_rules {
    char *const *hosts;        /* allowed hosts (rule.h); NULL or empty: every public host */
    char *const *denied;       /* what none of them opens; may be NULL */
    char *const *intercepted;  /* hosts of secrets: see n_intercepted; may be NULL */
    const char *hosts_member;  /* how a request calls the list: errors name it; NULL: none does */
    const char *denied_member; /* the same of the other */
    int intercept_fd;          /* with them and a report: the interceptor, or -1 */
    bool proxy;                /* the stream is of a sandbox's proxy; needs hosts */
    bool socket;               /* and is the program's own connection, passed out */
    bool images;               /* the stream is of what fetches images: see GATEWAY_IMAGES */
    const char *label;         /* whose stream it is: the sandbox's id */
    const char *owner;         /* the key that the sandbox belongs to; NULL or "": none */
    uint64_t tag;
};

/* A rule that allows nothing: the name is reserved never to exist (RFC 2606). */
#define GATEWAY_HOST_NONE "none.invalid"

/* The hosts that both lists allow, so that a call's list can narrow its sandbox's and never widen
 * it. NULL or empty in: every host; NULL out: every host. Where the lists have nothing in common,
 * or one has an entry that is no rule, the result allows less, down to GATEWAY_HOST_NONE alone. A
 * result of more than GATEWAY_HOSTS_MAX rules is cut behind one more, which gateway_rules_check()
 * refuses. The caller frees with strv_free(). */
char **gateway_hosts_intersect(char *const *a, char *const *b);
/* Does `wide` allow every host that `narrow` allows? Empty lists allow nothing here. What is no
 * rule is not covered. */
bool gateway_hosts_cover(char *const *wide, char *const *narrow);
/* Names the first host that is not a rule without attributes, and the member of the request that
 * has it. NULL is fine. */
int gateway_hosts_check(char *const *hosts, const char *member, struct error *err);
/* Checks rules without sending anything: names the first host that is not a rule, or the list that
 * is too long. */
int gateway_rules_check(const struct gateway_rules *rules, struct error *err);
/* Sends one request with stream_fd and report_fd (or -1), which stay the caller's to close. Does
 * not wait: the decision is answered on the stream and told on the report. ERROR_UNAVAILABLE when
 * the gateway is gone or its queue is full. */
int gateway_open(int gateway_sock, const struct gateway_rules *rules, int stream_fd, int report_fd,
                 struct error *err);

/* A request with its rules, made once for streams with the same ones. */
struct gateway_packet;
/* NULL with err where there are too many of them. They have been checked when they were set. */
struct gateway_packet *gateway_packet_new(const struct gateway_rules *rules, struct error *err);
void gateway_packet_free(struct gateway_packet *p);
/* The same as gateway_open(). Of now, what is the stream's own: tag, socket and intercept_fd. */
int gateway_packet_send(struct gateway_packet *p, int gateway_sock, const struct gateway_rules *now,
                        int stream_fd, int report_fd, struct error *err);
