/* SPDX-License-Identifier: Apache-2.0 */
/* The image of a call that a person is asked about. What was shown is what will run: the subject
 * has its digest, the store keeps it as long as the call may still run, and the caller who comes
 * back with the grant gets it whatever its name means by then. */
#include <string.h>

#include "base/map.h"
#include "guard/approval-internal.h"

static const char *digest_of(const struct approval *a)
{
    const json_t *spec = json_object_get(a->subject, "spec");
    return json_string_value(json_object_get(spec, "image_digest"));
}

static const char *name_of(const struct approval *a)
{
    const json_t *spec = json_object_get(a->subject, "spec");
    return json_string_value(json_object_get(json_object_get(spec, "image"), "name"));
}

/* A sandbox that is there has its image itself. */
static bool is_one_shot(const struct approval *a)
{
    return json_is_null(json_object_get(a->subject, "sandbox"));
}

void approvals_for_each_image(const struct approvals *s, void (*cb)(void *arg, const char *digest),
                              void *arg)
{
    list_for_each(a, &s->all, struct approval, node) {
        /* One whose use is being recorded is about to run. */
        bool may_run = a->busy || a->state == APPROVAL_PENDING || a->state == APPROVAL_APPROVED;
        const char *digest = may_run && is_one_shot(a) ? digest_of(a) : NULL;
        if (digest)
            cb(arg, digest);
    }
}

const char *approvals_find_image(const struct approvals *s, const struct identity *who,
                                 const char *id, const char *image)
{
    const struct approval *a = map_find(s->by_id, id);
    if (!a || strcmp(a->requester.key, who->key) != 0 || !is_one_shot(a))
        return NULL;
    const char *name = name_of(a);
    return name && strcmp(name, image) == 0 ? digest_of(a) : NULL;
}

void approval_show_image(const struct approval *a, json_t *view)
{
    const char *name = name_of(a), *digest = digest_of(a);
    if (!name || !digest)
        return;
    json_object_set_new(view, "image", json_string(name));
    json_object_set_new(view, "image_digest", json_string(digest));
}
