/* SPDX-License-Identifier: Apache-2.0 */
/* One intercepted connection: TLS with the client inside the sandbox, TLS with the real server, and
 * one request and its answer between them. */
#pragma once

#include "intercept/interceptor.h"

/* record: of size bytes. Takes the descriptors, of which verdict_fd may be -1. The connection frees
 * itself when it ends. */
void connection_start(struct interceptor *i, const struct intercept_connection *record, size_t size,
                      int client_fd, int server_fd, int verdict_fd);
void connection_end_all(struct interceptor *i);
