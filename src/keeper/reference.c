/* SPDX-License-Identifier: Apache-2.0 */
#include "keeper/reference.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define DEFAULT_TAG    "latest"
#define HUB            "docker.io"
#define TAG_MAX        128
#define REPOSITORY_MAX 200
#define REGISTRY_MAX   255
#define LOWER          "abcdefghijklmnopqrstuvwxyz0123456789"
#define UPPER          "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static int refuse_reference(struct error *err, const char *text)
{
    return error_field(err, "image",
                       "'%.200s' is not an image reference ([registry/]name[:tag][@sha256:digest])",
                       text);
}

static bool consists_of(const char *text, size_t max, const char *allowed)
{
    size_t n = strlen(text);
    return n > 0 && n <= max && strspn(text, allowed) == n;
}

static bool is_registry(const char *part, size_t len)
{
    return memchr(part, '.', len) || memchr(part, ':', len) ||
           (len == 9 && memcmp(part, "localhost", 9) == 0);
}

/* Parts of lower-case letters, digits and single separators, none at an end: what becomes part of a
 * URL must not be a way to another one. */
static bool repository_is_good(const char *text)
{
    if (!consists_of(text, REPOSITORY_MAX, LOWER "._-/"))
        return false;
    if (strstr(text, "..") || strstr(text, "//"))
        return false;
    for (const char *p = text; *p; p++) {
        bool edge = p == text || !p[1] || p[1] == '/' || p[-1] == '/';
        if (edge && strchr("._-/", *p) && !(*p == '/' && p != text && p[1]))
            return false;
    }
    return true;
}

/* A dot at a host's end would make another name of it. */
static bool registry_is_good(const char *text)
{
    const char *colon = strrchr(text, ':');
    size_t host = strcspn(text, ":");
    if (!consists_of(text, REGISTRY_MAX, LOWER ".-:[]") || strchr(".-", *text))
        return false;
    if (host == 0 || text[host - 1] == '.')
        return false;
    return !colon || colon[1] == 0 || strspn(colon + 1, "0123456789") == strlen(colon + 1) ||
           text[0] == '[';
}

/* The digest is cut off before the tag and the tag before the name, so that a ':' or '@' is never
 * read as a part of what comes before it. */
static int take_digest(char *text, struct reference *r)
{
    char *at = strchr(text, '@');
    if (!at)
        return 0;
    if (strncmp(at, "@sha256:", 8) != 0 || !image_digest_is_valid(at + 8))
        return -EINVAL;
    memcpy(r->digest, at + 8, IMAGE_DIGEST_SIZE);
    *at = 0;
    return 0;
}

static int take_tag(char *text, struct reference *r)
{
    char *slash = strrchr(text, '/'), *colon = strchr(slash ? slash : text, ':');
    if (colon) {
        *colon = 0;
        if (!consists_of(colon + 1, TAG_MAX, LOWER UPPER "._-") || strchr(".-", colon[1]))
            return -EINVAL;
        r->tag = xstrdup(colon + 1);
    } else if (!*r->digest) {
        r->tag = xstrdup(DEFAULT_TAG);
    }
    return 0;
}

static int take_name(const char *text, const char *fallback, struct reference *r)
{
    const char *slash = strchr(text, '/');
    if (slash && is_registry(text, (size_t)(slash - text))) {
        r->registry = xstrndup(text, (size_t)(slash - text));
        r->repository = xstrdup(slash + 1);
    } else {
        r->registry = xstrdup(fallback ? fallback : "none");
        r->repository = xstrdup(text);
    }
    /* One name for one image: registries do not tell cases apart, and one of them has short names.
     */
    for (char *c = r->registry; *c; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    if (strcmp(r->registry, "index." HUB) == 0)
        memcpy(r->registry, HUB, sizeof(HUB));
    if (strcmp(r->registry, HUB) == 0 && !strchr(r->repository, '/')) {
        char *whole = xasprintf("library/%s", r->repository);
        free(r->repository);
        r->repository = whole;
    }
    return registry_is_good(r->registry) && repository_is_good(r->repository) ? 0 : -EINVAL;
}

static const char *without_scheme(const char *text)
{
    static const char scheme[] = "docker://";
    return strncmp(text, scheme, strlen(scheme)) == 0 ? text + strlen(scheme) : text;
}

int reference_parse(const char *text, const char *fallback, struct reference *ret,
                    struct error *err)
{
    _cleanup_free_ char *copy = xstrdup(without_scheme(text));
    struct reference r = {0};
    if (take_digest(copy, &r) < 0 || take_tag(copy, &r) < 0 || take_name(copy, fallback, &r) < 0) {
        reference_done(&r);
        return refuse_reference(err, text);
    }
    if (!fallback && strcmp(r.registry, "none") == 0) {
        reference_done(&r);
        error_set(err, ERROR_NOT_FOUND, 0,
                  "there is no image '%.200s' here, and its name has no registry to ask "
                  "(images_default_registry)",
                  text);
        return -ENOENT;
    }
    *ret = r;
    return 0;
}

void reference_done(struct reference *r)
{
    free(r->registry);
    free(r->repository);
    free(r->tag);
    *r = (struct reference){0};
}

char *reference_format(const struct reference *r)
{
    return xasprintf("%s/%s%s%s%s%s", r->registry, r->repository, r->tag ? ":" : "",
                     r->tag ? r->tag : "", *r->digest ? "@sha256:" : "", r->digest);
}

bool reference_is_listed(const struct reference *r, char *const *list)
{
    for (; list && *list; list++)
        if (strcmp(*list, "*") == 0 || strcasecmp(*list, r->registry) == 0)
            return true;
    return false;
}

/* --- how policies see an image */

char *reference_show(const char *text, const char *fallback, bool is_name)
{
    struct error ignored = {0};
    _cleanup_reference_ struct reference r = {0};
    const char *hex = strncmp(text, "sha256:", 7) == 0 ? text + 7 : text;
    if (image_digest_is_valid(hex))
        return xasprintf("sha256:%s", hex);
    if (strstr(without_scheme(text), ":/")) /* a host path */
        return xstrdup(text);
    if (reference_parse(text, NULL, &r, &ignored) >= 0)
        return reference_format(&r);
    if (is_name)
        return xstrdup(text);
    if (!fallback || reference_parse(text, fallback, &r, &ignored) < 0)
        return NULL;
    return reference_format(&r);
}

bool reference_is_local_name(const char *name)
{
    struct error ignored = {0};
    _cleanup_reference_ struct reference r = {0};
    static const char *const prefixes[] = {
        "sha256:", "oci:", "docker-archive:", "oci-archive:", "rootfs-tar:", "dir:"};
    for (size_t i = 0; i < ELEMENTS(prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return false;
    const char *slash = strchr(name, '/');
    return !strstr(name, ":/") && !image_digest_is_valid(name) && strcmp(name, "none") != 0 &&
           !(slash && is_registry(name, (size_t)(slash - name))) &&
           reference_parse(name, NULL, &r, &ignored) < 0;
}
