/* The HTTP front end: routes over the operations below, three contracts, one error table. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "runtime/runtime.h"
#include "tool/tool.h"

struct api;
struct audit;
struct error;
struct gate;
struct identity;
struct http_request;
struct keys;
struct images;
struct skills;

struct api_options {
    uv_loop_t *loop;
    struct manager *manager;
    struct gate *gate;
    struct audit *audit; /* NULL: none is kept */
    /* Reads the operator's policy again; done comes once. */
    void (*reload_policy)(void *data, const struct identity *who,
                          void (*done)(void *data, bool changed, const struct error *err),
                          void *done_data);
    void *reload_data;
    const char *webhook_url, *webhook_secret; /* told of approvals; NULL: nobody is */
    size_t webhook_queue;
    int webhook_tries;
    uint64_t webhook_timeout_ms;
    struct images *images; /* NULL: there are none */
    uint64_t images_max_upload_bytes;
    struct store *store; /* NULL: nothing survives */
    struct runtime_host *host;
    struct tool_options tool;
    const struct spec *default_spec;
    /* Per sandbox. */
    uint32_t inotify_instances, inotify_watches;
    const char *token; /* NULL: none */
    struct keys *keys; /* NULL: none */
    struct skills *skills;
    const char *skill_root; /* of the host's, for the filesystem skill; NULL: a workspace */
    bool require_keys;      /* every call needs a key or the token, even while there is no key */
    char *const *allowed_origins;
    char *const *allowed_hosts; /* names accepted in Host besides IP literals and localhost */
    bool debug_endpoints;
    bool async_exec; /* contract B's default */
    size_t max_body_bytes, max_upload_bytes, max_output_bytes;
    uint64_t exec_timeout_ms, exec_max_timeout_ms; /* 0: none */
    const char *cache_mode, *cache_hostpath, *volume_mode;
    pid_t warden_pid;
    uint64_t validate_timeout_ms;
    size_t validate_queue, validate_queue_per_key;
    size_t max_idempotency_keys, max_idempotency_keys_per_key, max_exec_list;
    uint64_t idempotency_ms;
};

struct api *api_new(const struct api_options *o);
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
