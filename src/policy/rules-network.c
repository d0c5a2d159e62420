/* SPDX-License-Identifier: Apache-2.0 */
/* What the policy of the moment closes to a sandbox that is there already. Its hosts were decided
 * on when it was made, but a name can lead to an address that a rule denies, and a policy can be
 * loaded later. So each connection brings along what the rules deny by then. */
#include "base/alloc.h"
#include "policy/rules-internal.h"

/* A person cannot be asked about an address that a name led to, so such a rule closes it; about a
 * name the person was asked before. */
static bool decision_closes_host(const struct rules_decision *d, const struct rule *host)
{
    return d->verdict == VERDICT_DENY || d->obligations.strip_network ||
           (d->verdict == VERDICT_ASK && host->kind == RULE_NETWORK);
}

char **ruleset_denied_hosts(const struct ruleset *rs, const struct rules_call *call)
{
    char **out = xcalloc(1, sizeof(*out));
    size_t n = 0;
    for (size_t i = 0; rs && i < rs->n_rules; i++) {
        const struct rules_rule *rule = &rs->rules[i];
        bool strict = (rule->has_verdict && rule->verdict != VERDICT_ALLOW) ||
                      rule->obligations.strip_network;
        for (size_t k = 0; strict && rule->has_hosts && k < rule->hosts.n; k++) {
            struct rules_decision d;
            struct rules_call one = *call;
            _cleanup_free_ char *host = rule_format(&rule->hosts.rules[k]);
            one.reach = host;
            ruleset_decide(rs, &one, &d);
            if (!decision_closes_host(&d, &rule->hosts.rules[k]))
                continue;
            out = xrealloc(out, (n + 2) * sizeof(*out));
            out[n++] = steal_ptr(host);
            out[n] = NULL;
        }
    }
    return out;
}
