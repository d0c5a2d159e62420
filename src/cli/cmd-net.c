/* SPDX-License-Identifier: Apache-2.0 */
/* sbx net: what a sandbox may reach, while it runs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

/* --- what is printed */

static void print_rule(const char *verdict, const json_t *rule)
{
    const json_t *ports = json_object_get(rule, "ports");
    const char *key = json_object_get(rule, "cidr") ? "cidr" : "host";
    _cleanup_free_ char *place = cell(rule, key);
    json_t *more = json_copy((json_t *)rule);
    json_object_del(more, key);
    json_object_del(more, "ports");
    char *text = json_object_size(more) ? json_dumps(more, JSON_COMPACT) : NULL;
    _cleanup_free_ char *shown = printable(text ? text : "");
    printf("%s %s", verdict, place);
    if (ports)
        printf(":%lld", (long long)json_integer_value(json_array_get(ports, 0)));
    printf("%s%s\n", *shown ? " " : "", shown);
    free(text);
    json_decref(more);
}

/* Takes body. */
static int call_network(const struct args *a, struct session *s, const char *method, json_t *body,
                        struct sbx_error *err)
{
    _cleanup_json_ json_t *network = NULL;
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/network", a->id);
    int r = session_call(s, method, path, body, &network, err);
    if (r < 0)
        return r;
    size_t i;
    json_t *rule;
    if (a->json) {
        print_json(network, JSON_INDENT(2));
        return 0;
    }
    json_array_foreach(json_object_get(network, "deny"), i, rule) print_rule("deny", rule);
    json_array_foreach(json_object_get(network, "allow"), i, rule) print_rule("allow", rule);
    return 0;
}

/* --- verbs */

static int net_show(const struct args *a, struct session *s, struct sbx_error *err)
{
    return call_network(a, s, "GET", NULL, err);
}

/* "host", "host:443", "[v6]:443" or "192.0.2.0/24" as a rule. */
static json_t *make_rule(const char *text)
{
    const char *close = strrchr(text, ']'), *colon = strrchr(text, ':');
    bool has_port = colon && (close ? colon > close : strchr(text, ':') == colon);
    _cleanup_free_ char *place = has_port ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
    json_t *rule = json_pack("{s:s}", strchr(place, '/') ? "cidr" : "host", place);
    char *end = NULL;
    long port = has_port ? strtol(colon + 1, &end, 10) : 0;
    if (has_port)
        json_object_set_new(rule, "ports", json_pack("[i]", *end ? 0 : (int)port));
    return rule;
}

static int net_allow(const struct args *a, struct session *s, struct sbx_error *err)
{
    json_t *rule = make_rule(a->rest[0]);
    if (a->duration)
        json_object_set_new(rule, "for", json_string(a->duration));
    if (a->name)
        json_object_set_new(rule, "name", json_string(a->name));
    return call_network(a, s, "PATCH", json_pack("{s:[o]}", "allow", rule), err);
}

static int net_deny(const struct args *a, struct session *s, struct sbx_error *err)
{
    json_t *rules = json_array();
    for (char **text = a->rest; *text; text++)
        json_array_append_new(rules, make_rule(*text));
    return call_network(a, s, "PATCH", json_pack("{s:o}", "deny", rules), err);
}

static int net_drop(const struct args *a, struct session *s, struct sbx_error *err)
{
    json_t *body = json_pack("{s:o}", "drop", json_from_strv(a->rest));
    if (!a->n_rest)
        json_object_set_new(body, "mode", json_string("none"));
    return call_network(a, s, "PATCH", body, err);
}

/* --- log */

static int print_decision(void *data, const char *line, size_t len)
{
    const struct args *a = data;
    _cleanup_json_ json_t *event = json_parse_object(line, len, NULL);
    const json_t *facts = json_object_get(event, "data");
    if (!event)
        return 0;
    if (a->json) {
        print_json(event, JSON_COMPACT);
        return fflush(stdout) == 0 ? 0 : -1;
    }
    _cleanup_free_ char *time = cell(event, "time"), *type = cell(event, "type"),
                        *host = cell(facts, "host"), *port = cell(facts, "port");
    char *text = facts ? json_dumps(facts, JSON_COMPACT) : NULL;
    _cleanup_free_ char *shown = printable(text ? text : "");
    free(text);
    printf("%s %s %s:%s %s\n", time, type, host, port, shown);
    return fflush(stdout) == 0 ? 0 : -1;
}

static int net_log(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_free_ char *since = a->since ? sbx_path_format("&since=%s", a->since) : xstrdup("");
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/network/log", a->id);
    _cleanup_free_ char *query = xasprintf("%s?follow=%d%s", path, a->follow, since);
    return sbx_stream_lines(s->client, "GET", query, NULL, print_decision, (void *)a, err);
}

static const struct command net_commands[] = {
    {.name = "net show",
     .summary = "Print what a sandbox may reach",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID, OPTION_JSON),
     .run_connected = net_show},
    {.name = "net allow",
     .usage = "HOST:PORT",
     .summary = "Let a sandbox reach one more host and port, for a time",
     .details = "This is a call of the tool 'network': the policy decides on it, and may ask a "
                "person. The operator's lists stay the limit.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID,
                        OPTION("for", duration, "DURATION",
                               "How long, such as 10m; at most 24h. What the sandbox may reach "
                               "already needs none."),
                        OPTION("name", name, "NAME", "What records call the rule."),
                        OPTION_APPROVAL, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = net_allow},
    {.name = "net deny",
     .usage = "HOST[:PORT]...",
     .summary = "Close hosts or networks to a sandbox, for good",
     .details = "Connections that are open to them end at once.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID, OPTION_JSON),
     .min_rest = 1,
     .max_rest = -1,
     .run_connected = net_deny},
    {.name = "net drop",
     .usage = "[RULE...]",
     .summary = "Take rules away that allow something, or all of them",
     .details = "RULE is the name of a rule, or its host and port as 'net show' prints them.",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID, OPTION_JSON),
     .max_rest = -1,
     .run_connected = net_drop},
    {.name = "net log",
     .summary = "Print what was decided about the connections of a sandbox",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_ID,
                        OPTION("since", since, "N", "Begin after the change with this number."),
                        OPTION("f", follow, NULL, "Wait for further decisions."),
                        OPTION("json", json, NULL, "Print each decision as a line of JSON.")),
     .run_connected = net_log},
    {0}};

const struct command command_net = {
    .name = "net",
    .group = GROUP_SANDBOX,
    .summary = "Show and change what a sandbox may reach",
    .commands = net_commands,
};
