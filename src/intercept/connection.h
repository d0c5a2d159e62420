/* SPDX-License-Identifier: Apache-2.0 */
/* One intercepted connection: TLS with the client inside the sandbox, TLS with the real server, and
 * one request and its answer between them. */
#pragma once

#include "intercept/interceptor.h"

/* Takes both descriptors. The connection frees itself when it ends. */
void connection_start(struct interceptor *i, const struct intercept_connection *record,
                      int client_fd, int server_fd);
void connection_end_all(struct interceptor *i);
