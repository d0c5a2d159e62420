/* SPDX-License-Identifier: Apache-2.0 */
/* sbx events: what changes in the daemon, as its journal has it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

#define TRIES   60 /* to reach a daemon that is being started again, half a second apart */
#define WAIT_US 500000

struct printer {
    bool as_json;
    char *since; /* number of the last one, or where to begin; NULL: at the oldest */
    unsigned tries;
};

static void print_change(const json_t *event)
{
    _cleanup_free_ char *time = cell(event, "time"), *type = cell(event, "type"),
                        *id = cell(event, "id"), *owner = cell(event, "owner");
    json_int_t seq = json_integer_value(json_object_get(event, "seq"));
    const json_t *data = json_object_get(event, "data");
    char *text = data ? json_dumps(data, JSON_COMPACT) : NULL;
    _cleanup_free_ char *shown = printable(text ? text : "");
    free(text);
    if (strcmp(type, "gap") == 0)
        printf("%lld - gap: what came before is not kept any more\n", (long long)seq);
    else
        printf("%lld %s %s %s %s %s\n", (long long)seq, time, type, id, owner, shown);
}

static int print_line(void *data, const char *line, size_t len)
{
    struct printer *p = data;
    _cleanup_json_ json_t *event = json_loadb(line, len, 0, NULL);
    if (!event)
        return 0;
    if (p->as_json)
        print_json(event, JSON_COMPACT);
    else
        print_change(event);
    free(p->since);
    p->since = xasprintf("%lld", (long long)json_integer_value(json_object_get(event, "seq")));
    p->tries = 0;
    return fflush(stdout) == 0 ? 0 : -1;
}

static int read_events(struct session *s, const struct args *a, struct printer *p,
                       struct sbx_error *err)
{
    const char *types = a->type;
    _cleanup_free_ char *from = p->since ? sbx_path_format("&since=%s", p->since) : xstrdup("");
    _cleanup_free_ char *of = types ? sbx_path_format("&types=%s", types) : xstrdup("");
    _cleanup_free_ char *path = xasprintf("/v1/events?follow=%d%s%s", a->follow, from, of);
    return sbx_stream_lines(s->client, "GET", path, NULL, print_line, p, err);
}

/* A daemon whose control plane died is back soon, and the journal goes on where this stopped. */
static bool is_broken(const struct printer *p, const struct sbx_error *err)
{
    return !ferror(stdout) && strcmp(err->code, "unavailable") == 0 && p->since &&
           (err->http_status == 0 || err->http_status >= 500);
}

static int run_events(const struct args *a, struct session *s, struct sbx_error *err)
{
    struct printer p = {.as_json = a->json, .since = a->since ? xstrdup(a->since) : NULL};
    int r = read_events(s, a, &p, err);
    while (r < 0 && a->follow && is_broken(&p, err) && p.tries++ < TRIES) {
        usleep(WAIT_US);
        r = read_events(s, a, &p, err);
    }
    free(p.since);
    return r < 0 ? -1 : 0;
}

const struct command command_events = {
    .name = "events",
    .group = GROUP_HOST,
    .summary = "Print what changes in the daemon",
    .details =
        "The changes are those of sandboxes, commands, approvals, images, pools, the policy "
        "and the daemon itself, as far as your key may see them. Each line has a number, the "
        "time, the type, the object, its owner and what is known about the change. Numbers "
        "only rise. A line with 'gap' stands for changes that are no longer kept.",
    .options = OPTIONS(
        OPTIONS_CONNECTION, OPTION("since", since, "N", "Begin after the change with this number."),
        OPTION("f", follow, NULL, "Wait for further changes, also while the daemon is restarted."),
        OPTION("type", type, "A,B",
               "Print only these types: exec.ended for one, approval for all of its kind."),
        OPTION("json", json, NULL, "Print each change as a line of JSON.")),
    .run_connected = run_events,
};
