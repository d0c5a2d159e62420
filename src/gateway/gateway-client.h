/* The control plane's side of the gateway: hands it a stream. */
#pragma once

#include <stdint.h>

struct error;

struct gateway_rules {
    char *const *hosts; /* allowed hosts (rule.h); NULL or empty: every public host */
    const char *label;  /* whose stream it is: the sandbox's id */
    uint64_t tag;
};

/* Checks rules without sending anything: names the first host that is not a rule. */
int gateway_rules_check(const struct gateway_rules *rules, struct error *err);
/* Sends one request with stream_fd, which stays the caller's to close. Does not wait: the decision
 * is answered on the stream. ERROR_UNAVAILABLE when the gateway is gone or its queue is full. */
int gateway_open(int gateway_sock, const struct gateway_rules *rules, int stream_fd,
                 struct error *err);
