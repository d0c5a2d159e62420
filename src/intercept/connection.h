/* SPDX-License-Identifier: Apache-2.0 */
/* One intercepted connection: TLS with the client inside the sandbox, TLS with the real server, and
 * one request and its answer between them. */
#pragma once

#include "intercept/interceptor.h"

/* What comes with a record. Of these, the last two may be -1. */
struct connection_fds {
    int client, server;
    int verdict;
    int rules; /* where the record has no room for them; it is only looked at */
};

/* record: of size bytes. Takes the descriptors but that of the rules. The connection frees itself
 * when it ends. */
void connection_start(struct interceptor *i, const struct intercept_connection *record, size_t size,
                      const struct connection_fds *fds);
void connection_end_all(struct interceptor *i);
