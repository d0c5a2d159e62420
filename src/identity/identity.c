/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/identity.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static const struct {
    enum role role;
    const char *name;
} names[] = {{ROLE_AGENT, "agent"},
             {ROLE_OPERATOR, "operator"},
             {ROLE_APPROVER, "approver"},
             {ROLE_AUDITOR, "auditor"},
             {ROLE_ADMIN, "admin"}};

/* Without keys every caller may do everything: the listeners are restricted to this machine
 * then, or the operator has said --insecure. The token has no role to approve, because it names
 * no person. */
const struct identity identity_local = {.name = "unauthenticated", .roles = ROLES_ALL};
const struct identity identity_token = {.key = IDENTITY_TOKEN,
                                        .name = IDENTITY_TOKEN,
                                        .roles = ROLE_AGENT | ROLE_OPERATOR | ROLE_ADMIN,
                                        .authenticated = true};
const struct identity identity_webhook = {
    .key = IDENTITY_WEBHOOK, .name = IDENTITY_WEBHOOK, .authenticated = true};

bool identity_has_key(const struct identity *who)
{
    return who->authenticated && strcmp(who->key, IDENTITY_TOKEN) != 0 &&
           strcmp(who->key, IDENTITY_WEBHOOK) != 0;
}

const char *roles_format(unsigned roles, char out[ROLES_TEXT_SIZE])
{
    char *end = out;
    *end = 0;
    for (size_t i = 0; i < ELEMENTS(names); i++) {
        if (!(roles & names[i].role))
            continue;
        if (end > out)
            end = stpcpy(end, ", ");
        end = stpcpy(end, names[i].name);
    }
    return out;
}

json_t *roles_to_json(unsigned roles)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (roles & names[i].role)
            json_array_append_new(list, json_string(names[i].name));
    return list;
}

unsigned role_find(const char *name, size_t len)
{
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strlen(names[i].name) == len && memcmp(names[i].name, name, len) == 0)
            return names[i].role;
    return 0;
}

int roles_parse(const char *text, unsigned *ret, struct error *err)
{
    unsigned roles = 0;
    while (*text) {
        size_t len = strcspn(text, ",");
        unsigned role = role_find(text, len);
        if (!role)
            return error_set(err, ERROR_INVALID, 0,
                             "'%.*s' is not a role: agent, operator, approver, auditor or admin",
                             (int)(len > 40 ? 40 : len), text);
        roles |= role;
        text += len;
        text += *text == ',';
    }
    if (!roles)
        return error_set(err, ERROR_INVALID, 0, "a key needs at least one role");
    *ret = roles;
    return 0;
}

bool identity_has(const struct identity *who, unsigned roles)
{
    return roles == 0 || (who->roles & roles) != 0;
}

bool identity_sees_all(const struct identity *who)
{
    return identity_has(who, ROLE_OPERATOR | ROLE_ADMIN);
}

/* What a caller may not see does not exist for it: the answer is the same as for an id that
 * never was. */
bool identity_sees(const struct identity *who, const char *owner)
{
    return strcmp(identity_scope(who), owner) == 0 || identity_sees_all(who);
}

const char *identity_scope(const struct identity *who)
{
    if (identity_sees_all(who))
        return "";
    return *who->key ? who->key : IDENTITY_NOBODY;
}

json_t *identity_to_json(const struct identity *who)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:b}", "key", who->key, "address", who->address, "name",
                     who->name, "roles", (int)who->roles, "authenticated", who->authenticated);
}

void identity_from_json(const json_t *o, struct identity *ret)
{
    const char *key = json_string_value(json_object_get(o, "key"));
    const char *address = json_string_value(json_object_get(o, "address"));
    const char *name = json_string_value(json_object_get(o, "name"));
    snprintf(ret->key, sizeof(ret->key), "%s", key ? key : "");
    snprintf(ret->address, sizeof(ret->address), "%s", address ? address : "");
    snprintf(ret->name, sizeof(ret->name), "%s", name ? name : "");
    ret->roles = (unsigned)json_integer_value(json_object_get(o, "roles"));
    ret->authenticated = json_is_true(json_object_get(o, "authenticated"));
}
