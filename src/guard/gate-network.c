/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that a sandbox is to reach are decided on before it is made, each as a call of the tool
 * "network" with the capability of that name. The gateway enforces the list from then on. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "guard/gate-internal.h"
#include "identity/keys.h"
#include "policy/policy.h"

/* A create cannot wait for a person, so that a verdict of `ask` refuses it, unless the rule of the
 * network asks a person later, when a command goes there. An obligation that takes the network away
 * refuses it, too: a list of hosts cannot keep that. */
static const char *why_refused(const struct rules_decision *d, bool asks)
{
    if (d->verdict == VERDICT_DENY)
        return "denied";
    if (d->verdict == VERDICT_ASK && !asks)
        return "a person would have to be asked, which a create cannot wait for ('ask' in the "
               "rule asks when a command goes there)";
    return d->obligations.strip_network ? "a rule takes the network away" : NULL;
}

/* An attribute of the rule's text (gateway/rule.h); no other has this word behind a space. */
static bool has_ask(const char *rule_text)
{
    static const char word[] = " ask";
    const char *at = strstr(rule_text, word);
    while (at && at[strlen(word)] && at[strlen(word)] != ' ')
        at = strstr(at + 1, word);
    return at != NULL;
}

/* rule: of the sandbox's network. The policy decides on its host and port, whatever else narrows
 * it.
 */
static int check_host(struct gate *g, const struct identity *who, const char *runtime,
                      const char *rule_text, struct error *err)
{
    _cleanup_free_ char *host = xstrndup(rule_text, strcspn(rule_text, " "));
    struct gate_call call = {
        .tool = GATE_NETWORK, .capabilities = CAPABILITY_NETWORK, .who = who, .host = host};
    struct gate_decision d = {.ruleset = g->ruleset};
    struct rules_call rc = {.who = who,
                            .tool = GATE_NETWORK,
                            .capabilities = CAPABILITY_NETWORK,
                            .reach = host,
                            .runtime = runtime,
                            .now_s = clock_real_ns() / 1000000000};
    struct rules_decision decision;
    char rule[64], reason[600];
    ruleset_decide(g->ruleset, &rc, &decision);
    const char *why = why_refused(&decision, has_ask(rule_text));
    if (!why)
        return 0;
    audit_call_id(d.call_id);
    snprintf(rule, sizeof(rule), "%s", decision.rule);
    snprintf(reason, sizeof(reason), "network to %.200s: %s by rule '%s'%s%s", host, why, rule,
             *decision.reason ? ": " : "", decision.reason);
    return gate_refuse(g, &call, &d, rule, reason, err);
}

int gate_check_network(struct gate *g, const struct identity *who, const char *runtime,
                       char *const *hosts, struct error *err)
{
    int r = 0;
    for (; r >= 0 && hosts && *hosts; hosts++)
        r = check_host(g, who, runtime, *hosts, err);
    return r;
}

struct identity gate_owner(const struct gate *g, const char *owner)
{
    return keys_identity_of(g->keys, owner);
}

char **gate_denied_hosts(const struct gate *g, const char *owner, const char *runtime,
                         const char *tool)
{
    struct identity who = gate_owner(g, owner);
    struct rules_call call = {.who = &who,
                              .tool = tool,
                              .capabilities = CAPABILITY_NETWORK,
                              .runtime = runtime,
                              .now_s = clock_real_ns() / 1000000000};
    return ruleset_denied_hosts(g->ruleset, &call);
}
