/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl says which sockets it waits for and for how long; libuv waits. User code is never called
 * from inside of libcurl but by on_bytes, and a call that is cancelled there is only marked: its
 * handle is removed in a later turn of the loop. */
#include "kube/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "base/url.h"
#include "kube/access.h"
#include "kube/plugin.h"
#include "loop/loop.h"

#define BODY_MAX           (256u << 10) /* of a request */
#define HEADERS_MAX        (64u << 10)
#define ERROR_BODY_MAX     (256u << 10) /* of an answer that is not 2xx */
#define READ_AGAIN_MS      60000        /* files of the credential */
#define EXPIRES_MARGIN_NS  (60ll * 1000000000)
#define CONNECTIONS_MAX    1024L
#define KEEPALIVE_IDLE_S   30L
#define KEEPALIVE_EVERY_S  10L
#define PLUGIN_DEADLINE_MS (KUBE_PLUGIN_TIMEOUT_MS + 5000)

struct kube_client {
    uv_loop_t *loop;
    CURLM *multi;
    struct loop_timer timer; /* libcurl's */
    struct kube_access access;
    char *host, *base_path;
    char *connect_to; /* with a server_name: where that name is */
    struct list calls;
    struct list sockets; /* that libcurl wants to be watched */
    int64_t files_read_ms;
    struct stat ca_seen;
    /* a program's credential */
    struct kube_plugin *plugin;
    uv_poll_t plugin_poll;
    struct loop_timer plugin_timer;
    bool asking, has_credential;
    int64_t expires_real_ns;
    /* the end */
    size_t n_open; /* handles of libuv and calls that are not gone yet */
    bool closing;
    void (*on_closed)(void *data);
    void *closed_data;
};

struct kube_call {
    struct list node;
    struct kube_client *client;
    struct kube_call_events own_events;
    const struct kube_call_events *events; /* ours, or NULL: cancelled */
    void *data;
    struct kube_request request; /* its texts are ours */
    char *method, *path, *content_type, *body;
    CURL *easy; /* in the multi handle; NULL: waits for a credential */
    struct curl_slist *headers, *connect_to;
    struct strbuf answer;
    struct loop_timer timer;
    size_t header_bytes;
    bool head_ended, retried;
    bool starting;  /* a deferred call is to begin it */
    bool reaping;   /* its end is on the way, by a deferred call */
    bool connected; /* a connection that the caller holds */
    uint32_t retry_after_s;
    char detail[CURL_ERROR_SIZE];
};

struct kube_socket {
    struct list node;
    uv_poll_t poll;
    struct kube_client *client;
    curl_socket_t fd;
};

static int call_begin(struct kube_call *call);
static void take_finished(struct kube_client *c);

/* --- the end of a client */

static void client_free(struct kube_client *c)
{
    void (*on_closed)(void *data) = c->on_closed;
    void *data = c->closed_data;
    kube_access_done(&c->access);
    free(c->host);
    free(c->base_path);
    free(c->connect_to);
    free(c);
    if (on_closed)
        on_closed(data);
}

static void client_unref(struct kube_client *c)
{
    if (--c->n_open == 0)
        client_free(c);
}

static void on_handle_closed(void *data)
{
    client_unref(data);
}

static void on_plugin_poll_closed(uv_handle_t *h)
{
    client_unref(h->data);
}

static void on_socket_closed(uv_handle_t *h)
{
    struct kube_socket *s = h->data;
    client_unref(s->client);
    free(s);
}

static void socket_end(struct kube_socket *s)
{
    list_remove(&s->node);
    uv_poll_stop(&s->poll);
    uv_close((uv_handle_t *)&s->poll, on_socket_closed);
}

/* The last call is gone. Nothing is watched any more before libcurl closes its sockets: from
 * version 8 on it may ask for one once more meanwhile, for the end of TLS, and libuv aborts where a
 * descriptor that it watches was closed. */
static void client_finish(struct kube_client *c)
{
    if (!c->closing || !c->multi || !list_empty(&c->calls))
        return;
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, NULL);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, NULL);
    list_for_each_safe(s, &c->sockets, struct kube_socket, node)
        socket_end(s);
    curl_multi_cleanup(steal_ptr(c->multi));
    loop_timer_close(&c->timer, on_handle_closed, c);
    loop_timer_close(&c->plugin_timer, on_handle_closed, c);
    if (c->plugin)
        uv_close((uv_handle_t *)&c->plugin_poll, on_plugin_poll_closed);
}

