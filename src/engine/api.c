/* SPDX-License-Identifier: Apache-2.0 */
/* What both engines are asked, in the version that both sides know. Containers, images and events
 * are docker's API, which podman has too; podman's own is used where docker's cannot say it. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/engine.h"

#define API_MAJOR           1
#define API_MINOR_LEAST     40
#define API_MINOR_KNOWN     43
#define PATH_MAX_BYTES      768
#define DIGITS              "0123456789"
#define VERSION_DIGITS      6
#define WARNINGS_MAX        8
#define CONTAINER_ID_DIGITS 64

static int refuse_answer(struct engine *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse_answer(struct engine *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->rest.why, sizeof(e->rest.why), fmt, ap);
    va_end(ap);
    rest_make_printable(e->rest.why);
    return -EPROTO;
}

/* "1.41", "4.3.1": as many digits as a version has, and nothing before them. */
static int parse_version(const char *text, int *major, int *minor)
{
    size_t first = strspn(text, DIGITS);
    if (!first || first > VERSION_DIGITS || text[first] != '.')
        return -EPROTO;
    size_t second = strspn(text + first + 1, DIGITS);
    if (!second || second > VERSION_DIGITS)
        return -EPROTO;
    *major = atoi(text);
    *minor = atoi(text + first + 1);
    return 0;
}

/* Of podman's own API, where the engine has it. */
static bool knows_libpod(struct engine *e, const char *version)
{
    int major, minor, least = engine_dialect(e)->libpod_least;
    if (!least)
        return true;
    if (parse_version(version, &major, &minor) < 0 || major < least)
        return false;
    snprintf(e->libpod, sizeof(e->libpod), "/v%d.0.0/libpod", least);
    return true;
}

static int check_kind(struct engine *e, const json_t *version)
{
    const json_t *component = NULL;
    const struct engine_dialect *d = engine_dialect_find(version, &component);
    if (!d)
        return refuse_answer(e, "what answers at %s is not a container engine that is known here",
                             e->rest.socket);
    if (d != engine_dialect(e))
        return refuse_answer(e, "the engine at %s is %s", e->rest.socket, engine_dialect_name(d));
    const char *own = json_member_text(json_object_get(component, "Details"), "APIVersion");
    return knows_libpod(e, own) ? 0
                                : refuse_answer(e, "%s %.20s is too old: at least %d.0 is needed",
                                                engine_dialect_name(d), own, d->libpod_least);
}

/* What podman's /version takes is longer than all else: it runs programs. The head of this says as
 * much as is needed. */
int api_connect(struct engine *e)
{
    int major, minor;
    int status = rest_call(&e->rest, "GET", "/_ping", NULL, NULL);
    if (status < 0)
        return status;
    bool has_libpod = e->rest.libpod_version[0], wanted = engine_dialect(e)->libpod_least;
    if (status != 200 || has_libpod != wanted ||
        parse_version(e->rest.api_version, &major, &minor) < 0 || major != API_MAJOR ||
        minor < API_MINOR_LEAST || !knows_libpod(e, e->rest.libpod_version))
        return api_ask_version(e); /* whose words are better */
    snprintf(e->api, sizeof(e->api), "/v%d.%d", API_MAJOR,
             minor > API_MINOR_KNOWN ? API_MINOR_KNOWN : minor);
    return 0;
}

int api_ask_version(struct engine *e)
{
    _cleanup_json_ json_t *version = NULL;
    int status = rest_call(&e->rest, "GET", "/version", NULL, &version);
    if (status < 0)
        return status;
    if (status != 200 || !json_is_object(version))
        return refuse_answer(e, "what answers at %s is not a container engine: status %d",
                             e->rest.socket, status);
    snprintf(e->version, sizeof(e->version), "%.63s", json_member_text(version, "Version"));
    for (char *p = e->version; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '"')
            *p = '?';
    int r = check_kind(e, version);
    if (r < 0)
        return r;
    int major, minor, least_major = API_MAJOR, least_minor = 0;
    if (parse_version(json_member_text(version, "ApiVersion"), &major, &minor) < 0)
        return refuse_answer(e, "what answers at %s names no API version", e->rest.socket);
    parse_version(json_member_text(version, "MinAPIVersion"), &least_major, &least_minor);
    if (major != API_MAJOR || minor < API_MINOR_LEAST)
        return refuse_answer(e, "API %d.%d is too old: at least %d.%d is needed", major, minor,
                             API_MAJOR, API_MINOR_LEAST);
    if (least_major > API_MAJOR || least_minor > API_MINOR_KNOWN)
        return refuse_answer(e, "API %d.%d at least is more than is known here (%d.%d)",
                             least_major, least_minor, API_MAJOR, API_MINOR_KNOWN);
    if (minor > API_MINOR_KNOWN)
        minor = API_MINOR_KNOWN;
    snprintf(e->api, sizeof(e->api), "/v%d.%d", API_MAJOR, minor);
    return 0;
}

