/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox that the store does not know and its runtime still has: the daemon's disk was lost, or
 * is an older copy. It is made known again from the record that was written beside it. Its running
 * commands come from its runner, which tells of each by the tag that it was started with
 * (exec-resume.c): output that was acknowledged went with the disk, and is a cut. */
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "sandbox/internal.h"

#define ID_PREFIX "sbx-"

/* Names of files are made of it. */
static bool id_is_plain(const char *id)
{
    size_t n = strlen(id);
    return n < PLAN_ID_SIZE && strncmp(id, ID_PREFIX, strlen(ID_PREFIX)) == 0 &&
           n > strlen(ID_PREFIX) && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

/* Only a runtime that keeps its sandboxes elsewhere can have one that the store does not know: a
 * record that names another one was changed. */
static int check_remains(const struct sandbox_remains *r, const char *id,
                         const struct sandbox_row *row, struct error *err)
{
    const struct runtime_ops *ops = runtime_find(row->spec.runtime);
    if (!id_is_plain(id))
        return error_set(err, ERROR_INVALID, 0, "its record has no id");
    if (strcmp(row->runtime_id, r->runtime_id) != 0)
        return error_set(err, ERROR_INVALID, 0, "its record is that of '%.60s'", row->runtime_id);
    if (!ops || !ops->lives_elsewhere)
        return error_set(err, ERROR_INVALID, 0, "its record has another runtime, '%.40s'",
                         row->spec.runtime);
    if (strcmp(row->owner, r->owner) != 0)
        return error_set(err, ERROR_INVALID, 0, "its record has another owner, '%.40s'",
                         row->owner);
    return 0;
}

/* A record is no way around what a create is held to: what could not be made is not taken over. */
static int check_allowed(struct manager *m, const struct sandbox_remains *r,
                         const struct sandbox_row *row, struct error *err)
{
    if (r->is_owner_known && !r->is_owner_known(r->data, row->owner))
        return error_set(err, ERROR_INVALID, 0, "its owner, '%.40s', is not a key of this daemon",
                         row->owner);
    return sandbox_check_spec(m, runtime_find(row->spec.runtime), &row->spec, row->owner, err);
}

/* Positive: it is not known. 0: it is, and ended here: its row says so. What only has the name of
 * another sandbox may be the one that lives, and is nothing to delete. */
static int check_known(struct manager *m, const char *id, const struct sandbox_row *row,
                       struct error *err)
{
    _cleanup_free_ char *key = row->alias ? sandbox_alias_key(row->owner, row->alias) : NULL;
    const struct sandbox *sb = map_find(m->by_id, id);
    if (sb && row->generation && strcmp(sb->generation, row->generation) == 0)
        return 0;
    if (sb)
        return error_set(err, ERROR_CONFLICT, 0, "another sandbox has its id, %s", id);
    if (key && map_find(m->by_alias, key))
        return error_set(err, ERROR_CONFLICT, 0, "another sandbox has its name, %.60s", row->alias);
    return 1;
}

int manager_rebuild(struct manager *m, const struct sandbox_remains *r, struct error *err)
{
    struct sandbox_row row;
    if (!m->options.store || m->closing)
        return error_set(err, ERROR_UNAVAILABLE, 0, "this daemon takes no sandboxes over");
    _cleanup_json_ json_t *o = json_parse_object(r->record, r->len, err);
    const char *id = o ? json_member_text(o, "id") : "";
    if (!o || sandbox_row_parse(o, id, &row, err) < 0)
        return -1;
    int known = check_remains(r, id, &row, err);
    if (known >= 0 && tombstone_find(m, row.generation))
        known = 0;
    else
        known = known < 0 ? known : check_known(m, id, &row, err);
    if (known > 0 && check_allowed(m, r, &row, err) < 0)
        known = -1;
    if (known > 0) {
        row.failure = NULL;
        struct sandbox *sb = sandbox_restore(m, id, &row, NULL);
        sb->last_exec_ns = r->last_exec_s * 1000000000;
        sandbox_announce_restored(sb);
        sandbox_write_row(sb);
    } else {
        sandbox_policy_free(row.policy);
    }
    spec_done(&row.spec);
    return known < 0 ? -1 : known;
}
