/* SPDX-License-Identifier: Apache-2.0 */
/* Where the link of a sandbox is: the pod's address, and the fingerprint of the key that the link
 * made, which is the first line of its container's log. Both come from the API server, over the
 * connection that has its certificate: nothing in the pod's network can say otherwise.
 *
 * What was found is kept, so that a lost stream comes back while the API server is away. It is
 * forgotten where it fails: a pod that was made anew has another address and another key. Where
 * that fails as well, it is remembered, so that the next streams do not wait for it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/strbuf.h"
#include "kube/broker-internal.h"
#include "kube/ceiling.h"
#include "kube/layout.h"
#include "kube/manifest.h"
#include "kube/query.h"
#include "kube/route.h"

#define LOOK_UP_MS 10000
#define BARRED_MS  300000 /* a firewall between us is rarely opened */
#define LOG_BYTES  "256"  /* of the log; the line has some 90 bytes */

struct route_lookup {
    struct kube_broker *broker;
    char id[KUBE_ID_SIZE];
    struct route route;
    struct kube_call *call;
    void (*on_done)(void *data, const struct route *route, const char *why);
    void *data;
};

const struct route *route_find(const struct kube_broker *b, const char *id)
{
    const struct route *r = b->routes ? map_find(b->routes, id) : NULL;
    return r && !r->barred_until_ms ? r : NULL;
}

bool route_is_barred(const struct kube_broker *b, const char *id)
{
    const struct route *r = b->routes ? map_find(b->routes, id) : NULL;
    return r && r->barred_until_ms > clock_mono_ms();
}

void route_forget(struct kube_broker *b, const char *id)
{
    if (b->routes)
        free(map_remove(b->routes, id));
}

void routes_free(struct kube_broker *b)
{
    size_t cursor = 0;
    if (!b->routes)
        return;
    for (struct route *r; (r = map_next(b->routes, &cursor));)
        free(r);
    map_free(steal_ptr(b->routes));
}

/* Each is as small as the streams that it is for are few. */
static void route_keep(struct kube_broker *b, const char *id, const struct route *found)
{
    if (b->routes && map_count(b->routes) >= BROKER_CARRIERS_MAX)
        routes_free(b);
    if (!b->routes)
        b->routes = map_new();
    struct route *r = new0(struct route);
    *r = *found;
    free(map_put(b->routes, id, r));
}

void route_bar(struct kube_broker *b, const char *id)
{
    route_keep(b, id, &(struct route){.barred_until_ms = clock_mono_ms() + BARRED_MS});
}

void route_cancel(struct route_lookup *l)
{
    if (!l)
        return;
    kube_call_cancel(l->call);
    free(l);
}

static void route_done(struct route_lookup *l, const char *why)
{
    struct route_lookup done = *l;
    char text[200];
    snprintf(text, sizeof(text), "%s", why ? why : "");
    if (!why)
        route_keep(l->broker, l->id, &l->route);
    free(l);
    done.on_done(done.data, why ? NULL : &done.route, text);
}

static void route_ask(struct route_lookup *l, const char *part, bool raw,
                      void (*on_answer)(void *data, const struct kube_answer *answer))
{
    const struct kube_call_events events = {.on_done = on_answer};
    _cleanup_strbuf_ struct strbuf path = STRBUF_INIT(KUBE_TARGET_MAX);
    const struct kube_ceiling *c = l->broker->o.ceiling;
    char space[KUBE_PLACE_SIZE], pod[KUBE_PLACE_SIZE];
    strbuf_printf(&path, "/api/v1/namespaces/%s/pods/%s%s", kube_layout_namespace(c, l->id, space),
                  kube_layout_pod(c, l->id, pod), part);
    if (raw) {
        kube_query_add(&path, "container", KUBE_LINK_CONTAINER);
        kube_query_add(&path, "limitBytes", LOG_BYTES);
    }
    struct kube_request request = {
        .method = "GET", .path = path.data, .raw = raw, .deadline_ms = LOOK_UP_MS};
    l->call = kube_call_start(l->broker->o.client, &request, &events, l);
}

/* False where the first line is not the link's own. */
static bool read_line(const char *text, size_t len, uint8_t ret[PIN_SIZE])
{
    char line[sizeof(PIN_LINE) + PIN_TEXT_SIZE];
    const char *end = text ? memchr(text, '\n', len) : NULL;
    size_t n = end ? (size_t)(end - text) : 0;
    if (n == 0 || n >= sizeof(line) || strncmp(text, PIN_LINE, strlen(PIN_LINE)) != 0)
        return false;
    memcpy(line, text, n);
    line[n] = 0;
    return pin_parse(line + strlen(PIN_LINE), ret);
}

static void on_route_log(void *data, const struct kube_answer *answer)
{
    struct route_lookup *l = data;
    l->call = NULL;
    if (answer->result.outcome != KUBE_DONE)
        route_done(l, answer->result.message);
    else if (!read_line(answer->text, answer->len, l->route.pin))
        route_done(l, "the log of its link does not begin with a fingerprint");
    else
        route_done(l, NULL);
}

static void on_route_pod(void *data, const struct kube_answer *answer)
{
    struct route_lookup *l = data;
    const json_t *status = json_object_get(answer->object, "status");
    l->call = NULL;
    if (answer->result.outcome != KUBE_DONE) {
        route_done(l, answer->result.message);
        return;
    }
    const char *address = json_member_text(status, "podIP");
    if (!*address || strlen(address) >= sizeof(l->route.address)) {
        route_done(l, "its pod has no address yet");
        return;
    }
    strcpy(l->route.address, address);
    route_ask(l, "/log", true, on_route_log);
}

struct route_lookup *route_look_up(struct kube_broker *b, const char *id,
                                   void (*on_done)(void *data, const struct route *route,
                                                   const char *why),
                                   void *data)
{
    struct route_lookup *l = new0(struct route_lookup);
    l->broker = b;
    l->on_done = on_done;
    l->data = data;
    snprintf(l->id, sizeof(l->id), "%s", id);
    route_ask(l, "", false, on_route_pod);
    return l;
}
