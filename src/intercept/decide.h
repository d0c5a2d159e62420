/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a request may be made, where the sandbox's rules about its host have methods or paths.
 *
 * The gateway has decided on host, port and address, and left open what is inside TLS. It sends the
 * rules that are about them along (proto/intercept.h), so that there is one set of rules, which the
 * gateway's own code reads here once more, with the request's method and path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "base/http-head.h"
#include "base/target.h"
#include "gateway/rule.h"
#include "intercept/head.h"

struct intercept_connection;

struct decider {
    bool decides; /* else every request may be made */
    struct rule_list allowed, denied;
    struct target target;
    struct address address; /* that was dialled */
    int verdict_fd;
};

/* Reads the rules of a connection, from rules_fd where the record has no room for them. -EINVAL for
 * a record of size bytes that is malformed; the decider is one that allows nothing then. Takes
 * verdict_fd; both descriptors may be -1. */
int decider_init(struct decider *d, const struct intercept_connection *record, size_t size,
                 int rules_fd, int verdict_fd);
void decider_done(struct decider *d);
/* Why the request may not be made, which is also reported to the gateway, or NULL. Asked once. */
const char *decider_check(struct decider *d, const struct head_request *request);
