/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/watch-stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

static const char *const type_names[] = {
    [KUBE_ADDED] = "ADDED",       [KUBE_MODIFIED] = "MODIFIED", [KUBE_DELETED] = "DELETED",
    [KUBE_BOOKMARK] = "BOOKMARK", [KUBE_ERROR] = "ERROR",
};
static_assert(ELEMENTS(type_names) == _KUBE_EVENT_MAX, "a name for every type");

void kube_watch_stream_init(struct kube_watch_stream *s,
                            int (*on_event)(void *data, const struct kube_event *event), void *data)
{
    *s = (struct kube_watch_stream){.on_event = on_event, .data = data};
    strbuf_init(&s->line, KUBE_EVENT_MAX);
}

void kube_watch_stream_done(struct kube_watch_stream *s)
{
    strbuf_done(&s->line);
}

static int find_type(const char *name, enum kube_event_type *ret)
{
    for (size_t i = 0; i < ELEMENTS(type_names); i++) {
        if (strcmp(name, type_names[i]) != 0)
            continue;
        *ret = (enum kube_event_type)i;
        return 0;
    }
    return -EBADMSG;
}

void kube_event_from_object(struct kube_event *ret, enum kube_event_type type, json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata");
    json_object_del(metadata, "managedFields"); /* the larger half of most objects */
    *ret = (struct kube_event){
        .type = type,
        .object = object,
        .version = json_member_text(metadata, "resourceVersion"),
        .uid = json_member_text(metadata, "uid"),
        .name = json_member_text(metadata, "name"),
        .namespace_ = json_member_text(metadata, "namespace"),
    };
}

static int deliver_line(struct kube_watch_stream *s, const char *text, size_t len)
{
    struct error err = {0};
    struct kube_event event;
    enum kube_event_type type;
    _cleanup_json_ json_t *line = json_parse_any(text, len, &err);
    json_t *object = json_object_get(line, "object");
    if (!json_is_object(object) || find_type(json_member_text(line, "type"), &type) < 0)
        return -EBADMSG;
    kube_event_from_object(&event, type, object);
    if (type == KUBE_ERROR)
        kube_result_from_status(&event.result, object);
    else if (!*event.version || (type != KUBE_BOOKMARK && !*event.name))
        return -EBADMSG; /* without it the watch could not be resumed */
    return s->on_event(s->data, &event);
}

int kube_watch_stream_feed(struct kube_watch_stream *s, const char *data, size_t len)
{
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        if (strbuf_append(&s->line, data, n) < 0)
            return -EFBIG;
        if (!end)
            return 0;
        data += n + 1;
        len -= n + 1;
        if (s->line.len == 0)
            continue;
        _cleanup_strbuf_ struct strbuf line = s->line;
        strbuf_init(&s->line, KUBE_EVENT_MAX);
        int r = deliver_line(s, line.data, line.len);
        if (r < 0)
            return r;
    }
    return 0;
}
