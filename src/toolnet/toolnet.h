/* SPDX-License-Identifier: Apache-2.0 */
/* The URL tools of the tool-call contract, as functions from arguments to a result.
 *
 * They run in a sandbox without network or resolver: every connection is a stream to the gateway
 * (dial.h), which decides where it may go. A tool returns 0 with its result, or negative with err
 * set; *ret is then the result with "success":false, or NULL where the arguments were wrong. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define TOOLNET_GATEWAY_SOCKET     "/.mas/gateway.sock"
#define TOOLNET_CA_FILE            "/etc/ssl/certs/ca-certificates.crt"
#define TOOLNET_SEARCH_ENDPOINT    "https://api.duckduckgo.com/"
#define TOOLNET_BODY_MAX           (5 * 1024 * 1024)
#define TOOLNET_TIMEOUT_MS         30000
#define TOOLNET_TIMEOUT_MAX_MS     120000
#define TOOLNET_REDIRECTS_MAX      10
#define TOOLNET_URL_MAX            8192
#define TOOLNET_QUERY_MAX          1024
#define TOOLNET_SEARCH_RESULTS     10
#define TOOLNET_SEARCH_RESULTS_MAX 50

struct toolnet {
    const char *gateway_socket;
    const char *ca_file;
    const char *search_endpoint;
    size_t max_body_bytes;
    int64_t max_timeout_ms;
    int max_redirects;
};

int toolnet_http_client(const struct toolnet *net, const json_t *args, json_t **ret,
                        struct error *err);
int toolnet_fetch(const struct toolnet *net, const json_t *args, json_t **ret, struct error *err);
int toolnet_web_search(const struct toolnet *net, const json_t *args, json_t **ret,
                       struct error *err);
