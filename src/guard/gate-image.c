/* SPDX-License-Identifier: Apache-2.0 */
/* What rules deny by its image alone is refused before it is fetched or a sandbox is made of it;
 * whatever runs is decided on again, with the image it runs in. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "guard/gate-internal.h"
#include "identity/keys.h"

int gate_check_image(struct gate *g, const struct identity *who, char *const *names,
                     const char *digest, struct error *err)
{
    struct gate_call call = {.tool = GATE_IMAGE, .who = who};
    struct gate_decision d = {.ruleset = g->ruleset};
    struct rules_call rc = {.who = who,
                            .tool = GATE_IMAGE,
                            .image_names = names,
                            .image_digest = digest,
                            .now_s = clock_real_ns() / 1000000000};
    if (keys_check_live(g->keys, who, err) < 0) { /* it may have waited for the image for long */
        audit_call_id(d.call_id);
        return gate_refuse(g, &call, &d, "key", err->message, err);
    }
    const char *why = NULL, *rule = ruleset_denies_image(g->ruleset, &rc, &why);
    char reason[400];
    if (!rule)
        return 0;
    audit_call_id(d.call_id);
    snprintf(reason, sizeof(reason), "denied by rule '%s': image %.200s%s%s", rule, names[0],
             why ? ": " : "", why ? why : "");
    return gate_refuse(g, &call, &d, rule, reason, err);
}