/* --- sockets and time */

static void on_socket_ready(uv_poll_t *p, int status, int events)
{
    struct kube_socket *s = p->data;
    struct kube_client *c = s->client;
    int running, what = status < 0 ? CURL_CSELECT_ERR : 0;
    what |= events & UV_READABLE ? CURL_CSELECT_IN : 0;
    what |= events & UV_WRITABLE ? CURL_CSELECT_OUT : 0;
    curl_multi_socket_action(c->multi, s->fd, what, &running);
    take_finished(c);
}

static int on_socket_wanted(CURL *easy, curl_socket_t fd, int what, void *data, void *socket_data)
{
    struct kube_client *c = data;
    struct kube_socket *s = socket_data;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (s)
            socket_end(s);
        curl_multi_assign(c->multi, fd, NULL);
        return 0;
    }
    if (!s) {
        s = new0(struct kube_socket);
        s->client = c;
        s->fd = fd;
        s->poll.data = s;
        if (uv_poll_init(c->loop, &s->poll, fd) < 0) {
            free(s);
            return -1;
        }
        c->n_open++;
        list_append(&c->sockets, &s->node);
        curl_multi_assign(c->multi, fd, s);
    }
    int events = what == CURL_POLL_IN    ? UV_READABLE
                 : what == CURL_POLL_OUT ? UV_WRITABLE
                                         : UV_READABLE | UV_WRITABLE;
    uv_poll_start(&s->poll, events, on_socket_ready);
    return 0;
}

static void on_curl_time(void *data)
{
    struct kube_client *c = data;
    int running;
    curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_finished(c);
}

static int on_time_wanted(CURLM *multi, long ms, void *data)
{
    struct kube_client *c = data;
    (void)multi;
    if (ms < 0)
        loop_timer_stop(&c->timer);
    else
        loop_timer_start(&c->timer, (uint64_t)ms);
    return 0;
}

/* --- credentials */

/* Small files of the kubelet's or the operator's; one that is gone for a moment changes nothing. */
static void read_files_again(struct kube_client *c, bool now)
{
    struct kube_access *a = &c->access;
    char *text = NULL;
    struct stat st;
    if (!now && clock_mono_ms() - c->files_read_ms < READ_AGAIN_MS)
        return;
    c->files_read_ms = clock_mono_ms();
    if (a->token_file) {
        int r = kube_token_read(a->token_file, &text);
        if (r < 0) {
            log_warn("the token is not read again file=%s error=%s", a->token_file, strerror(-r));
        } else {
            free(a->token);
            a->token = steal_ptr(text);
        }
    }
    if (!a->ca_file || stat(a->ca_file, &st) < 0)
        return;
    bool same = st.st_ino == c->ca_seen.st_ino && st.st_dev == c->ca_seen.st_dev &&
                st.st_size == c->ca_seen.st_size &&
                st.st_mtim.tv_sec == c->ca_seen.st_mtim.tv_sec &&
                st.st_mtim.tv_nsec == c->ca_seen.st_mtim.tv_nsec;
    if (same || kube_file_read(a->ca_file, &text) < 0)
        return;
    c->ca_seen = st;
    free(a->ca);
    a->ca = text;
}

static void answer_waiting(struct kube_client *c, const char *why);

static void on_plugin_late(void *data)
{
    struct kube_client *c = data;
    c->asking = false;
    answer_waiting(c, "the program for the credential does not answer");
}

static void on_plugin_answer(uv_poll_t *p, int status, int events)
{
    struct kube_client *c = p->data;
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KUBE_PLUGIN_OUTPUT_MAX);
    struct kube_credential got = {0};
    struct error err = {0};
    (void)status;
    (void)events;
    strbuf_reserve(&b, KUBE_PLUGIN_OUTPUT_MAX);
    ssize_t n = recv(c->plugin->fd, b.data, KUBE_PLUGIN_OUTPUT_MAX, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        uv_poll_stop(p);
    c->asking = false;
    loop_timer_stop(&c->plugin_timer);
    if (n <= 0 ||
        kube_credential_parse(&got, b.data, (size_t)n, c->access.plugin_version, &err) < 0) {
        log_warn("no credential from %s: %s", c->access.plugin[0],
                 n <= 0 ? "it cannot be run any more" : err.message);
        answer_waiting(c, "the program for the credential gave none");
        return;
    }
    free(c->access.token);
    c->access.token = got.token;
    if (got.key) {
        free(c->access.certificate);
        free(c->access.key);
        c->access.certificate = got.certificate;
        c->access.key = got.key;
    }
    c->expires_real_ns = got.expires_real_ns;
    c->has_credential = true;
    answer_waiting(c, NULL);
}

