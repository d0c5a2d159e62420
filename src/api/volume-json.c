/* SPDX-License-Identifier: Apache-2.0 */
#include "api/volume-json.h"

#include <string.h>

#include "api/config.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "runtime/runtime.h"

#define WORKSPACE_CLAIM_BYTES (10ull << 30) /* the API has no member for it */

static bool has_volumes(const struct spec *s)
{
    const struct runtime_ops *ops = runtime_find(s->runtime);
    return ops && ops->has_volumes;
}

/* Existing clients send "" for what they do not want to choose. */
static int member_word(const json_t *body, const char *field, const char **word, struct error *err)
{
    const char *said = NULL;
    int r = json_member_string(body, field, &said, err);
    if (said && *said)
        *word = said;
    return r;
}

static int parse_mode(const json_t *body, const char *field, const char *fallback,
                      enum volume_mode *ret, struct error *err)
{
    const char *word = fallback;
    int r = member_word(body, field, &word, err);
    if (r < 0)
        return r;
    int mode = volume_mode_parse(word);
    if (mode < 0)
        return error_field(err, field, "'%s': there is no volume '%.40s' (emptydir, hostpath, pvc)",
                           field, word);
    *ret = (enum volume_mode)mode;
    return 0;
}

static int parse_workspace(const struct api_config *c, const json_t *body, struct spec *s,
                           struct error *err)
{
    struct volume v = {.bytes = WORKSPACE_CLAIM_BYTES};
    int r = parse_mode(body, "volume_mode", c->volume_mode, &v.mode, err);
    if (r < 0 || v.mode == VOLUME_EMPTY)
        return r;
    if (v.mode == VOLUME_HOST)
        return error_field(err, "volume_mode", "'volume_mode' is 'emptydir' or 'pvc'");
    if (!has_volumes(s))
        return error_unsupported(err, "volume_mode",
                                 "'volume_mode': only 'emptydir' exists on this runtime");
    s->workspace = v;
    return 0;
}

/* --- the cache */

static int parse_claim(const struct api_config *c, const json_t *body, struct volume *v,
                       struct error *err)
{
    const char *size = "", *class = c->cache_pvc_storage_class ? c->cache_pvc_storage_class : "";
    const char *access = c->cache_pvc_access_mode;
    int r = member_word(body, "cache_pvc_size", &size, err);
    if (r < 0)
        return r;
    r = member_word(body, "cache_pvc_storage_class", &class, err);
    if (r < 0)
        return r;
    r = member_word(body, "cache_pvc_access_mode", &access, err);
    if (r < 0)
        return r;
    v->bytes = c->cache_pvc_bytes;
    if (*size && volume_size_parse(size, &v->bytes) < 0)
        return error_field(err, "cache_pvc_size",
                           "'cache_pvc_size': '%.40s' is not a size such as 5Gi", size);
    if (strlen(class) >= sizeof(v->storage_class))
        return error_field(err, "cache_pvc_storage_class",
                           "'cache_pvc_storage_class' is longer than %d bytes",
                           VOLUME_CLASS_SIZE - 1);
    int found = volume_access_parse(access);
    if (found < 0)
        return error_field(err, "cache_pvc_access_mode",
                           "'cache_pvc_access_mode': there is no mode '%.40s' (ReadWriteOnce, "
                           "ReadWriteOncePod, ReadWriteMany)",
                           access);
    v->access = (enum volume_access)found;
    strcpy(v->storage_class, class);
    return 0;
}

/* What says how a claim is made means nothing without one. */
static int refuse_claim_members(const json_t *body, bool has_claims, struct error *err)
{
    static const char *const fields[] = {"cache_pvc_size", "cache_pvc_storage_class",
                                         "cache_pvc_access_mode"};
    for (size_t i = 0; i < ELEMENTS(fields); i++) {
        const char *value = "";
        int r = member_word(body, fields[i], &value, err);
        if (r < 0)
            return r;
        if (*value && has_claims)
            return error_field(err, fields[i],
                               "'%s' describes a volume claim: it needs cache_mode 'pvc'",
                               fields[i]);
        if (*value)
            return error_unsupported(err, fields[i], "'%s': volume claims exist only on a cluster",
                                     fields[i]);
    }
    return 0;
}

/* On a host of ours the directory is a mount like any other. */
static void add_host_cache(const struct api_config *c, struct spec *s)
{
    s->mounts[s->n_mounts++] =
        (struct spec_mount){xstrdup(c->cache_hostpath), xstrdup("/cache"), false};
}

static int parse_cache(const struct api_config *c, const json_t *body, struct spec *s,
                       struct error *err)
{
    struct volume v = {0};
    bool cluster = has_volumes(s);
    int r = parse_mode(body, "cache_mode", c->cache_mode, &v.mode, err);
    if (r < 0)
        return r;
    if (v.mode == VOLUME_CLAIM && !cluster)
        return error_unsupported(
            err, "cache_mode",
            "'cache_mode': only 'emptydir' and 'hostpath' exist on this runtime");
    r = v.mode == VOLUME_CLAIM ? parse_claim(c, body, &v, err)
                               : refuse_claim_members(body, cluster, err);
    if (r < 0)
        return r;
    if (v.mode == VOLUME_HOST && !cluster)
        add_host_cache(c, s);
    else
        s->cache = v;
    return 0;
}

int volume_json_parse(const struct api_config *c, const json_t *body, struct spec *s,
                      struct error *err)
{
    int r = parse_workspace(c, body, s, err);
    return r < 0 ? r : parse_cache(c, body, s, err);
}
