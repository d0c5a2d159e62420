/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes out of a sandbox: a file, or a directory as tar.
 *
 * They go through without being kept. Of a file the runner first writes a line that says how much
 * will follow (file_op_read_headed()), so that the answer has a length, an ETag and, for one range,
 * status 206. The runner is not believed: more than it promised is not passed on, and less ends in
 * a reset, because a cut file must not look whole. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "api/files.h"
#include "api/handlers.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/output-stream.h"
#include "base/strbuf.h"
#include "tool/builtin.h"

#define HEAD_MAX 1024 /* bytes of the runner's line */

struct download {
    struct api_request *req;   /* until the first byte */
    struct http_request *http; /* from then on; NULL when the client left */
    struct run *run;
    struct exec *exec;
    struct strbuf stderr_text;
    const char *type;
    struct strbuf head;             /* the runner's line, while it comes */
    bool headed;                    /* such a line comes first */
    uint64_t left;                  /* of what was promised; UINT64_MAX: nothing was */
    size_t pending[OUTPUT_STREAMS]; /* taken by the connection, not acknowledged to the runner */
    bool full;
};

static void download_free(struct download *d)
{
    exec_unref(d->exec);
    strbuf_done(&d->stderr_text);
    strbuf_done(&d->head);
    free(d);
}

static void acknowledge_output(struct download *d)
{
    for (uint8_t s = OUTPUT_STDOUT; s <= OUTPUT_STDERR; s++) {
        size_t n = d->pending[output_index(s)];
        d->pending[output_index(s)] = 0;
        if (n && d->exec)
            exec_sink_done(d->exec, s, n);
    }
}

static void on_download_drain(struct http_request *http, void *data)
{
    struct download *d = data;
    (void)http;
    d->full = false;
    acknowledge_output(d);
}

/* The client left: the tool is ended, what it still prints is dropped, on_download_done frees. */
static void stop_download(struct download *d)
{
    if (!d->exec)
        return;
    exec_sink_detach(d->exec); /* acknowledges all that came */
    memset(d->pending, 0, sizeof(d->pending));
    exec_signal(d->exec, SIGKILL, NULL);
}

static void on_download_abort(struct http_request *http, void *data)
{
    struct download *d = data;
    (void)http;
    d->http = NULL;
    stop_download(d);
}

static void on_download_request_abort(struct api_request *req)
{
    struct download *d = req->state;
    d->req = NULL;
    if (run_leave(d->run)) /* it waited for a person, and never runs */
        download_free(d);
    else
        stop_download(d);
}

static void begin_download(struct download *d, int status)
{
    d->http = api_take(d->req);
    d->req = NULL;
    http_request_on_abort(d->http, on_download_abort, d);
    http_request_on_drain(d->http, on_download_drain, d);
    if (d->left == UINT64_MAX)
        http_respond_begin(d->http, status, d->type);
    else
        http_respond_begin_sized(d->http, status, d->type, d->left);
}

/* --- the runner's line */

struct file_head {
    uint64_t size, offset, length;
    const char *etag;
    bool sized, range, unsatisfiable;
};

/* 0, or -1 for a line that is not one of ours. */
static int head_parse(json_t *o, struct file_head *h)
{
    json_int_t size = -1, offset = -1, length = -1;
    int range = 0, unsatisfiable = 0;
    *h = (struct file_head){0};
    if (json_object_size(o) == 0)
        return 0;
    if (json_unpack(o, "{s:I, s:I, s:I, s:s, s:b, s:b}", "size", &size, "offset", &offset, "length",
                    &length, "etag", &h->etag, "range", &range, "unsatisfiable",
                    &unsatisfiable) < 0 ||
        size < 0 || offset < 0 || length < 0)
        return -1;
    *h = (struct file_head){(uint64_t)size, (uint64_t)offset, (uint64_t)length, h->etag, true,
                            range,          unsatisfiable};
    return 0;
}

static void put_head_fields(struct http_request *http, const struct file_head *h)
{
    char range[80];
    http_response_header(http, "ETag", h->etag);
    http_response_header(http, "Accept-Ranges", "bytes");
    if (h->unsatisfiable)
        snprintf(range, sizeof(range), "bytes */%" PRIu64, h->size);
    else if (h->range && h->length)
        snprintf(range, sizeof(range), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, h->offset,
                 h->offset + h->length - 1, h->size);
    else
        return;
    http_response_header(http, "Content-Range", range);
}

static bool has_tag(const char *tags, const char *etag)
{
    return strcmp(tags, "*") == 0 || strstr(tags, etag);
}

static bool is_known(const struct http_request *http, const char *etag)
{
    const char *known = http_request_header(http, "If-None-Match");
    return known && has_tag(known, etag);
}

static bool is_another(const struct http_request *http, const char *etag)
{
    const char *wanted = http_request_header(http, "If-Match");
    return wanted && !has_tag(wanted, etag);
}

/* The whole answer, where no bytes of the file belong to it: the tool is ended. */
static bool answer_without_bytes(struct download *d, const struct file_head *h)
{
    struct error err = {0};
    struct api_request *req = d->req;
    bool another = is_another(req->http, h->etag), known = is_known(req->http, h->etag);
    bool head = http_request_method(req->http) == HTTP_HEAD_;
    if (!another && !known && !h->unsatisfiable && !head)
        return false;
    d->req = NULL;
    stop_download(d);
    if (another) {
        error_set(&err, ERROR_CONFLICT, 0, "the file is another one than If-Match names");
        api_reply(req, 412, api_error_body(req->route->style, &err));
    } else if (known) {
        api_reply_text(req, 304, d->type, "", 0);
    } else if (!h->unsatisfiable) {
        api_reply_text(req, h->range ? 206 : 200, d->type, "", h->length);
    } else {
        error_set(&err, ERROR_INVALID, 0, "the file has %" PRIu64 " bytes: no such range", h->size);
        api_reply(req, 416, api_error_body(req->route->style, &err));
    }
    return true;
}

