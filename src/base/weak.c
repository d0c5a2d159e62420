/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weak.h"

#include "base/alloc.h"

struct weak {
    void *object;
    unsigned refs; /* those given out, and the object's own while it is there */
};

struct weak *weak_ref(struct weak **own, void *object)
{
    if (!*own) {
        *own = new0(struct weak);
        **own = (struct weak){.object = object, .refs = 1};
    }
    (*own)->refs++;
    return *own;
}

void *weak_get(const struct weak *w)
{
    return w ? w->object : NULL;
}

void *weak_unref(struct weak *w)
{
    void *object = weak_get(w);
    if (w && --w->refs == 0)
        free(w);
    return object;
}

void weak_clear(struct weak **own)
{
    struct weak *w = steal_ptr(*own);
    if (!w)
        return;
    w->object = NULL;
    weak_unref(w);
}
