/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/rest.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"

#define ANSWER_MAX  (8 * 1024 * 1024)
#define HEADERS_MAX (64 * 1024)
#define URL_MAX     1024
#define STALLED_S   60 /* an upload that moves no byte for as long is given up */

void rest_open(struct rest *r, const char *socket, uint32_t timeout_ms)
{
    *r =
        (struct rest){.socket = socket, .timeout_ms = timeout_ms, .connect_timeout_ms = timeout_ms};
}

static size_t on_body(char *data, size_t size, size_t n, void *userdata)
{
    struct strbuf *b = userdata;
    return strbuf_append(b, data, size * n) < 0 ? 0 : size * n;
}

/* The digits and points that a value begins with; nothing where there are too many. */
static void take_version(char ret[REST_VERSION_SIZE], const char *value, size_t len)
{
    size_t n = 0;
    while (len && *value == ' ')
        value++, len--;
    while (n < len && ((value[n] >= '0' && value[n] <= '9') || value[n] == '.'))
        n++;
    if (n < REST_VERSION_SIZE)
        snprintf(ret, REST_VERSION_SIZE, "%.*s", (int)n, value);
}

/* "Api-Version: 1.41". A line is not terminated, and there may be any number of them. */
static size_t on_header(char *data, size_t size, size_t n, void *userdata)
{
    struct rest *r = userdata;
    const struct {
        const char *name;
        char *value;
    } all[] = {{"Api-Version:", r->api_version}, {"Libpod-Api-Version:", r->libpod_version}};
    size_t len = size * n;
    r->header_bytes += len;
    if (r->header_bytes > HEADERS_MAX)
        return 0;
    if (len >= 5 && strncasecmp(data, "HTTP/", 5) == 0) /* again after each interim answer */
        r->head_ended = false;
    else if (len && (data[0] == '\r' || data[0] == '\n'))
        r->head_ended = true;
    for (size_t i = 0; i < ELEMENTS(all); i++) {
        size_t at = strlen(all[i].name);
        if (len > at && strncasecmp(data, all[i].name, at) == 0)
            take_version(all[i].value, data + at, len - at);
    }
    return len;
}

static size_t on_read(char *data, size_t size, size_t n, void *userdata)
{
    const int *fd = userdata;
    ssize_t got;
    do
        got = read(*fd, data, size * n);
    while (got < 0 && errno == EINTR);
    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

/* What it is about, for the reader of an error. */
static int rest_fail(struct rest *r, CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
        snprintf(r->why, sizeof(r->why), "%s at %s",
                 r->header_bytes ? "the answer broke off" : "nothing answers", r->socket);
        return -EHOSTDOWN;
    case CURLE_OPERATION_TIMEDOUT:
        snprintf(r->why, sizeof(r->why), "no answer within %u ms at %s", r->timeout_ms, r->socket);
        return -EHOSTDOWN;
    case CURLE_PARTIAL_FILE:
        snprintf(r->why, sizeof(r->why), "the answer broke off at %s", r->socket);
        return -EHOSTDOWN;
    case CURLE_WRITE_ERROR:
        snprintf(r->why, sizeof(r->why), "the answer from %s is too large", r->socket);
        return -EPROTO;
    default:
        snprintf(r->why, sizeof(r->why), "what answers at %s is not a container engine: %s",
                 r->socket, curl_easy_strerror(code));
        return -EPROTO;
    }
}

void rest_make_printable(char *text)
{
    for (char *p = text; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

/* A handle a request: one that is used again remembers a header of the last answer that it has
 * freed, and appends to it where the next answer begins with a folded line (libcurl 7.88). */
static CURL *handle_new(struct rest *r, const char *url, struct strbuf *answer)
{
    CURL *c = curl_easy_init();
    if (!c)
        return NULL;
    curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, r->socket);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http");
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_PROXY, "");
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)r->connect_timeout_ms);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "mas-engine/" MAS_VERSION);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, r);
    r->api_version[0] = r->libpod_version[0] = 0;
    r->header_bytes = 0;
    r->head_ended = false;
    return c;
}

