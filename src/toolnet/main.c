/* SPDX-License-Identifier: Apache-2.0 */
/* mas-tool-net: runs one URL tool. One JSON object on stdin, one on stdout.
 *
 * In:  {"tool":"fetch","args":{...},"limits":{"body_bytes","timeout_ms","redirects"}?,
 *       "web_search_endpoint"?}
 * Out: the tool's result and exit 0, or {"error","code","result"?} and exit 1. */
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "toolnet/toolnet.h"

#define INPUT_MAX  (12 * 1024 * 1024)
#define OUTPUT_MAX (16 * 1024 * 1024) /* a whole body of quotes, escaped, and headers fit */

static const struct {
    const char *name;
    int (*run)(const struct toolnet *net, const json_t *args, json_t **ret, struct error *err);
} tools[] = {
    {"http_client", toolnet_http_client},
    {"fetch", toolnet_fetch},
    {"web_search", toolnet_web_search},
};

static int read_input(struct strbuf *in, struct error *err)
{
    for (;;) {
        if (strbuf_reserve(in, 65536) < 0)
            return error_set(err, ERROR_INVALID, 0, "the request is too large");
        ssize_t n = read(STDIN_FILENO, in->data + in->len, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, ERROR_INVALID, errno, "stdin");
        if (n == 0)
            return 0;
        strbuf_commit(in, (size_t)n);
    }
}

/* Limits only lower what is built in. */
static int read_limits(const json_t *request, struct toolnet *net, struct error *err)
{
    json_t *limits = NULL;
    int64_t body = (int64_t)net->max_body_bytes, redirects = net->max_redirects;
    int r = json_member_object(request, "limits", &limits, err);
    if (r > 0 &&
        ((r = json_member_int(limits, "body_bytes", 0, TOOLNET_BODY_MAX, &body, err)) < 0 ||
         (r = json_member_int(limits, "timeout_ms", 1, TOOLNET_TIMEOUT_MAX_MS, &net->max_timeout_ms,
                              err)) < 0))
        return r;
    if (r >= 0 && limits)
        r = json_member_int(limits, "redirects", 0, TOOLNET_REDIRECTS_MAX, &redirects, err);
    net->max_body_bytes = (size_t)body;
    net->max_redirects = (int)redirects;
    return r < 0 ? r : 0;
}

/* Only tests set these variables: inside a sandbox both are at fixed places. */
static const char *from_env(const char *name, const char *fallback)
{
    const char *value = getenv(name);
    return value && *value ? value : fallback;
}

static int run_request(const json_t *request, json_t **ret, struct error *err)
{
    struct toolnet net = {
        .gateway_socket = from_env("MAS_GATEWAY_SOCKET", TOOLNET_GATEWAY_SOCKET),
        .ca_file = from_env("MAS_CA_FILE", TOOLNET_CA_FILE),
        .search_endpoint = TOOLNET_SEARCH_ENDPOINT,
        .max_body_bytes = TOOLNET_BODY_MAX,
        .max_timeout_ms = TOOLNET_TIMEOUT_MAX_MS,
        .max_redirects = TOOLNET_REDIRECTS_MAX,
    };
    const char *name = "";
    _cleanup_json_ json_t *none = json_object();
    json_t *args = none;
    int r = json_member_string(request, "tool", &name, err);
    if (r < 0 || (r = json_member_object(request, "args", &args, err)) < 0 ||
        (r = json_member_string(request, "web_search_endpoint", &net.search_endpoint, err)) < 0 ||
        (r = read_limits(request, &net, err)) < 0)
        return r;
    for (size_t i = 0; i < ELEMENTS(tools); i++)
        if (strcmp(name, tools[i].name) == 0)
            return tools[i].run(&net, args, ret, err);
    return error_set(err, ERROR_INVALID, 0, "tool not found");
}

/* The caller acts on three kinds of failure: its arguments, the policy, and everything else. */
static json_t *format_failure(const struct error *err, json_t *result)
{
    bool lossy;
    bool known = err->code == ERROR_INVALID || err->code == ERROR_DENIED;
    json_t *out = json_pack("{s:o, s:s}", "error",
                            json_string_from_bytes(err->message, strlen(err->message), &lossy),
                            "code", error_code_name(known ? err->code : ERROR_TOOL_FAILED));
    if (result)
        json_object_set(out, "result", result);
    return out;
}

static int print_json(const json_t *value)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(OUTPUT_MAX);
    if (json_format(value, &out) < 0 || strbuf_puts(&out, "\n") < 0)
        return -EFBIG;
    return fd_write_all(STDOUT_FILENO, out.data, out.len);
}

static int print_about(const char *option)
{
    if (strcmp(option, "--version") == 0)
        return puts("mas-tool-net " MAS_VERSION) < 0;
    bool help = strcmp(option, "--help") == 0;
    fputs("usage: mas-tool-net < request.json   (see mas-tool-net(1))\n"
          "       mas-tool-net --help | --version\n",
          help ? stdout : stderr);
    return help ? 0 : 2;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    _cleanup_strbuf_ struct strbuf in = STRBUF_INIT(INPUT_MAX);
    _cleanup_json_ json_t *request = NULL, *result = NULL, *failure = NULL;
    if (argc > 1)
        return print_about(argv[1]);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int r = read_input(&in, &err);
    if (r == 0)
        request = json_parse_object(in.data, in.len, &err);
    if (request)
        r = run_request(request, &result, &err);
    bool failed = !request || r < 0;
    if (failed)
        failure = format_failure(&err, result);
    return print_json(failed ? failure : result) < 0 || failed;
}
