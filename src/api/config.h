/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator may set of the front end (configuration keys in config/table.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct webhook_config {
    char *url; /* NULL if there is none */
    char *secret;
    size_t queue_max;    /* deliveries that wait; what comes then is dropped */
    int tries_max;       /* of one of them */
    uint64_t timeout_ms; /* of one try */
};

struct api_config {
    char *token;            /* NULL if there is none */
    bool require_keys;      /* every call needs a key or the token, even while there is no key */
    char **allowed_origins; /* of web pages */
    char **allowed_hosts;   /* names accepted in Host besides IP literals and localhost */
    char *ports_domain; /* below which ports of sandboxes have hosts of their own; NULL if there is
                           none */
    uint64_t port_answer_timeout_ms;
    bool debug_endpoints;
    bool async_exec;  /* the sbx API's default */
    char *skill_root; /* of the host's, for the filesystem skill; NULL: a workspace */
    char *cache_mode, *cache_hostpath, *volume_mode;
    char *cache_pvc_storage_class, *cache_pvc_access_mode; /* of cache_mode pvc */
    uint64_t cache_pvc_bytes;
    size_t max_body_bytes, max_upload_bytes;
    uint64_t exec_timeout_ms, exec_max_timeout_ms; /* 0 if there is none */
    size_t max_exec_list;
    size_t max_idempotency_keys, max_idempotency_keys_per_key;
    uint64_t validate_timeout_ms;
    size_t validate_queue, validate_queue_per_key;
    struct webhook_config webhook;
};
