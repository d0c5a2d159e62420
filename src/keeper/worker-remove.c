/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an image, and of what a worker that was killed left. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "keeper/internal.h"
#include "keeper/reference.h"

#define DISCARD_TRIES    5
#define DISCARD_PAUSE_US 100000

int worker_remove(struct worker *w, const json_t *request, struct error *err)
{
    const char *text = json_string_value(json_object_get(request, "image"));
    _cleanup_image_info_ struct image_info info = {0};
    _cleanup_strv_ char **names = NULL;
    int r = keeper_find(w->store, w->o, text ? text : "", &info, err);
    if (r < 0)
        return r;
    r = image_store_names(w->store, info.digest, &names, err);
    if (r < 0)
        return r;
    json_t *view = keeper_view(w->store, &info);
    bool last = keeper_is_local(text) || strv_length(names) < 2;
    if (last) {
        r = image_store_remove(w->store, info.digest, err);
    } else {
        _cleanup_reference_ struct reference ref = {0};
        r = image_store_unname(w->store, text, err);
        if (r < 0 && reference_parse(text, w->o->config.default_registry, &ref, NULL) >= 0) {
            _cleanup_free_ char *full = reference_format(&ref);
            error_clear(err);
            r = image_store_unname(w->store, full, err);
        }
    }
    json_object_set_new(view, "removed", json_boolean(last));
    if (r >= 0)
        worker_tell(w, json_pack("{s:O}", "done", view));
    json_decref(view);
    return r;
}

/* What a worker that was killed left. Its children die with it, but not at the same moment. */
int worker_discard(struct worker *w, const json_t *request, struct error *err)
{
    const char *work = json_string_value(json_object_get(request, "work"));
    int r = -EINVAL;
    for (int i = 0; i < DISCARD_TRIES && r < 0; i++) {
        if (i > 0)
            usleep(DISCARD_PAUSE_US);
        error_clear(err);
        r = image_store_discard(w->store, work ? work : "", err);
    }
    if (r < 0)
        log_warn("%s", err->message);
    return r;
}
