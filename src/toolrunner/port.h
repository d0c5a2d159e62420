/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to the inside: the control plane names a port of the sandbox's loopback, the runner
 * connects to it, and the stream that asked for it carries the bytes both ways. The runner looks at
 * none of them. Like the connections from the inside (gateway.h) they do not outlive a connection
 * of the control plane; unlike those, each side may end what it sends before the other does.
 *
 * The runner's own listeners are refused: what a program inside may ask the proxy for is not for
 * callers from outside. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

struct runner;
struct msg_connect;
struct msg_data;
struct msg_data_ack;
struct msg_data_end;

#define PORT_LINKS_MAX 64
#define PORT_CHUNK     32768 /* bytes of one link before the others have their turn */

struct ports {
    struct runner *runner;
    struct list links;
    size_t n_links;
};

void ports_init(struct ports *p, struct runner *r);
void ports_on_disconnect(struct ports *p);
/* Moves bytes into the connection's buffer; true when more waits for room. */
bool ports_pump(struct ports *p);

/* Frames. A stream that is gone is ignored; -EPROTO when the peer broke the protocol. */
int ports_on_connect(struct ports *p, uint32_t stream, const struct msg_connect *m);
int ports_on_data(struct ports *p, uint32_t stream, const struct msg_data *m);
int ports_on_data_ack(struct ports *p, uint32_t stream, const struct msg_data_ack *m);
int ports_on_data_end(struct ports *p, uint32_t stream, const struct msg_data_end *m);
void ports_on_close(struct ports *p, uint32_t stream);
