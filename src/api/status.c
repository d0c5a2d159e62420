/* SPDX-License-Identifier: Apache-2.0 */
/* Health, counters, what this host enforces, and the protocol suites' echo. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/internal.h"
#include "api/openapi.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "guard/approval.h"
#include "proto/plan.h"

int handle_healthz(struct api_request *req)
{
    api_reply_text(req, 200, "text/plain; charset=utf-8", "ok", 2);
    return 0;
}

int handle_openapi(struct api_request *req)
{
    api_reply_text(req, 200, "application/json", openapi_json, openapi_json_len);
    return 0;
}

/* --- metrics */

void api_put_metric(struct strbuf *b, const struct api_metric *m)
{
    strbuf_printf(b, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", m->name, m->help, m->name, m->type,
                  m->name, (unsigned long long)m->value);
}

int handle_metrics(struct api_request *req)
{
    const struct manager_counts *c = manager_counts(req->services->manager);
    const struct api *api = req->api;
    struct pool_counts pool = manager_pool_counts(req->services->manager);
    const struct api_metric metrics[] = {
        {"sandbox_active", "gauge", "Sandboxes that exist now.", c->sandboxes},
        {"sandbox_creating", "gauge", "Sandboxes being created.", c->creating},
        {"sandbox_created_total", "counter", "Sandboxes created.", c->created_total},
        {"sandbox_create_failed_total", "counter", "Creates that failed.", c->create_failed_total},
        {"sandbox_deleted_total", "counter", "Sandboxes deleted.", c->deleted_total},
        {"sandbox_crashed_total", "counter", "Sandboxes that died by themselves.",
         c->crashed_total},
        {"sandbox_warm_pool_ready", "gauge", "Sandboxes that wait in the pool.", pool.ready},
        {"sandbox_warm_pool_creating", "gauge", "Sandboxes that are being made for the pool.",
         pool.creating},
        {"sandbox_warm_pool_hits_total", "counter", "Creates served from the pool.", pool.hits},
        {"sandbox_warm_pool_misses_total", "counter", "Creates that were made fresh.", pool.misses},
        {"sandbox_exec_running", "gauge", "Commands running now.", c->execs_running},
        {"sandbox_exec_total", "counter", "Commands started.", c->execs_total},
        {"sandbox_exec_failed_total", "counter", "Commands that failed.", c->execs_failed_total},
        {"sandbox_exec_oom_kills_total", "counter", "Commands killed at the memory limit.",
         c->oom_kills_total},
        {"sandbox_exec_output_bytes_total", "counter", "Bytes that commands printed.",
         c->output_bytes_total},
        {"sandbox_connections_total", "counter", "Connections that sandboxes were allowed.",
         c->connections_total},
        {"sandbox_connections_denied_total", "counter", "Connections that failed or were denied.",
         c->connections_refused_total},
        {"sandbox_connection_bytes_total", "counter", "Bytes of connections that have ended.",
         c->connection_bytes_total},
        {"sandbox_journal_bytes", "gauge", "Bytes of output kept.",
         manager_options(req->services->manager)->journal.total_bytes},
        {"sandbox_http_requests_total", "counter", "HTTP requests.", api->requests},
        {"sandbox_http_errors_total", "counter", "Answers with status 5xx.", api->replies[5]},
        {"sandbox_http_rejected_total", "counter", "Answers with status 4xx.", api->replies[4]},
    };
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(64 * 1024);
    for (size_t i = 0; i < ELEMENTS(metrics); i++)
        api_put_metric(&b, &metrics[i]);
    if (api->more.put_metrics)
        api->more.put_metrics(api->more.data, &b);
    api_reply_text(req, 200, "text/plain; version=0.0.4; charset=utf-8", b.data, b.len);
    return 0;
}

/* --- status */