static void on_head(struct download *d, const char *line, size_t len)
{
    struct error err = {0};
    struct file_head h;
    _cleanup_json_ json_t *o = json_parse_object(line, len, &err);
    if (!o || head_parse(o, &h) < 0) {
        stop_download(d);
        return; /* its end is an error */
    }
    d->headed = false;
    if (!h.sized) {
        begin_download(d, 200);
        return;
    }
    put_head_fields(d->req->http, &h);
    if (answer_without_bytes(d, &h))
        return;
    d->left = h.length;
    begin_download(d, h.range ? 206 : 200);
}

/* How much of the bytes was the line's. */
static size_t take_head(struct download *d, const char *bytes, size_t len)
{
    const char *end = memchr(bytes, '\n', len);
    size_t n = end ? (size_t)(end - bytes) + 1 : len;
    bool fits = strbuf_append(&d->head, bytes, n) >= 0;
    if (!d->req)
        return len;
    if (!fits)
        stop_download(d);
    else if (end)
        on_head(d, d->head.data, d->head.len);
    return n;
}

static void pass_on(struct download *d, const char *bytes, size_t len)
{
    if (d->headed) {
        size_t n = take_head(d, bytes, len);
        bytes += n;
        len -= n;
    } else if (d->req) {
        begin_download(d, 200);
    }
    if (d->left != UINT64_MAX) {
        len = len < d->left ? len : (size_t)d->left;
        d->left -= len;
    }
    if (d->http && len && !http_write(d->http, bytes, len))
        d->full = true;
}

static void on_download_output(void *data, uint8_t stream, const char *bytes, size_t len)
{
    struct download *d = data;
    d->pending[output_index(stream)] += len;
    if (stream == OUTPUT_STDERR)
        strbuf_append(&d->stderr_text, bytes, len);
    else
        pass_on(d, bytes, len);
    if (!d->full)
        acknowledge_output(d);
}

static void on_download_started(void *data, struct run *run, struct exec *e)
{
    struct download *d = data;
    (void)run;
    d->exec = exec_ref(e);
    if (!d->req)
        stop_download(d);
}

static void on_download_done(void *data, struct run *run, struct exec *e,
                             const struct error *run_err)
{
    struct download *d = data;
    struct error err = {0};
    (void)run;
    if (run_err)
        err = *run_err;
    else
        builtin_check_text(e, d->stderr_text.data, d->stderr_text.len, &err);
    if (!error_is_set(&err) && (d->headed || (d->left && d->left != UINT64_MAX)))
        error_set(&err, ERROR_INTERNAL, 0, "the runner's answer is not a whole file");
    if (d->req && error_is_set(&err)) {
        api_fail(d->req, &err);
    } else {
        if (d->req)
            begin_download(d, 200);
        if (d->http) {
            http_request_on_abort(d->http, NULL, NULL);
            http_request_on_drain(d->http, NULL, NULL);
            if (error_is_set(&err))
                http_respond_abort(d->http); /* a cut file must not look whole */
            else
                http_respond_end(d->http);
        }
    }
    download_free(d);
}

static void run_download(struct api_request *req, struct file_op op, const char *type, bool headed)
{
    static const struct run_events events = {on_download_started, on_download_done};
    struct error err = {0};
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb)
        return;
    struct download *d = new0(struct download);
    d->req = req;
    d->type = type;
    d->headed = headed;
    d->left = UINT64_MAX;
    strbuf_init(&d->head, HEAD_MAX);
    strbuf_init(&d->stderr_text, 4096);
    req->state = d;
    req->on_abort = on_download_request_abort;
    struct exec_sink sink = {on_download_output, d};
    struct run_request run = file_request(req, sb, &op);
    run.exec.sink = &sink;
    d->run = run_start(&run, &events, d, &err);
    if (!d->run) {
        download_free(d);
        api_fail(req, &err);
    }
}

/* One range of bytes, or NULL. Several would be another answer, and what is not understood is not
 * there, as HTTP has it; beside offset and length of ours it does not count. */
static const char *range_wanted(const struct api_request *req)
{
    const char *range = http_request_header(req->http, "Range");
    bool ours = http_request_query(req->http, "offset") || http_request_query(req->http, "length");
    bool one = range && strncmp(range, "bytes=", 6) == 0 && !strchr(range, ',');
    return one && !ours && strlen(range) < 64 ? range + 6 : NULL;
}

int handle_file_read(struct api_request *req)
{
    uint64_t ignored;
    const char *path = file_query_path(req);
    if (!path)
        return 0;
    if (api_query_number(req, "offset", 0, INT64_MAX, &ignored, req->err) < 0 ||
        api_query_number(req, "length", 0, INT64_MAX, &ignored, req->err) < 0)
        return -1;
    const char *offset = http_request_query(req->http, "offset");
    const char *length = http_request_query(req->http, "length");
    const char *range = range_wanted(req);
    const char *if_range = http_request_header(req->http, "If-Range");
    run_download(req, file_op_read_headed(path, offset, length, range, if_range),
                 "application/octet-stream", true);
    return 0;
}

int handle_tar_read(struct api_request *req)
{
    const char *path = file_query_path(req);
    if (path)
        run_download(req, file_op_tar_read(path), "application/x-tar", false);
    return 0;
}
