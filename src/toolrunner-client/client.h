/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a guest's runner over a hypervisor's vsock socket (Firecracker's, or any that
 * speaks "CONNECT <port>\n" and "OK <port>\n"). */
#pragma once

#include <stdint.h>

struct error;
struct strbuf;

#define CLIENT_PORT_DEFAULT    5000
#define CLIENT_TIMEOUT_DEFAULT "10s"
#define CLIENT_REQUEST_MAX     (10 * 1024 * 1024) /* as the guest takes */
#define CLIENT_RESPONSE_MAX    (64 * 1024 * 1024)

struct client {
    int fd;
    int64_t deadline_ms; /* on the monotonic clock, for everything together */
};

/* Connects and shakes hands. 0, or negative with err set (ERROR_TIMEOUT when time is up). */
int client_open(struct client *c, const char *uds_path, uint32_t port, int64_t timeout_ms,
                struct error *err);
void client_close(struct client *c);
/* Sends the request as one line (line breaks in it become spaces: JSON has none inside of strings)
 * and appends the response line, without its end, to response. */
int client_call(struct client *c, struct strbuf *request, struct strbuf *response,
                struct error *err);