static int call_engine(struct engine *e, const char *method, const json_t *body, json_t **ret,
                       const char *fmt, va_list ap)
{
    char path[PATH_MAX_BYTES], *at = path;
    size_t left = sizeof(path);
    bool own = strncmp(fmt, "/libpod", strlen("/libpod")) == 0;
    int n = snprintf(at, left, "%s", own ? e->libpod : e->api);
    at += n;
    left -= (size_t)n;
    n = vsnprintf(at, left, own ? fmt + strlen("/libpod") : fmt, ap);
    if (n < 0 || (size_t)n >= left)
        return -ENAMETOOLONG;
    return rest_call(&e->rest, method, path, body, ret);
}

int api_get(struct engine *e, json_t **ret, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int status = call_engine(e, "GET", NULL, ret, fmt, ap);
    va_end(ap);
    return status;
}

int api_post(struct engine *e, const json_t *body, json_t **ret, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int status = call_engine(e, "POST", body, ret, fmt, ap);
    va_end(ap);
    return status;
}

static int api_delete(struct engine *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int api_delete(struct engine *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int status = call_engine(e, "DELETE", NULL, NULL, fmt, ap);
    va_end(ap);
    return status;
}

static int status_to_errno(int status)
{
    return status < 0 ? status : status < 400 ? 0 : -EIO;
}

/* By its id where that is known, because another container may be given its name. */
static const char *container_ref(const struct engine *e)
{
    return e->mark.container[0] ? e->mark.container : e->name;
}

bool api_is_id(const char *text)
{
    return text && strlen(text) == CONTAINER_ID_DIGITS &&
           strspn(text, "0123456789abcdef") == CONTAINER_ID_DIGITS;
}

/* Ours by its labels, and the one that is held already, if one is. */
static bool is_ours(const struct engine *e, const json_t *container)
{
    const json_t *labels = json_object_get(json_object_get(container, "Config"), "Labels");
    const char *id = json_member_text(container, "Id");
    return api_is_id(id) && (!e->mark.container[0] || strcmp(id, e->mark.container) == 0) &&
           strcmp(json_member_text(labels, LABEL_INSTANCE), e->order.instance) == 0 &&
           strcmp(json_member_text(labels, LABEL_ID), e->order.id) == 0;
}

int api_inspect(struct engine *e, json_t **ret)
{
    int status = api_get(e, ret, "/containers/%s/json", container_ref(e));
    if (status != 200)
        return status == 404 ? -ENOENT : status < 0 ? status : -EIO;
    if (!is_ours(e, *ret)) {
        refuse_answer(e, "the container that it names, %.40s, belongs to another sandbox",
                      container_ref(e));
        json_decref(*ret);
        *ret = NULL;
        return -ENOENT;
    }
    snprintf(e->mark.container, sizeof(e->mark.container), "%s", json_member_text(*ret, "Id"));
    return 0;
}

int api_create(struct engine *e, const json_t *body)
{
    _cleanup_json_ json_t *answer = NULL;
    int r = status_to_errno(engine_dialect(e)->create(e, body, &answer));
    if (r < 0)
        return r;
    if (!api_is_id(json_member_text(answer, "Id")))
        return refuse_answer(e, "it does not say which container it made");
    snprintf(e->mark.container, sizeof(e->mark.container), "%s", json_member_text(answer, "Id"));
    const json_t *warning;
    size_t i;
    json_array_foreach(json_object_get(answer, "Warnings"), i, warning)
    {
        char text[200];
        if (i >= WARNINGS_MAX)
            break;
        if (!json_is_string(warning))
            continue;
        snprintf(text, sizeof(text), "%s", json_string_value(warning));
        rest_make_printable(text);
        log_warn("the engine warns text=\"%s\"", text);
    }
    return 0;
}

int api_start(struct engine *e)
{
    return status_to_errno(api_post(e, NULL, NULL, "/containers/%s/start", container_ref(e)));
}

int api_pause(struct engine *e, bool on)
{
    return status_to_errno(
        api_post(e, NULL, NULL, "/containers/%s/%s", container_ref(e), on ? "pause" : "unpause"));
}

int api_remove(struct engine *e, const char *id)
{
    int status = api_delete(e, "/containers/%s?force=1&v=1", id);
    return status == 404 ? 0 : status_to_errno(status);
}
