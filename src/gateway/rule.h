/* SPDX-License-Identifier: Apache-2.0 */
/* Who may go where: host rules, and the one decision made of them.
 *
 * A rule is one of
 *   example.com            that name
 *   *.example.com          every name below it, at any depth, but not example.com itself
 *   *                      every name and address
 *   192.0.2.7, [2001:db8::1], 2001:db8::1        that address
 *   10.0.0.0/8, fd00::/8   every address of a network
 * with an optional ":port" (an IPv6 address or network then needs brackets: "[fd00::/8]:443").
 *
 * Several lists decide. `hosts` comes with each stream and names what its sandbox may ask for; it
 * never opens a private address. `private_hosts` is the operator's and names what may be reached
 * although it is not public. A name there opens loopback and private addresses that the name
 * resolves to; link-local and reserved addresses only open by address or network, metadata
 * addresses only by the address itself. Forbidden ones never do. The operator may also limit what
 * any sandbox may ask for (a list like `hosts`, which both must allow) and name what none may
 * reach, by name or address. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/address.h"
#include "gateway/gateway-proto.h"
#include "base/target.h"

enum rule_kind { RULE_ANY, RULE_NAME, RULE_SUFFIX, RULE_NETWORK };

struct rule {
    enum rule_kind kind;
    char *name; /* RULE_NAME; RULE_SUFFIX: with its leading dot */
    struct address network;
    size_t bits;
    uint16_t port; /* 0: any */
};

struct rule_list {
    struct rule *rules;
    size_t n;
};

void rule_list_done(struct rule_list *l);
/* Adds one rule; -EINVAL for text that is none. */
int rule_list_add(struct rule_list *l, const char *text);

/* The text of a rule, which rule_list_add() takes. The caller frees. */
char *rule_format(const struct rule *rule);
/* What both rules allow, as one rule. False when that is nothing. The caller frees ret->name. */
bool rule_intersect(const struct rule *a, const struct rule *b, struct rule *ret);

/* Does a allow everything that b allows? */
bool rule_covers(const struct rule *a, const struct rule *b);

/* Is the target named by one of the rules? */
bool rule_list_has_host(const struct rule_list *l, const struct target *t);
/* Is the address in one of the rules' networks, at the target's port? */
bool rule_list_has_address(const struct rule_list *l, const struct target *t,
                           const struct address *a);

/* May the client ask for this host? any: there is no list, every host may be asked for. */
enum gateway_code rule_check_host(const struct rule_list *hosts, bool any, const struct target *t);
/* May the gateway connect to this address for that target? */
enum gateway_code rule_check_address(const struct rule_list *private_hosts, const struct target *t,
                                     const struct address *a);