/* How much of what all share may be taken, for sbx doctor. */
static json_t *view_capacity(const struct services *o)
{
    const struct spec *s = o->default_spec;
    json_t *each = json_pack(
        "{s:I, s:I, s:i, s:I, s:I}", "processes", (json_int_t)s->limits.processes, "open_files",
        (json_int_t)s->limits.open_files, "terminals", PLAN_PTYS_MAX, "inotify_instances",
        (json_int_t)o->inotify_instances, "inotify_watches", (json_int_t)o->inotify_watches);
    json_object_set_new(each, "memory_mb",
                        s->limits.memory_bytes
                            ? json_integer((json_int_t)(s->limits.memory_bytes >> 20))
                            : json_null());
    return json_pack("{s:I, s:o}", "sandboxes",
                     (json_int_t)manager_options(o->manager)->config.max_sandboxes, "each", each);
}

int handle_status(struct api_request *req)
{
    const struct manager_counts *c = manager_counts(req->services->manager);
    json_t *o =
        json_pack("{s:s, s:s, s:I, s:I}", "status", "ok", "version", MAS_VERSION, "pid",
                  (json_int_t)getpid(), "warden_pid", (json_int_t)req->services->warden_pid);
    json_object_set_new(o, "default_runtime", json_string(req->services->default_spec->runtime));
    json_object_set_new(o, "counts",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "sandboxes",
                                  (json_int_t)c->sandboxes, "creating", (json_int_t)c->creating,
                                  "execs_running", (json_int_t)c->execs_running, "execs_total",
                                  (json_int_t)c->execs_total, "requests",
                                  (json_int_t)req->api->requests));
    json_object_set_new(o, "policy", gate_policy_view(req->services->gate));
    json_object_set_new(
        o, "pending_approvals",
        json_integer((json_int_t)approvals_pending(gate_approvals(req->services->gate))));
    struct manager_storage storage = manager_storage(req->services->manager);
    json_object_set_new(o, "storage",
                        json_pack("{s:I, s:I, s:I, s:I}", "free_bytes",
                                  (json_int_t)storage.free_bytes, "reserve_bytes",
                                  (json_int_t)storage.reserve_bytes, "promised_bytes",
                                  (json_int_t)storage.promised_bytes, "claimed_bytes",
                                  (json_int_t)storage.claimed_bytes));
    json_object_set_new(o, "capacity", view_capacity(req->services));
    json_object_set_new(o, "namespaces", view_namespaces(req->services->host));
    json_object_set_new(o, "runtimes", view_runtimes(req->services->host));
    api_reply(req, 200, o);
    return 0;
}

int handle_tools(struct api_request *req)
{
    static const char *const names[] = {"network", "file", "unsafe"};
    json_t *list = json_array();
    for (size_t i = 0; i < n_tools; i++) {
        json_t *caps = json_array();
        for (size_t k = 0; k < ELEMENTS(names); k++)
            if (tools[i].capabilities & (1u << k))
                json_array_append_new(caps, json_string(names[k]));
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "name", tools[i].name, "summary",
                                              tools[i].summary, "capabilities", caps));
    }
    api_reply(req, 200, json_pack("{s:o}", "tools", list));
    return 0;
}

/* --- echo */

static void on_echo_body(struct http_request *http, const char *body, size_t len)
{
    http_respond(http, 200, "application/octet-stream", body, len);
}

int handle_debug_echo(struct api_request *req)
{
    size_t max = req->services->config.max_body_bytes;
    http_request_read_body(api_take(req), max, on_echo_body, NULL);
    return 0;
}

static void on_echo_message(struct ws *ws, bool binary, const char *data, size_t len)
{
    if (!ws_send(ws, binary, data, len))
        ws_pause(ws);
}

static void on_echo_close(struct ws *ws)
{
    (void)ws;
}

int handle_debug_echo_ws(struct api_request *req)
{
    static const struct ws_handlers handlers = {on_echo_message, ws_resume, on_echo_close};
    http_upgrade_ws(api_take(req), NULL, &handlers, NULL);
    return 0;
}