static void ask_plugin(struct kube_client *c)
{
    c->has_credential = false;
    if (c->asking)
        return;
    c->asking = kube_plugin_ask(c->plugin) == 0;
    loop_timer_start(&c->plugin_timer, c->asking ? PLUGIN_DEADLINE_MS : 1);
}

static bool needs_plugin(struct kube_client *c)
{
    if (!c->plugin)
        return false;
    if (c->has_credential && c->expires_real_ns &&
        clock_real_ns() > c->expires_real_ns - EXPIRES_MARGIN_NS)
        c->has_credential = false;
    return !c->has_credential;
}

bool kube_client_renew(struct kube_client *c)
{
    if (c->plugin)
        ask_plugin(c);
    else if (c->access.token_file)
        read_files_again(c, true);
    else
        return false;
    return true;
}

/* --- the end of a call */

static void on_call_closed(void *data)
{
    struct kube_call *call = data;
    struct kube_client *c = call->client;
    list_remove(&call->node);
    strbuf_done(&call->answer);
    free(call->method);
    free(call->path);
    free(call->content_type);
    free(call->body);
    free(call);
    client_finish(c);
    client_unref(c);
}

static void call_release_handle(struct kube_call *call)
{
    if (!call->easy)
        return;
    curl_multi_remove_handle(call->client->multi, call->easy);
    curl_easy_cleanup(steal_ptr(call->easy));
    curl_slist_free_all(steal_ptr(call->headers));
    curl_slist_free_all(steal_ptr(call->connect_to));
}

static void call_reap(void *data)
{
    struct kube_call *call = data;
    call_release_handle(call);
    loop_timer_close(&call->timer, on_call_closed, call);
}

/* Deferred calls come in any order: one that was to begin the call ends it instead. */
static void call_end(struct kube_call *call)
{
    loop_timer_stop(&call->timer);
    if (!call->reaping && !call->starting)
        loop_defer(call->client->loop, call_reap, call);
    call->reaping = true;
}

void kube_call_cancel(struct kube_call *call)
{
    if (!call)
        return;
    call->events = NULL;
    call_end(call);
}

static void call_tell(struct kube_call *call, const struct kube_answer *answer)
{
    const struct kube_call_events *events = call->events;
    if (answer->result.outcome == KUBE_DONE && !call->request.method) {
        call->connected = true; /* the caller's until it is cancelled */
        loop_timer_stop(&call->timer);
    } else {
        call_end(call);
    }
    if (events)
        events->on_done(call->data, answer);
}

/* --- answers */

static enum kube_outcome outcome_of_curl(CURLcode code)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
        return KUBE_UNTRUSTED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_PROXY:
        return KUBE_UNREACHABLE;
    case CURLE_OPERATION_TIMEDOUT:
        return KUBE_LATE;
    default:
        return KUBE_STRANGE;
    }
}

static void result_of_curl(struct kube_call *call, CURLcode code, struct kube_result *ret)
{
    const char *host = call->client->host;
    enum kube_outcome outcome = outcome_of_curl(code);
    const char *detail = call->detail[0] ? call->detail : curl_easy_strerror(code);
    if (code == CURLE_WRITE_ERROR)
        kube_result_fail(ret, KUBE_STRANGE,
                         "the answer from %s is too large, or not that of an API server", host);
    else if (outcome == KUBE_STRANGE)
        kube_result_fail(ret, outcome, "what answers at %s is not an API server: %.200s", host,
                         detail);
    else if (outcome == KUBE_UNTRUSTED)
        kube_result_fail(ret, outcome, "the certificate of %s: %.200s", host, detail);
    else
        kube_result_fail(ret, outcome, "%s: %.200s", host, detail);
}

