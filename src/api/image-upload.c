/* SPDX-License-Identifier: Apache-2.0 */
/* A tar that becomes an image: from the request's body through a socket to the keeper's worker, no
 * faster than that takes it. The worker uses it only after the control plane has said that all of
 * it arrived. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/image-call.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "keeper/images.h"
#include "keeper/reference.h"

#define QUEUE_MAX (4 * 1024 * 1024) /* one read of a body, and then some */

struct image_upload {
    struct image_call *call;
    uv_poll_t poll;
    int fd; /* -1 if the worker takes no more */
    struct strbuf queue;
    uint64_t bytes;
    bool ended; /* the whole body came */
};

static void on_closed(uv_handle_t *handle)
{
    struct image_upload *u = handle->data;
    fd_close(&u->fd);
    strbuf_done(&u->queue);
    free(u);
}

static void upload_free(void *data)
{
    struct image_upload *u = data;
    uv_close((uv_handle_t *)&u->poll, on_closed);
}

/* Everything is on its way: the worker may go on once it has read it. */
static void end_upload(struct image_upload *u)
{
    uv_poll_stop(&u->poll);
    keeper_call_tell(u->call->call,
                     json_pack("{s:s, s:I}", "op", "end", "bytes", (json_int_t)u->bytes));
    shutdown(u->fd, SHUT_WR);
}

static void on_writable(uv_poll_t *poll, int status, int events);

static void push_upload(struct image_upload *u)
{
    struct http_request *http = u->call->req->http;
    while (u->queue.len) {
        ssize_t n = send(u->fd, u->queue.data, u->queue.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            uv_poll_start(&u->poll, UV_WRITABLE, on_writable);
            http_request_pause(http);
            return;
        }
        /* A keeper that takes no more says why in its answer. */
        strbuf_consume(&u->queue, n < 0 ? u->queue.len : (size_t)n);
    }
    uv_poll_stop(&u->poll);
    if (u->ended)
        end_upload(u);
    else
        http_request_resume(http);
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    struct image_upload *u = poll->data;
    (void)events;
    if (status < 0)
        strbuf_reset(&u->queue);
    push_upload(u);
}

static void on_chunk(struct http_request *http, const char *data, size_t len)
{
    struct api_request *req = http_request_data(http);
    if (!req)
        return; /* answered already */
    struct image_call *c = req->state;
    struct image_upload *u = c->data;
    u->bytes += len;
    u->ended = len == 0;
    if (len && strbuf_append(&u->queue, data, len) < 0)
        u->bytes = UINT64_MAX; /* paused readers do not get here; the worker would refuse it */
    push_upload(u);
}

static int check_upload(const struct api_request *req, const char *name, struct error *err)
{
    int64_t length = http_request_content_length(req->http);
    if (!name || !*name)
        return error_field(err, "name", "the image needs a name: ?name=");
    if (image_text_check(name, err) < 0)
        return -EINVAL;
    if (!reference_is_local_name(name))
        return error_field(err, "name",
                           "'%.80s' is not a name for an image that is made here: it could mean "
                           "a registry's, a path or a digest",
                           name);
    if (length > 0 && (uint64_t)length > req->services->images_max_upload_bytes)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "the upload is over %llu bytes (images_max_upload_bytes)",
                         (unsigned long long)req->services->images_max_upload_bytes);
    return 0;
}

static struct image_upload *upload_new(struct image_call *c, int fd)
{
    struct image_upload *u = new0(struct image_upload);
    u->call = c;
    u->fd = fd;
    strbuf_init(&u->queue, QUEUE_MAX);
    fd_set_nonblock(fd, true);
    uv_poll_init(c->req->services->loop, &u->poll, fd);
    u->poll.data = u;
    return u;
}

int handle_image_upload(struct api_request *req)
{
    const char *name = http_request_query(req->http, "name");
    const char *format = http_request_query(req->http, "format");
    int pair[2];
    int r = check_upload(req, name, req->err);
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return error_set(req->err, ERROR_LIMIT, errno, "open a socket");
    struct image_call *c = image_call_new(req, "imported", name);
    c->format = image_format_wanted(req);
    c->data = upload_new(c, pair[0]);
    c->free_data = upload_free;
    struct http_request *http = req->http;
    int64_t length = http_request_content_length(http);
    json_t *order =
        json_pack("{s:s, s:s, s:s, s:I}", "op", "import", "name", name, "format",
                  format ? format : "auto", "bytes", (json_int_t)(length > 0 ? length : 0));
    bool started = image_call_start(c, order, pair[1]);
    close(pair[1]);
    if (started)
        http_request_stream_body(http, on_chunk);
    return 0;
}
