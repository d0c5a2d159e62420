/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/layout.h"

#include <stdio.h>
#include <string.h>

#include "kube/ceiling.h"
#include "kube/manifest.h"

bool kube_layout_is_shared(const struct kube_ceiling *c)
{
    return c->shared_namespace != NULL;
}

const char *kube_layout_root(const struct kube_ceiling *c)
{
    return c->shared_namespace ? "pod" : "namespace";
}

const char *kube_layout_namespace(const struct kube_ceiling *c, const char *id,
                                  char buffer[KUBE_PLACE_SIZE])
{
    if (c->shared_namespace)
        snprintf(buffer, KUBE_PLACE_SIZE, "%s", c->shared_namespace);
    else
        snprintf(buffer, KUBE_PLACE_SIZE, "%s%s", c->prefix, id);
    return buffer;
}

const char *kube_layout_pod(const struct kube_ceiling *c, const char *id,
                            char buffer[KUBE_PLACE_SIZE])
{
    if (c->shared_namespace)
        snprintf(buffer, KUBE_PLACE_SIZE, "%s%s", c->prefix, id);
    else
        snprintf(buffer, KUBE_PLACE_SIZE, "%s", KUBE_POD_NAME);
    return buffer;
}

bool kube_layout_find(const struct kube_ceiling *c, const char *namespace_, const char *pod,
                      char ret[KUBE_ID_SIZE])
{
    const char *fixed = c->shared_namespace ? c->shared_namespace : KUBE_POD_NAME;
    const char *place = c->shared_namespace ? namespace_ : pod;
    const char *name = c->shared_namespace ? pod : namespace_;
    size_t n = strlen(c->prefix);
    if (strcmp(place, fixed) != 0 || strncmp(name, c->prefix, n) != 0 || !name[n] ||
        strlen(name + n) >= KUBE_ID_SIZE)
        return false;
    snprintf(ret, KUBE_ID_SIZE, "%s", name + n);
    return true;
}
