/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/transfer.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "toolnet/bridge.h"
#include "toolnet/toolnet.h"
#include "toolnet/location.h"

/* How long a wait may be between two looks at libcurl's own timers. */
#define POLL_MS 1000
#define NO_BRIDGE                                                                                  \
    {                                                                                              \
        .listen_fd = -1, .local_fd = -1, .stream_fd = -1                                           \
    }

/* One request and its answer, without redirects. */
struct hop {
    const struct toolnet *net;
    const struct transfer_request *req;
    struct transfer_response *res;
    const char *method;
    struct location at;
    bool with_body;
    bool with_credentials; /* still at the origin the caller named */
    int64_t deadline_ms;
    size_t header_count, header_bytes;
    CURL *curl;
    struct curl_slist *headers;
    struct bridge bridge;
    char curl_error[CURL_ERROR_SIZE];
    struct error err; /* of a callback */
};

static void hop_done(struct hop *h)
{
    curl_easy_cleanup(h->curl);
    curl_slist_free_all(h->headers);
    bridge_done(&h->bridge);
    location_done(&h->at);
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
    struct hop *h = user;
    size_t len = size * n, room = h->res->body.max - h->res->body.len;
    size_t take = len < room ? len : room;
    strbuf_append(&h->res->body, data, take);
    if (take == len)
        return len;
    /* A short count ends the transfer; hop_run() knows that it was us. */
    h->res->truncated = true;
    return CURL_WRITEFUNC_ERROR;
}

/* "content-type" and "CONTENT-TYPE" become "Content-Type". */
static char *canonical_name(const char *name, size_t len)
{
    char *copy = xstrndup(name, len);
    bool upper = true;
    for (char *p = copy; *p; p++) {
        *p = (char)(upper ? toupper((unsigned char)*p) : tolower((unsigned char)*p));
        upper = *p == '-';
    }
    return copy;
}

static void add_answer_header(json_t *headers, const char *line, size_t len)
{
    bool lossy;
    const char *colon = memchr(line, ':', len);
    if (!colon || colon == line)
        return;
    const char *value = colon + 1, *end = line + len;
    while (value < end && isspace((unsigned char)*value))
        value++;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    _cleanup_json_ json_t *text = json_string_from_bytes(value, (size_t)(end - value), &lossy);
    _cleanup_free_ char *raw = canonical_name(line, (size_t)(colon - line));
    _cleanup_json_ json_t *name = json_string_from_bytes(raw, strlen(raw), &lossy);
    const char *key = json_string_value(name);
    const char *old = json_string_value(json_object_get(headers, key));
    if (old)
        json_object_set_new(headers, key, json_sprintf("%s, %s", old, json_string_value(text)));
    else
        json_object_set(headers, key, text);
}

static void start_answer(struct hop *h, const char *line, size_t len)
{
    bool lossy;
    const char *space = memchr(line, ' ', len);
    const char *text = space ? space + 1 : line + len;
    _cleanup_json_ json_t *clean =
        json_string_from_bytes(text, (size_t)(line + len - text), &lossy);
    snprintf(h->res->status_text, sizeof(h->res->status_text), "%.100s", json_string_value(clean));
    h->res->status_text[strcspn(h->res->status_text, "\r\n")] = 0;
    json_object_clear(h->res->headers);
}

static size_t on_header(char *data, size_t size, size_t n, void *user)
{
    struct hop *h = user;
    size_t len = size * n;
    /* Counted over all answers of a hop, those of the 100s included, which a server may send
     * without end. */
    h->header_bytes += len;
    if (++h->header_count > TRANSFER_ANSWER_HEADERS || h->header_bytes > TRANSFER_ANSWER_BYTES) {
        error_set(&h->err, ERROR_TOOL_FAILED, 0, "the answer's headers are too large");
        return 0;
    }
    if (len > 5 && memcmp(data, "HTTP/", 5) == 0)
        start_answer(h, data, len);
    else
        add_answer_header(h->res->headers, data, len);
    return len;
}

