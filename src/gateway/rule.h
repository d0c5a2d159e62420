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
 * Rules of a sandbox's network may go on with attributes, a space before each:
 *   http                   only requests that the gateway reads, which is plain HTTP
 *   methods=GET,HEAD       of such a request; means http
 *   path=/v1/ path=/a/     of such a request, "*" at the end is anything; means http; any number
 *   ask                    a person decides about each host and port
 *   until=1700000000       seconds since 1970; the control plane takes the rule away then
 *   name=updates           what records call it
 * What a tunnel carries is hidden: a rule about HTTP never allows one, and if it denies, it denies
 * that too.
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
    uint16_t port;  /* 0: any */
    bool http;      /* only requests that the gateway reads */
    char **methods; /* of such a request, in capital letters; NULL: any */
    char **paths;   /* of such a request (rule-http.c); NULL: any */
    bool ask;
    int64_t until_s; /* 0: for good */
    char *id;        /* what records call it; NULL: its text */
};

/* What a client asks for. */
struct rule_request {
    const struct target *target;
    const char *method, *path; /* of a request that the gateway reads; NULL: a tunnel */
    bool overrides; /* it has a header that names others, which some servers go by: a rule about
                       methods or paths does not allow it, and denies it */
    bool later;     /* of a tunnel: the interceptor reads the request and asks again, so that a rule
                       about methods or paths does not deny yet, and may allow */
};

struct rule_list {
    struct rule *rules;
    size_t n;
    struct rule_index *index; /* of rule_list_index(); NULL: every rule is looked at */
};

void rule_list_done(struct rule_list *l);
/* Adds one rule without attributes; -EINVAL for text that cannot be read. */
int rule_list_add(struct rule_list *l, const char *text);
/* Adds one rule that may have attributes; -EINVAL. */
int rule_list_add_full(struct rule_list *l, const char *text);
void rule_done(struct rule *rule);

/* rule-index.c: finds the rules that may be about a target without looking at the others. Answers
 * are the same with an index and without. */
/* Makes the index of a list that is asked often; no rule is added after that. */
void rule_list_index(struct rule_list *l);
void rule_index_free(struct rule_index *index);
/* One after another, in no order and some twice: every rule that names the target, every network
 * that it or the address is in, and every rule about all hosts; others may be among them. a is what
 * a name has led to, or NULL. Both are borrowed. */
struct rule_walk {
    const struct rule_list *list;
    const struct address *addresses[2]; /* NULL: none */
    const char *suffix;   /* the part of the name that is looked for next; NULL: no more names */
    size_t which, length; /* the address that is looked for next, and by how many bits */
    uint32_t at;          /* the next rule of that part or prefix, from 1; 0: none */
    size_t other;         /* the next of those about all hosts */
};
void rule_walk_init(struct rule_walk *w, const struct rule_list *l, const struct target *t,
                    const struct address *a);
const struct rule *rule_walk_next(struct rule_walk *w);

/* The text of a rule, which rule_list_add_full() takes. The caller frees. */
char *rule_format(const struct rule *rule);
/* The same without its attributes. The caller frees. */
char *rule_format_host(const struct rule *rule);
/* What both rules allow, as one rule without a name. False when that is nothing. The caller calls
 * rule_done(ret). */
bool rule_intersect(const struct rule *a, const struct rule *b, struct rule *ret);

/* Does a allow everything that b allows? */
bool rule_covers(const struct rule *a, const struct rule *b);

/* Is the rule about this target, or about that address of it (which may be NULL), whatever its
 * other attributes say? */
bool rule_is_about(const struct rule *rule, const struct target *t, const struct address *a);
/* The rule that denies the request, or one of its addresses with a; NULL: none. A rule that might
 * if more were known of the request denies it. a may be NULL. */
const struct rule *rule_list_find_denial(const struct rule_list *l, const struct rule_request *q,
                                         const struct address *a);
/* The rule that allows the request; one that does not ask goes before one that does. NULL: none. */
const struct rule *rule_list_find_allowance(const struct rule_list *l,
                                            const struct rule_request *q);

/* rule-http.c: methods, paths and the other attributes. */
/* Reads what follows the host of a rule, each attribute with a space before it. -EINVAL. */
int rule_parse_attributes(char *text, struct rule *rule);
/* Appends them to the text of a host, which it takes. */
char *rule_format_attributes(const struct rule *rule, char *host);
bool rule_attributes_cover(const struct rule *a, const struct rule *b);
/* What both ask for, into ret. False when nothing is left. */
bool rule_attributes_intersect(const struct rule *a, const struct rule *b, struct rule *ret);
/* Whether the attributes fit the request: yes, no, or not known, because it is a tunnel or because
 * its path can be read in several ways. */
enum rule_fit { RULE_FITS_NOT, RULE_FITS_PERHAPS, RULE_FITS };
enum rule_fit rule_fits_http(const struct rule *rule, const struct rule_request *q);
/* One path of a rule, and one method. */
bool rule_path_ok(const char *path);
bool rule_method_ok(const char *method);

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