/* A stream of objects, as an import answers, is taken for its first line. */
static int parse_answer(struct rest *r, const struct strbuf *text, long status, json_t **ret)
{
    struct error err = {0};
    _cleanup_json_ json_t *answer = NULL;
    size_t len = text->len ? strcspn(text->data, "\r\n") : 0;
    bool stream = len < text->len && text->data[text->len - 1] == '\n' && text->data[0] == '{' &&
                  len && text->data[len - 1] == '}';
    if (text->len && ret)
        answer = json_parse_any(text->data, stream ? len : text->len, &err);
    if (text->len && ret && !answer && status < 400) {
        snprintf(r->why, sizeof(r->why), "what answers at %s is not a container engine: %.80s",
                 r->socket, err.message); /* which quotes it */
        rest_make_printable(r->why);
        return -EPROTO;
    }
    if (status >= 400) {
        if (!answer && text->len)
            answer = json_parse_any(text->data, text->len, &err);
        /* docker says {"message"}, podman {"cause","message"}. */
        const char *message = json_string_value(json_object_get(answer, "message"));
        if (message)
            snprintf(r->why, sizeof(r->why), "%s", message);
        else
            snprintf(r->why, sizeof(r->why), "status %ld", status);
        rest_make_printable(r->why);
    }
    if (ret)
        *ret = steal_ptr(answer);
    return (int)status;
}

/* Takes the handle and the headers. */
static int perform_request(struct rest *r, CURL *c, struct curl_slist *headers,
                           struct strbuf *answer, json_t **ret)
{
    long status = 0;
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
    CURLcode code = curl_easy_perform(c);
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(c);
    curl_slist_free_all(headers);
    if (code == CURLE_OK && !r->head_ended) /* which is no error to curl */
        code = CURLE_PARTIAL_FILE;
    if (code != CURLE_OK)
        return rest_fail(r, code);
    if (status < 100 || status > 599) {
        snprintf(r->why, sizeof(r->why), "status %ld at %s", status, r->socket);
        return -EPROTO;
    }
    return parse_answer(r, answer, status, ret);
}

int rest_call(struct rest *r, const char *method, const char *path, const json_t *body,
              json_t **ret)
{
    _cleanup_strbuf_ struct strbuf answer = STRBUF_INIT(ANSWER_MAX);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ANSWER_MAX);
    char url[URL_MAX];
    if (ret)
        *ret = NULL;
    r->why[0] = 0;
    if (snprintf(url, sizeof(url), "http://engine%s", path) >= (int)sizeof(url))
        return -ENAMETOOLONG;
    if (body && json_format(body, &text) < 0)
        return -E2BIG;
    CURL *c = handle_new(r, url, &answer);
    if (!c)
        return -ENOMEM;
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
    if (body)
        headers = curl_slist_append(headers, "Content-Type: application/json");
    if (strcmp(method, "GET") != 0) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)text.len);
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, body ? text.data : "");
    }
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
    return perform_request(r, c, headers, &answer, ret);
}

int rest_upload(struct rest *r, const char *path, int fd, json_t **ret)
{
    _cleanup_strbuf_ struct strbuf answer = STRBUF_INIT(ANSWER_MAX);
    char url[URL_MAX];
    if (ret)
        *ret = NULL;
    r->why[0] = 0;
    if (snprintf(url, sizeof(url), "http://engine%s", path) >= (int)sizeof(url))
        return -ENAMETOOLONG;
    CURL *c = handle_new(r, url, &answer);
    if (!c)
        return -ENOMEM;
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:");
    headers = curl_slist_append(headers, "Content-Type: application/x-tar");
    headers = curl_slist_append(headers, "Transfer-Encoding: chunked");
    curl_easy_setopt(c, CURLOPT_POST, 1L);
    curl_easy_setopt(c, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(c, CURLOPT_READDATA, &fd);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALLED_S);
    return perform_request(r, c, headers, &answer, ret);
}
