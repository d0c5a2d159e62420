/* SPDX-License-Identifier: Apache-2.0 */
/* A key as JSON: its row in the state database, and what the API shows of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "identity/keys-internal.h"

/* --- the row */

json_t *key_entry_to_row(const struct key_entry *e)
{
    const struct key *k = &e->key;
    return json_pack(
        "{s:s, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", k->name, "digest", e->digest,
        "roles", roles_to_json(k->roles), "max_sandboxes", (json_int_t)k->quotas.max_sandboxes,
        "max_execs", (json_int_t)k->quotas.max_execs, "requests_per_minute",
        (json_int_t)k->quotas.requests_per_minute, "created_ns", (json_int_t)k->created_ns,
        "expires_ns", (json_int_t)k->expires_ns, "revoked_ns", (json_int_t)k->revoked_ns,
        "rotations", (json_int_t)k->rotations);
}

int key_name_check(const char *name, struct error *err)
{
    size_t n = strlen(name);
    bool good = n >= 1 && n < IDENTITY_NAME_SIZE && name[0] != ' ' && name[n - 1] != ' ';
    for (size_t i = 0; good && i < n; i++)
        good = name[i] >= ' ' && name[i] < 0x7f;
    if (!good)
        return error_field(err, "name", "'name' must be 1 to %d characters of printable ASCII",
                           IDENTITY_NAME_SIZE - 1);
    if (strcmp(name, identity_token.name) == 0 || strcmp(name, identity_local.name) == 0)
        return error_field(err, "name", "the name '%s' is reserved: choose another one", name);
    return 0;
}

static int read_roles(const json_t *row, unsigned *ret, struct error *err)
{
    const json_t *list = json_object_get(row, "roles"), *item;
    size_t i;
    unsigned roles = 0;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        unsigned role = name ? role_find(name, strlen(name)) : 0;
        if (!role)
            return error_set(err, ERROR_INVALID, 0, "an unknown role");
        roles |= role;
    }
    *ret = roles;
    return 0;
}

static int read_numbers(const json_t *row, struct key *k, struct error *err)
{
    const struct {
        const char *name;
        int64_t *at, min;
    } members[] = {
        {"max_sandboxes", &k->quotas.max_sandboxes, KEY_QUOTA_DEFAULT},
        {"max_execs", &k->quotas.max_execs, KEY_QUOTA_DEFAULT},
        {"requests_per_minute", &k->quotas.requests_per_minute, KEY_QUOTA_DEFAULT},
        {"created_ns", &k->created_ns, 0},
        {"expires_ns", &k->expires_ns, 0},
        {"revoked_ns", &k->revoked_ns, 0},
    };
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        int r =
            json_member_int(row, members[i].name, members[i].min, INT64_MAX, members[i].at, err);
        if (r <= 0)
            return r < 0 ? r : error_set(err, ERROR_INVALID, 0, "no %s", members[i].name);
    }
    /* Rows of before it was counted have none. */
    int r = json_member_int(row, "rotations", 0, INT64_MAX, &k->rotations, err);
    return r < 0 ? r : 0;
}

int key_entry_from_row(struct key_entry *ret, const char *id, const char *body, size_t len,
                       struct error *err)
{
    const char *name = NULL, *digest = NULL;
    struct key *k = &ret->key;
    _cleanup_json_ json_t *row = json_parse_object(body, len, err);
    if (!row)
        return -EINVAL;
    int r = json_member_string(row, "name", &name, err);
    if (r < 0)
        return r;
    r = json_member_string(row, "digest", &digest, err);
    if (r < 0)
        return r;
    if (!name || !digest || strlen(digest) != KEY_DIGEST_SIZE - 1 || strlen(id) >= sizeof(k->id))
        return error_set(err, ERROR_INVALID, 0, "no usable name, id or digest");
    r = key_name_check(name, err);
    if (r < 0)
        return r;
    r = read_roles(row, &k->roles, err);
    if (r < 0)
        return r;
    r = read_numbers(row, k, err);
    if (r < 0)
        return r;
    strcpy(k->id, id);
    strcpy(k->name, name);
    strcpy(ret->digest, digest);
    return 0;
}

/* --- the view */

static void set_time(json_t *o, const char *name, int64_t ns)
{
    char text[CLOCK_RFC3339_SIZE];
    if (!ns)
        return;
    clock_format_rfc3339(ns, text);
    json_object_set_new(o, name, json_string(text));
}

static json_t *quotas_to_json(const struct key_quotas *q)
{
    const struct {
        const char *name;
        int64_t value;
    } members[] = {{"max_sandboxes", q->max_sandboxes},
                   {"max_execs", q->max_execs},
                   {"requests_per_minute", q->requests_per_minute}};
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (members[i].value != KEY_QUOTA_DEFAULT)
            json_object_set_new(o, members[i].name, json_integer(members[i].value));
    return o;
}

json_t *key_to_json(const struct key *key)
{
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:b}", "id", key->id, "name", key->name, "roles",
                          roles_to_json(key->roles), "quotas", quotas_to_json(&key->quotas),
                          "active", key_is_live(key));
    set_time(o, "created_at", key->created_ns);
    set_time(o, "expires_at", key->expires_ns);
    if (key->revoked_ns != key->expires_ns) /* what has expired was not revoked */
        set_time(o, "revoked_at", key->revoked_ns);
    set_time(o, "last_used_at", key->used_ns);
    return o;
}
