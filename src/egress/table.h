/* SPDX-License-Identifier: Apache-2.0 */
/* The rules, as libnftables reads them. Every word of these texts is ours; what comes from records
 * is numbers and addresses, which the C library writes.
 *
 * One table in the router's namespace decides. Two hooks look at what a sandbox sends: before
 * conntrack and its defragmentation, whether it has the sandbox's own address, and after them,
 * whether the destination is one that the sandbox may reach. What may leave gets a mark, and only
 * marked packets have a route to the outside: without rules, nothing leaves. Sandboxes are found by
 * maps, so that a packet's way is as long with one sandbox as with a thousand. What comes from
 * outside is an answer, or dropped.
 *
 * One table in the host's namespace keeps the host itself closed and gives what leaves the host's
 * address. It is about one link of ours, and touches nothing else. */
#pragma once

#include <stdint.h>

#include "proto/net.h"

struct strbuf;

#define TABLE_MARK      1        /* of what may leave */
#define TABLE_UPLINK    "up"     /* the router's end of the link to the host */
#define TABLE_LINK      "b%u"    /* the router's end of a sandbox's link, by slot */
#define TABLE_HOST_LINK "masn%s" /* the host's end, by instance */
#define TABLE_HOST      "mas_net_"

/* Each appends a text that is one transaction. 0 or -EFBIG. */
int table_router(struct strbuf *b, const struct net_config *c);
int table_host(struct strbuf *b, const struct net_config *c, const char *instance);
int table_add(struct strbuf *b, const struct net_config *c, const struct net_request *q);
int table_replace(struct strbuf *b, const struct net_request *q);
int table_remove(struct strbuf *b, const struct net_config *c, uint32_t slot);