/* What may follow a redirect to another origin: anything else could be a credential. */
static bool crosses_origins(const char *name)
{
    static const char *const names[] = {"Accept",     "Accept-Language", "Accept-Encoding",
                                        "User-Agent", "Cache-Control",   "Range"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return strncasecmp(name, "Content-", 8) == 0;
}

static bool has_header(const struct transfer_request *req, const char *name)
{
    for (size_t i = 0; i < req->n_headers; i++)
        if (strcasecmp(req->headers[i].name, name) == 0)
            return true;
    return false;
}

static void append_line(struct hop *h, const char *line)
{
    h->headers = curl_slist_append(h->headers, line);
}

static void set_headers(struct hop *h)
{
    for (size_t i = 0; i < h->req->n_headers; i++) {
        const struct transfer_header *hd = &h->req->headers[i];
        if (!h->with_credentials && !crosses_origins(hd->name))
            continue;
        if (!h->with_body && strncasecmp(hd->name, "Content-", 8) == 0)
            continue;
        /* libcurl takes "Name;" for a header without a value, and "Name:" for "do not send". */
        _cleanup_free_ char *line =
            *hd->value ? xasprintf("%s: %s", hd->name, hd->value) : xasprintf("%s;", hd->name);
        append_line(h, line);
    }
    append_line(h, "Expect:");
    if (!has_header(h->req, "Content-Type"))
        append_line(h, "Content-Type:");
    curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, h->headers);
    if (!has_header(h->req, "Accept-Encoding"))
        curl_easy_setopt(h->curl, CURLOPT_ACCEPT_ENCODING, "");
}

static void set_method(struct hop *h)
{
    CURL *c = h->curl;
    if (strcmp(h->method, "HEAD") == 0) {
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
        return;
    }
    if (h->with_body) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)h->req->body_len);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, h->req->body);
    }
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, h->method);
}

static int set_options(struct hop *h)
{
    CURL *c = h->curl;
    int64_t left = h->deadline_ms - clock_mono_ms();
    if (left <= 0)
        return error_set(&h->err, ERROR_TOOL_FAILED, 0, "timed out");
    curl_easy_setopt(c, CURLOPT_URL, h->at.text);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)left);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)left);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "mas-tool-net/" MAS_VERSION);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->curl_error);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, h);
    /* The name is never resolved: libcurl connects to the bridge, whatever the URL says. */
    curl_easy_setopt(c, CURLOPT_ABSTRACT_UNIX_SOCKET, h->bridge.name);
    /* A proxy from the environment, or a connection that is used again, would go around the
     * gateway's decision about this host. */
    curl_easy_setopt(c, CURLOPT_PROXY, "");
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(c, CURLOPT_CAINFO, h->net->ca_file);
    curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    set_method(h);
    set_headers(h);
    return 0;
}

static int hop_failure(const struct hop *h, CURLcode code, struct error *err)
{
    if (error_is_set(&h->err)) {
        *err = h->err;
        return -EIO;
    }
    const char *why = h->curl_error[0] ? h->curl_error : curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT) {
        char limit[CLOCK_DURATION_SIZE];
        clock_format_duration(h->req->timeout_ms * 1000000, limit);
        return error_set(err, ERROR_TOOL_FAILED, 0, "timed out after %s", limit);
    }
    return error_set(err, ERROR_TOOL_FAILED, 0, "%s: %s", h->at.host, why);
}

static int hop_connect(struct hop *h, struct error *err)
{
    int fd = dial_open(h->net->gateway_socket, h->at.host, h->at.url.target.port, h->deadline_ms,
                       h->res->detail, err);
    if (fd < 0)
        return fd;
    int r = bridge_open(&h->bridge, fd);
    return r < 0 ? error_set(err, ERROR_TOOL_FAILED, -r, "cannot make a socket") : 0;
}

/* curl_easy_perform(), with the bridge's work between libcurl's. */
static CURLcode hop_perform(struct hop *h)
{
    CURLM *multi = curl_multi_init();
    CURLcode result = CURLE_FAILED_INIT;
    int running = 1;
    CURLMcode r = curl_multi_add_handle(multi, h->curl);
    while (r == CURLM_OK && running) {
        struct curl_waitfd fds[BRIDGE_POLL_FDS];
        r = curl_multi_perform(multi, &running);
        bridge_pump(&h->bridge);
        if (r == CURLM_OK && running)
            r = curl_multi_poll(multi, fds, bridge_wait_fds(&h->bridge, fds), POLL_MS, NULL);
    }
    CURLMsg *msg = curl_multi_info_read(multi, &running);
    if (msg && msg->msg == CURLMSG_DONE)
        result = msg->data.result;
    curl_multi_remove_handle(multi, h->curl);
    curl_multi_cleanup(multi);
    return result;
}