static void parse_answer(struct kube_call *call, long http, struct kube_answer *answer,
                         json_t **ret_object)
{
    struct error err = {0};
    kube_result_parse(&answer->result, (int)http, call->answer.data, call->answer.len,
                      call->retry_after_s);
    answer->text = call->answer.data;
    answer->len = call->answer.len;
    if (answer->result.outcome != KUBE_DONE || call->request.raw || call->events->on_bytes)
        return;
    *ret_object =
        call->answer.len ? json_parse_any(call->answer.data, call->answer.len, &err) : NULL;
    answer->object = *ret_object;
    if (!json_is_object(answer->object))
        kube_result_fail(&answer->result, KUBE_STRANGE,
                         "what answers at %s is not an API server: %.100s", call->client->host,
                         err.message);
}

static void call_finish(struct kube_call *call, CURLcode code)
{
    struct kube_answer answer = {0};
    _cleanup_json_ json_t *object = NULL;
    long http = 0;
    if (call->reaping)
        return;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http);
    if (code == CURLE_OK && call->request.method && !call->head_ended)
        code = CURLE_PARTIAL_FILE; /* which is no error to libcurl */
    if (code != CURLE_OK)
        result_of_curl(call, code, &answer.result);
    else if (call->request.method)
        parse_answer(call, http, &answer, &object);
    if (answer.result.outcome == KUBE_UNAUTHORIZED && !call->retried &&
        kube_client_renew(call->client)) {
        call->retried = true;
        call_release_handle(call);
        if (needs_plugin(call->client) || call_begin(call) == 0)
            return;
    }
    call_tell(call, &answer);
}

static void take_finished(struct kube_client *c)
{
    int left;
    for (CURLMsg *m; c->multi && (m = curl_multi_info_read(c->multi, &left));) {
        struct kube_call *call = NULL;
        CURLcode code = m->data.result; /* m is gone after the next call */
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)(void *)&call);
        call_finish(call, code);
    }
}

static void call_fail(struct kube_call *call, enum kube_outcome outcome, const char *why)
{
    struct kube_answer answer = {0};
    kube_result_fail(&answer.result, outcome, "%s: %s", call->client->host, why);
    call_tell(call, &answer);
}

static void on_call_late(void *data)
{
    call_fail(data, KUBE_LATE, "no answer in time");
}

/* --- one transfer */

static size_t on_header(char *data, size_t size, size_t n, void *userdata)
{
    struct kube_call *call = userdata;
    static const char retry[] = "Retry-After:";
    size_t len = size * n;
    call->header_bytes += len;
    if (call->reaping || call->header_bytes > HEADERS_MAX)
        return 0;
    if (len >= 5 && strncasecmp(data, "HTTP/", 5) == 0) /* again after each interim answer */
        call->head_ended = false;
    else if (len && (data[0] == '\r' || data[0] == '\n'))
        call->head_ended = true;
    else if (len > strlen(retry) && strncasecmp(data, retry, strlen(retry)) == 0)
        call->retry_after_s = kube_parse_retry_after(data + strlen(retry), len - strlen(retry));
    if (call->request.silence_ms)
        loop_timer_start(&call->timer, call->request.silence_ms);
    return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *userdata)
{
    struct kube_call *call = userdata;
    size_t len = size * n;
    long http = 0;
    if (call->reaping)
        return 0;
    if (call->request.silence_ms)
        loop_timer_start(&call->timer, call->request.silence_ms);
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &http);
    if (http == 200 && call->events->on_bytes)
        return call->events->on_bytes(call->data, data, len) < 0 ? 0 : len;
    size_t max = http >= 300 ? ERROR_BODY_MAX : call->answer.max;
    if (call->answer.len + len > max)
        return 0;
    return strbuf_append(&call->answer, data, len) < 0 ? 0 : len;
}

static void set_blob(CURL *easy, CURLoption option, const char *text)
{
    struct curl_blob blob = {
        .data = (void *)(uintptr_t)text, .len = strlen(text), .flags = CURL_BLOB_COPY};
    curl_easy_setopt(easy, option, &blob);
}

