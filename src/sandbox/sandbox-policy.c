/* SPDX-License-Identifier: Apache-2.0 */
/* The policy in a row is {"policy": {"policy": {...}, "timeout_ms": N}, "noted": true}. Versions
 * before wrote the inner object as a text, "note". They take a row with "noted" and without "note"
 * for one whose policy is lost, and let nothing run in that sandbox, which is why "noted" is still
 * written. Versions before those did not write "noted": there, a sandbox with an alias is one of
 * the MAS API's and has a policy. */
#include "sandbox/sandbox-policy.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

struct sandbox_policy *sandbox_policy_new(void)
{
    struct sandbox_policy *p = new0(struct sandbox_policy);
    policy_init(&p->policy);
    return p;
}

void sandbox_policy_free(struct sandbox_policy *p)
{
    if (!p)
        return;
    policy_done(&p->policy);
    free(p);
}

void sandbox_policy_put(const struct sandbox_policy *p, json_t *row)
{
    if (p)
        json_object_set_new(row, "policy",
                            json_pack("{s:o, s:I}", "policy", policy_format(&p->policy),
                                      "timeout_ms", (json_int_t)p->timeout_ms));
    json_object_set_new(row, "noted", json_boolean(p != NULL));
}

static int parse_kept(const json_t *kept, struct sandbox_policy *p, struct error *err)
{
    int64_t timeout_ms = 0;
    if (!kept)
        return error_set(err, ERROR_INTERNAL, 0, "it is lost");
    int r = json_member_int(kept, "timeout_ms", 0, INT64_MAX, &timeout_ms, err);
    if (r < 0)
        return r;
    p->timeout_ms = (uint64_t)timeout_ms;
    return policy_parse(json_object_get(kept, "policy"), &p->policy, err);
}

int sandbox_policy_get(const json_t *row, const char *alias, const char *id,
                       struct sandbox_policy **ret, struct error *err)
{
    bool noted = alias && strcmp(alias, SANDBOX_SKILL_ALIAS) != 0;
    const char *note = NULL;
    json_t *kept = NULL;
    struct error why = {0};
    *ret = NULL;
    int r = json_member_bool(row, "noted", &noted, err);
    if (r < 0)
        return r;
    r = json_member_object(row, "policy", &kept, err);
    if (r < 0)
        return r;
    r = json_member_string(row, "note", &note, err);
    if (r < 0 || (!noted && !kept && !note))
        return r;
    _cleanup_json_ json_t *noted_text = note ? json_parse_object(note, strlen(note), &why) : NULL;
    *ret = sandbox_policy_new();
    if (parse_kept(kept ? kept : noted_text, *ret, &why) >= 0)
        return 0;
    char *none[] = {(char *)"(none)", NULL};
    (*ret)->policy.allowed_tools = strv_copy(none);
    log_error("policy of a restored sandbox cannot be read id=%s: %s", id, why.message);
    return 0;
}
