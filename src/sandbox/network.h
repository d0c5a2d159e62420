/* SPDX-License-Identifier: Apache-2.0 */
/* Changing the network of a sandbox that runs. The caller has decided before that it may be. */
#pragma once

#include <stdbool.h>

struct error;
struct sandbox;

/* Rules as texts of gateway/rule.h; each list may be NULL. */
struct network_change {
    char *const *allow, *const *deny; /* to add */
    char *const *drop; /* rules that allow, by name, by host and port, or by the whole text */
    bool drop_all;
};

typedef void (*network_change_fn)(void *data, const struct error *err);

/* May a command have less of the sandbox's network than the others? ERROR_UNSUPPORTED. */
int sandbox_check_own_proxy(const struct sandbox *sb, struct error *err);

/* Whether the sandbox's network allows all that a rule allows, already. Where it is by address
 * alone, that is what the rule's address is compared with. */
bool sandbox_network_covers(const struct sandbox *sb, const char *rule);

/* Whether a rule that allows is called so, by name, by host and port, or by the whole text. */
bool sandbox_network_has(const struct sandbox *sb, const char *word);

/* Whether it can be done: the sandbox has a network and is not ending, and what is dropped is
 * there.
 */
int sandbox_check_network(const struct sandbox *sb, const struct network_change *c,
                          struct error *err);
/* It holds at once, and connections that are not allowed any more end. fn comes when it is on
 * record, perhaps from inside. Negative: nothing was changed, fn does not come. */
int sandbox_change_network(struct sandbox *sb, const struct network_change *c, network_change_fn fn,
                           void *data, struct error *err);