static void set_trust(struct kube_call *call)
{
    const struct kube_access *a = &call->client->access;
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* by ALPN, too */
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* nothing of the host's */
    set_blob(easy, CURLOPT_CAINFO_BLOB, a->ca);
    if (a->certificate) {
        set_blob(easy, CURLOPT_SSLCERT_BLOB, a->certificate);
        set_blob(easy, CURLOPT_SSLKEY_BLOB, a->key);
    }
    curl_easy_setopt(easy, CURLOPT_PROXY, a->proxy ? a->proxy : "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, a->proxy ? "" : "*");
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
}

static void add_header(struct kube_call *call, const char *name, const char *value)
{
    _cleanup_free_ char *line = xasprintf("%s%s", name, value);
    call->headers = curl_slist_append(call->headers, line);
}

static void set_request(struct kube_call *call)
{
    const struct kube_client *c = call->client;
    CURL *easy = call->easy;
    if (c->connect_to) {
        add_header(call, "Host: ", c->host);
        call->connect_to = curl_slist_append(NULL, c->connect_to);
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, call->connect_to);
    }
    if (!call->method) {
        curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
        return;
    }
    add_header(call, "Accept: ", call->request.raw ? "*/*" : "application/json");
    add_header(call, "Expect:", "");
    if (c->access.token)
        add_header(call, "Authorization: Bearer ", c->access.token);
    if (call->body) {
        add_header(call, "Content-Type: ", call->content_type);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->request.body_len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
    }
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, call->headers);
}

/* The server's URL; with a server_name that name in the host's place. */
static char *format_url(const struct kube_call *call)
{
    const struct kube_client *c = call->client;
    const char *path = call->path ? call->path : "/";
    if (!c->access.server_name)
        return xasprintf("%s%s", c->access.server, path);
    struct url url;
    url_parse(c->access.server, &url);
    return xasprintf("https://%s:%u%s%s", c->access.server_name, (unsigned)url.target.port,
                     c->base_path, path);
}

/* A new handle each time: one that is used again remembers a header of the last answer that it has
 * freed (libcurl 7.88). Connections are kept by the multi handle. */
