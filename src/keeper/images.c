/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/images.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/map.h"
#include "keeper/keeper-proto.h"

#define KNOWN_MAX   1024
#define ENV_MAX     4096
#define TOUCH_EVERY 30000 /* ms; the last use of an image is not needed more exactly */

struct known {
    struct image_found found;
    int64_t touched_ms;
};

struct images {
    struct images_options o;
    struct keeper_client *keeper;
    struct map *known; /* by what was asked for */
    struct list removals;
};

/* --- what is remembered */

static void known_free(struct known *k)
{
    strv_free(k->found.env);
    free(k->found.workdir);
    strv_free(k->found.names);
    free(k);
}

void images_forget(struct images *im)
{
    size_t cursor = 0;
    for (struct known *k; (k = map_next(im->known, &cursor));)
        known_free(k);
    map_free(im->known);
    im->known = map_new();
}

/* What rules are to see: how it was asked for first, then where it came from and its names. */
static char **parse_names(const json_t *o, const char *digest)
{
    const char *reference = json_string_value(json_object_get(o, "reference"));
    const char *source = json_string_value(json_object_get(o, "source"));
    const json_t *names = json_object_get(o, "names");
    char **list = xcalloc(json_array_size(names) + 3, sizeof(*list));
    size_t n = 0, i;
    json_t *item;
    list[n++] = reference ? xstrdup(reference) : xasprintf("sha256:%s", digest);
    if (source && *source && strcmp(source, KEEPER_UPLOAD) != 0)
        list[n++] = xstrdup(source);
    json_array_foreach(names, i, item)
    {
        if (json_is_string(item))
            list[n++] = xstrdup(json_string_value(item));
    }
    return list;
}

static struct known *parse_found(const json_t *o, struct error *err)
{
    const char *digest = json_string_value(json_object_get(o, "digest"));
    const char *workdir = json_string_value(json_object_get(o, "workdir"));
    struct known *k = new0(struct known);
    if (!digest || strlen(digest) != KEEPER_DIGEST_LEN ||
        json_member_strv(o, "env", ENV_MAX, &k->found.env, err) < 0) {
        error_set(err, ERROR_INTERNAL, 0, "the image keeper names no digest");
        known_free(k);
        return NULL;
    }
    memcpy(k->found.digest, digest, IMAGES_DIGEST_SIZE);
    k->found.workdir = xstrdup(workdir ? workdir : "");
    k->found.names = parse_names(o, digest);
    k->touched_ms = clock_mono_ms();
    return k;
}

/* --- what is about to go */

void image_removal_begin(struct images *im, struct image_removal *r, const char *digest)
{
    snprintf(r->digest, sizeof(r->digest), "%s", digest);
    list_append(&im->removals, &r->node);
}

void image_removal_end(struct image_removal *r)
{
    list_remove(&r->node);
}

static bool is_going(const struct images *im, const char *digest)
{
    list_for_each(r, &im->removals, struct image_removal, node) {
        if (strcmp(r->digest, digest) == 0)
            return true;
    }
    return false;
}

const struct image_found *images_peek(struct images *im, const char *image)
{
    struct known *k = im ? map_find(im->known, image) : NULL;
    if (!k || strcmp(im->o.policy, "always") == 0 || is_going(im, k->found.digest))
        return NULL;
    if (clock_mono_ms() - k->touched_ms > TOUCH_EVERY) {
        k->touched_ms = clock_mono_ms();
        keeper_client_tell(im->keeper,
                           json_pack("{s:s, s:s}", "op", "touch", "digest", k->found.digest));
    }
    return &k->found;
}

/* --- waiting for one */

static void on_resolved(void *data, json_t *result, const struct error *failed)
{
    struct image_wait *w = data;
    struct error err = {0};
    struct images *im = w->images;
    _cleanup_free_ char *image = steal_ptr(w->image);
    struct known *k = result ? parse_found(result, &err) : NULL;
    w->call = NULL;
    if (k && is_going(im, k->found.digest)) {
        error_set(&err, ERROR_CONFLICT, 0, "image '%.200s' is being removed", image);
        known_free(steal_ptr(k));
    }
    if (k) {
        k->found.fetched = json_is_true(json_object_get(result, "fetched"));
        if (k->found.fetched)
            images_forget(im); /* what is remembered may have one name more */
        if (map_count(im->known) >= KNOWN_MAX)
            images_forget(im);
        struct known *old = map_put(im->known, image, k);
        if (old)
            known_free(old);
    }
    w->on_found(w, k ? &k->found : NULL, k ? NULL : failed ? failed : &err);
}

int image_text_check(const char *image, struct error *err)
{
    size_t n = strlen(image);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)image[i] <= ' ' || image[i] == 0x7f)
            return error_field(err, "image", "'image' has a space or a control byte in it");
    if (n == 0 || n > KEEPER_IMAGE_MAX)
        return error_field(err, "image", "'image' must have 1 to %d bytes", KEEPER_IMAGE_MAX);
    return 0;
}

int images_resolve(struct images *im, const char *image, struct image_wait *w, struct error *err)
{
    static const struct keeper_handlers handlers = {.on_done = on_resolved};
    int r = image_text_check(image, err);
    if (r < 0)
        return r;
    if (!im)
        return error_set(err, ERROR_UNSUPPORTED, 0, "images are switched off (images: false)");
    json_t *request = json_pack("{s:s, s:s, s:s}", "op", "pull", "image", image, "policy",
                                w->policy ? w->policy : im->o.policy);
    w->images = im;
    w->call = keeper_call_start(im->keeper, request, -1, &handlers, w, err);
    if (!w->call)
        return -EPIPE;
    w->image = xstrdup(image);
    return 0;
}

void image_wait_cancel(struct image_wait *w)
{
    keeper_call_cancel(w->call);
    w->call = NULL;
    free(steal_ptr(w->image));
}

/* --- the rest */

struct search {
    const char *digest;
    bool found;
};

static void on_used(void *arg, const char *digest)
{
    struct search *s = arg;
    s->found = s->found || strcmp(s->digest, digest) == 0;
}

bool images_is_used(const struct images *im, const char *digest)
{
    struct search s = {.digest = digest};
    im->o.for_each_used(im->o.data, on_used, &s);
    return s.found;
}

struct used {
    struct map *seen;
    json_t *list;
};

static void add_used(void *arg, const char *digest)
{
    struct used *u = arg;
    if (!map_put(u->seen, digest, u))
        json_array_append_new(u->list, json_string(digest));
}

/* Others have to go: what is remembered may be among them. */
static json_t *in_use(void *data)
{
    struct images *im = data;
    struct used u = {map_new(), json_array()};
    im->o.for_each_used(im->o.data, add_used, &u);
    map_free(u.seen);
    images_forget(im);
    return u.list;
}

struct keeper_call *images_call(struct images *im, json_t *request, int fd,
                                const struct keeper_handlers *handlers, void *data,
                                struct error *err)
{
    if (im)
        return keeper_call_start(im->keeper, request, fd, handlers, data, err);
    json_decref(request);
    error_set(err, ERROR_UNSUPPORTED, 0, "images are switched off (images: false)");
    return NULL;
}

struct images *images_new(const struct images_options *o)
{
    struct images *im = new0(struct images);
    im->o = *o;
    im->known = map_new();
    list_init(&im->removals);
    im->keeper = keeper_client_new(o->loop, o->sock, o->generation);
    keeper_client_on_full(im->keeper, in_use, im);
    return im;
}

void images_close(struct images *im)
{
    if (!im)
        return;
    keeper_client_close(im->keeper);
    images_forget(im);
    map_free(im->known);
    free(im);
}
