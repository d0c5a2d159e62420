/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP front end: routes over the operations below, three contracts, one error table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "api/config.h"
#include "runtime/runtime.h"
#include "tool/tool.h"

struct api;
struct audit;
struct error;
struct event_journal;
struct gate;
struct identity;
struct http_request;
struct keys;
struct secrets;
struct images;
struct skills;
struct traffic_tokens;

/* What requests are served with: the same for every front end. */
struct services {
    struct api_config config;
    uv_loop_t *loop;
    struct manager *manager;
    struct gate *gate;
    struct audit *audit; /* NULL if none is kept */
    /* Reads the operator's policy again; done comes once. */
    void (*reload_policy)(void *data, const struct identity *who,
                          void (*done)(void *data, bool changed, const struct error *err),
                          void *done_data);
    void *reload_data;
    struct event_journal *events; /* NULL if there is none */
    struct images *images;        /* NULL if there are none */
    uint64_t images_max_upload_bytes;
    struct store *store; /* NULL if nothing outlives the process */
    struct runtime_host *host;
    struct tool_options tool;
    const struct spec *default_spec;
    /* Per sandbox. */
    uint32_t inotify_instances, inotify_watches;
    struct keys *keys; /* NULL if the daemon has no keys */
    struct traffic_tokens *traffic;
    struct secrets *secrets;
    struct skills *skills;
    size_t max_output_bytes; /* of each stream in one answer */
    pid_t warden_pid;
};

struct api *api_new(const struct services *o);
void api_free(struct api *api);
/* An API key was revoked or has expired: what is done in its name without a connection stops. */
void api_key_ended(struct api *api, const char *id);
/* For struct http_options; data is the api. */
void api_on_request(struct http_request *http, void *data);

/* For struct http_options: what the server answers by itself has the same shape as our own errors.
 */
size_t api_format_error(int status, const char *message, char *out, size_t size);

/* The line protocol: one request's line in, one response's line out (no newline), through the same
 * tool calls as HTTP. on_line comes once, from inside or later. */
void api_line(struct api *api, const char *line, size_t len,
              void (*on_line)(void *data, const char *line, size_t len), void *data);