static int call_begin(struct kube_call *call)
{
    struct kube_client *c = call->client;
    read_files_again(c, false);
    _cleanup_free_ char *url = format_url(call);
    call->easy = curl_easy_init();
    if (!call->easy)
        return -ENOMEM;
    call->header_bytes = 0;
    call->head_ended = false;
    call->retry_after_s = 0;
    call->detail[0] = 0;
    strbuf_reset(&call->answer);
    curl_easy_setopt(call->easy, CURLOPT_URL, url);
    curl_easy_setopt(call->easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(call->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(call->easy, CURLOPT_ERRORBUFFER, call->detail);
    curl_easy_setopt(call->easy, CURLOPT_USERAGENT, "mas-kube/" MAS_VERSION);
    curl_easy_setopt(call->easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(call->easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    curl_easy_setopt(call->easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_EVERY_S);
    curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(call->easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(call->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(call->easy, CURLOPT_HEADERDATA, call);
    set_trust(call);
    set_request(call);
    return curl_multi_add_handle(c->multi, call->easy) == CURLM_OK ? 0 : -ENOMEM;
}

/* Those that waited for a credential; why: there is none. */
static void answer_waiting(struct kube_client *c, const char *why)
{
    list_for_each_safe(call, &c->calls, struct kube_call, node) {
        if (call->easy || call->starting || call->reaping)
            continue;
        if (why)
            call_fail(call, KUBE_UNAUTHORIZED, why);
        else if (call_begin(call) < 0)
            call_fail(call, KUBE_STRANGE, "out of memory");
    }
}

static void call_start_later(void *data)
{
    struct kube_call *call = data;
    call->starting = false;
    if (call->reaping)
        call_reap(call);
    else if (needs_plugin(call->client))
        ask_plugin(call->client);
    else if (call_begin(call) < 0)
        call_fail(call, KUBE_STRANGE, "out of memory");
}

struct kube_call *kube_call_start(struct kube_client *c, const struct kube_request *request,
                                  const struct kube_call_events *events, void *data)
{
    struct kube_call *call = new0(struct kube_call);
    call->client = c;
    call->starting = true;
    call->own_events = *events;
    call->events = &call->own_events;
    call->data = data;
    call->request = *request;
    call->method = request->method ? xstrdup(request->method) : NULL;
    call->path = request->path ? xstrdup(request->path) : NULL;
    call->content_type = request->content_type ? xstrdup(request->content_type) : NULL;
    if (request->body) {
        call->body = xcalloc(1, request->body_len + 1);
        memcpy(call->body, request->body, request->body_len);
    }
    strbuf_init(&call->answer, request->answer_max ? request->answer_max : KUBE_ANSWER_MAX);
    list_append(&c->calls, &call->node);
    c->n_open++;
    loop_timer_init(&call->timer, c->loop, on_call_late, call);
    loop_timer_start(&call->timer,
                     request->silence_ms ? request->silence_ms : request->deadline_ms);
    loop_defer(c->loop, call_start_later, call);
    return call;
}

struct kube_call *kube_call_json(struct kube_client *c, const char *method, const char *path,
                                 const json_t *body, uint32_t deadline_ms,
                                 void (*on_done)(void *data, const struct kube_answer *answer),
                                 void *data)
{
    const struct kube_call_events events = {.on_done = on_done};
    bool patch = strcmp(method, "PATCH") == 0;
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(BODY_MAX);
    if (body)
        json_format(body, &text);
    struct kube_request request = {.method = method,
                                   .path = path,
                                   .content_type =
                                       patch ? "application/merge-patch+json" : "application/json",
                                   .body = body ? text.data : NULL,
                                   .body_len = text.len,
                                   .deadline_ms = deadline_ms};
    return kube_call_start(c, &request, &events, data);
}

/* --- a connection */

int kube_call_fd(const struct kube_call *call)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_easy_getinfo(call->easy, CURLINFO_ACTIVESOCKET, &fd);
    return fd == CURL_SOCKET_BAD ? -1 : fd;
}

ssize_t kube_call_send(struct kube_call *call, const void *bytes, size_t len)
{
    size_t sent = 0;
    CURLcode code = curl_easy_send(call->easy, bytes, len, &sent);
    return code == CURLE_OK ? (ssize_t)sent : code == CURLE_AGAIN ? -EAGAIN : -EPIPE;
}

ssize_t kube_call_receive(struct kube_call *call, void *bytes, size_t len)
{
    size_t got = 0;
    CURLcode code = curl_easy_recv(call->easy, bytes, len, &got);
    return code == CURLE_OK ? (ssize_t)got : code == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
}

/* --- a client */

static void copy_access(struct kube_access *ret, const struct kube_access *a)
{
    struct error err = {0};
    _cleanup_json_ json_t *o = kube_access_format(a);
    if (kube_access_parse(ret, o, &err) < 0)
        abort(); /* it was parsed once before, from the same members */
}

static void split_server(struct kube_client *c)
{
    const char *host = c->access.server + strlen("https://");
    size_t n = strcspn(host, "/");
    struct url url;
    c->host = xstrndup(host, n);
    c->base_path = xstrdup(host + n);
    url_parse(c->access.server, &url);
    if (c->access.server_name)
        c->connect_to =
            xasprintf("%s:%u:%s", c->access.server_name, (unsigned)url.target.port, c->host);
}

struct kube_client *kube_client_new(uv_loop_t *loop, const struct kube_access *access,
                                    struct kube_plugin *plugin)
{
    struct kube_client *c = new0(struct kube_client);
    c->loop = loop;
    c->plugin = plugin;
    list_init(&c->calls);
    list_init(&c->sockets);
    copy_access(&c->access, access);
    split_server(c);
    c->files_read_ms = clock_mono_ms();
    if (c->access.ca_file)
        stat(c->access.ca_file, &c->ca_seen);
    loop_timer_init(&c->timer, loop, on_curl_time, c);
    loop_timer_init(&c->plugin_timer, loop, on_plugin_late, c);
    c->n_open = 2;
    if (plugin) {
        c->plugin_poll.data = c;
        uv_poll_init(loop, &c->plugin_poll, plugin->fd);
        uv_poll_start(&c->plugin_poll, UV_READABLE, on_plugin_answer);
        c->n_open++;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    c->multi = curl_multi_init();
    if (!c->multi)
        abort(); /* out of memory */
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_time_wanted);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_MAX);
    curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return c;
}

void kube_client_close(struct kube_client *c, void (*on_closed)(void *data), void *data)
{
    c->closing = true;
    c->on_closed = on_closed;
    c->closed_data = data;
    list_for_each(call, &c->calls, struct kube_call, node)
        kube_call_cancel(call);
    client_finish(c);
}

uv_loop_t *kube_client_loop(const struct kube_client *c)
{
    return c->loop;
}

const char *kube_client_host(const struct kube_client *c)
{
    return c->host;
}

const char *kube_client_base_path(const struct kube_client *c)
{
    return c->base_path;
}

const char *kube_client_token(const struct kube_client *c)
{
    return c->access.token;
}
