/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the store, and what of it has to go. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "image/store-internal.h"

void image_list_done(struct image_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        image_info_done(&l->items[i]);
    free(l->items);
    *l = (struct image_list){0};
}

struct listing {
    struct image_store *s;
    struct image_list list;
};

/* One that cannot be read or is just being removed is left out: it is no image that could be used.
 */
static int list_one(void *arg, const char *digest)
{
    struct listing *l = arg;
    struct image_info info = {0};
    struct error ignored = {0};
    if (!image_digest_is_valid(digest) || image_store_find(l->s, digest, &info, &ignored) < 0)
        return 0;
    l->list.items = xrealloc(l->list.items, (l->list.count + 1) * sizeof(*l->list.items));
    l->list.items[l->list.count++] = info;
    return 0;
}

static int compare_use(const void *a, const void *b)
{
    const struct image_info *x = a, *y = b;
    if (x->last_use_ns != y->last_use_ns)
        return x->last_use_ns > y->last_use_ns ? -1 : 1;
    return strcmp(x->digest, y->digest);
}

int image_store_list(struct image_store *s, struct image_list *ret, struct error *err)
{
    struct listing l = {.s = s};
    int r = store_each(s->store, list_one, &l);
    if (r < 0) {
        image_list_done(&l.list);
        return error_set(err, ERROR_INTERNAL, -r, "list images");
    }
    if (l.list.count)
        qsort(l.list.items, l.list.count, sizeof(*l.list.items), compare_use);
    *ret = l.list;
    return 0;
}

int image_store_victims(struct image_store *s, uint64_t max_bytes,
                        bool (*in_use)(void *arg, const char *digest), void *arg, char ***ret,
                        struct error *err)
{
    _cleanup_image_list_ struct image_list l = {0};
    int r = image_store_list(s, &l, err);
    if (r < 0)
        return r;
    uint64_t total = 0;
    for (size_t i = 0; i < l.count; i++)
        total += l.items[i].size_bytes;
    char **victims = xcalloc(l.count + 1, sizeof(*victims));
    size_t n = 0;
    for (size_t i = l.count; i-- > 0 && total > max_bytes;) {
        if (in_use(arg, l.items[i].digest))
            continue;
        total -= l.items[i].size_bytes;
        victims[n++] = xstrdup(l.items[i].digest);
    }
    *ret = victims;
    return 0;
}