/* *ret_next is where the answer redirects to, or NULL; the caller frees it. */
static int hop_run(struct hop *h, char **ret_next, struct error *err)
{
    struct transfer_response *res = h->res;
    strbuf_reset(&res->body);
    res->truncated = false;
    int r = hop_connect(h, err);
    if (r < 0)
        return r;
    h->curl = curl_easy_init();
    CURLcode code = h->curl && set_options(h) == 0 ? hop_perform(h) : CURLE_FAILED_INIT;
    if (code != CURLE_OK && !(code == CURLE_WRITE_ERROR && res->truncated))
        return hop_failure(h, code, err);
    char *next = NULL;
    curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &res->status);
    curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &next);
    *ret_next = next ? xstrdup(next) : NULL;
    return 0;
}

static int next_hop(struct hop *h, const struct location *first, const char *next,
                    struct error *err)
{
    struct transfer_response *res = h->res;
    if (++res->redirects > h->net->max_redirects)
        return error_set(err, ERROR_TOOL_FAILED, 0, "stopped after %d redirects",
                         h->net->max_redirects);
    struct hop n = {.net = h->net, .req = h->req, .res = res, .bridge = NO_BRIDGE};
    n.method = h->method;
    n.with_body = h->with_body;
    n.deadline_ms = h->deadline_ms;
    /* Each hop is parsed, decided and dialled like a first request: the gateway sees every host
     * that a server sends us to. */
    struct error bad = {0};
    if (location_parse(next, &n.at, &bad) < 0 && bad.code == ERROR_DENIED)
        return error_set(err, ERROR_DENIED, 0, "%s", bad.message);
    if (error_is_set(&bad))
        return error_set(err, ERROR_TOOL_FAILED, 0, "redirected to a URL that is not followed: %s",
                         bad.message);
    /* Once away from the first origin, credentials do not come back. */
    n.with_credentials = h->with_credentials && location_same_origin(first, &n.at);
    /* As browsers do: 303 turns all into GET, 301 and 302 only POST; 307 and 308 keep the request.
     */
    long status = res->status;
    bool to_get = status == 303 ? strcmp(n.method, "HEAD") != 0
                                : status < 303 && strcmp(n.method, "POST") == 0;
    if (to_get) {
        n.method = "GET";
        n.with_body = false;
    }
    hop_done(h);
    *h = n;
    return 0;
}

static int follow_redirects(struct hop *h, const struct location *first, struct error *err)
{
    for (;;) {
        _cleanup_free_ char *next = NULL;
        int r = hop_run(h, &next, err);
        if (r < 0 || !next)
            return r;
        r = next_hop(h, first, next, err);
        if (r < 0)
            return r;
    }
}

char *transfer_failure_text(const struct transfer_response *r, const struct error *err)
{
    return r->detail[0] && err->code == ERROR_DENIED ? xasprintf("%s: %s", err->message, r->detail)
                                                     : xstrdup(err->message);
}

int transfer_run(const struct toolnet *net, const struct transfer_request *req,
                 struct transfer_response *ret, struct error *err)
{
    struct location first;
    struct hop h = {.net = net, .req = req, .res = ret, .bridge = NO_BRIDGE};
    *ret = (struct transfer_response){.headers = json_object()};
    strbuf_init(&ret->body, net->max_body_bytes);
    int r = location_parse(req->url, &first, err);
    if (r < 0)
        return r;
    h.method = req->method;
    h.with_body = req->body != NULL;
    h.with_credentials = true;
    h.deadline_ms = clock_mono_ms() + req->timeout_ms;
    r = location_parse(req->url, &h.at, err);
    if (r == 0)
        r = follow_redirects(&h, &first, err);
    if (r == 0)
        ret->url = xstrdup(h.at.text);
    hop_done(&h);
    location_done(&first);
    return r;
}
