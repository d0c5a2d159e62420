/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP connection to a port inside a sandbox, over a WebSocket: binary messages are its bytes, at
 * most PORT_WRITE_MAX each. A text message {"type":"end"} says, either way, that the sender has no
 * more. The connection is made before the handshake is answered: what fails is an HTTP error. */
#pragma once

#include <stdint.h>

struct http_request;
struct sandbox;

/* Takes http. */
void port_forward_start(struct http_request *http, struct sandbox *sb, uint16_t port);
