/* SPDX-License-Identifier: Apache-2.0 */
/* Images: listing, looking at one, fetching, removing. Uploads are in image-upload.c. */
#include <stdio.h>
#include <string.h>

#include "api/handlers.h"
#include "api/image-call.h"
#include "api/view.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "keeper/images.h"
#include "tool/image-find.h"

#define LINE_MAX_ (256 * 1024)

/* --- views */

static json_t *view_image(const struct api_request *req, const json_t *image)
{
    const char *digest = json_string_value(json_object_get(image, "digest"));
    json_t *o = json_object();
    static const char *const same[] = {"names", "source",  "size_bytes", "files", "layers",
                                       "env",   "workdir", "user",       "cmd",   "removed"};
    json_object_set_new(o, "digest", json_string(digest ? digest : ""));
    for (size_t i = 0; i < ELEMENTS(same); i++)
        if (json_object_get(image, same[i]))
            json_object_set(o, same[i], json_object_get(image, same[i]));
    json_object_set_new(o, "created_at",
                        view_time(json_integer_value(json_object_get(image, "created_ns"))));
    json_object_set_new(o, "last_use_at",
                        view_time(json_integer_value(json_object_get(image, "last_use_ns"))));
    json_object_set_new(o, "in_use",
                        json_boolean(digest && images_is_used(req->services->images, digest)));
    return o;
}

/* --- one call of the keeper's for one request */

static void call_free(struct image_call *c)
{
    image_removal_end(&c->removal);
    if (c->free_data)
        c->free_data(c->data);
    json_decref(c->items);
    free(c->image);
    free(c);
}

static void on_request_abort(struct api_request *req)
{
    struct image_call *c = req->state;
    if (c->begun && c->goes_on) {
        c->req = NULL;
        return;
    }
    keeper_call_cancel(c->call);
    if (c->begun) { /* the keeper may have done it all the same */
        images_forget(req->services->images);
        image_note_left(req->services->gate, req->who, c->outcome, c->image);
    }
    call_free(c);
}

static void write_line(struct image_call *c, const char *event, json_t *line)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(LINE_MAX_);
    if (c->format == IMAGE_SSE)
        strbuf_printf(&b, "event: %s\ndata: ", event);
    json_format(line, &b);
    json_decref(line);
    strbuf_puts(&b, c->format == IMAGE_SSE ? "\n\n" : "\n");
    c->slow = !http_write(c->req->http, b.data ? b.data : "", b.len);
}

static void on_drain(struct http_request *http, void *data)
{
    struct image_call *c = data;
    (void)http;
    c->slow = false;
}

static void begin_stream(struct image_call *c)
{
    if (c->streaming)
        return;
    c->streaming = true;
    http_request_on_drain(c->req->http, on_drain, c);
    http_response_header(c->req->http, "Cache-Control", "no-cache");
    http_respond_begin(c->req->http, 200,
                       c->format == IMAGE_SSE ? "text/event-stream" : "application/x-ndjson");
}

static void on_progress(void *data, json_t *progress)
{
    struct image_call *c = data;
    if (c->format == IMAGE_JSON || c->slow)
        return;
    begin_stream(c);
    write_line(c, "progress", json_pack("{s:O}", "progress", progress));
}

static void on_item(void *data, json_t *item)
{
    struct image_call *c = data;
    json_array_append_new(c->items, view_image(c->req, item));
}

static void finish_stream(struct image_call *c, json_t *result, const struct error *err)
{
    struct api_request *req = c->req;
    if (err)
        write_line(c, "error", api_error_body(STYLE_NATIVE, err));
    else
        write_line(c, "done", json_pack("{s:o}", "done", view_image(req, result)));
    struct http_request *http = api_take(req);
    http_request_on_drain(http, NULL, NULL);
    http_respond_end(http);
}

static void call_record(const struct image_call *c, const json_t *result, const struct error *err)
{
    images_forget(c->services->images);
    if (!c->req && err && err->code == ERROR_UNAVAILABLE) /* what has become of it is not known */
        image_note_left(c->services->gate, &c->who, c->outcome, c->image);
    else
        image_note(c->services->gate, &c->who, c->outcome, c->image,
                   json_string_value(json_object_get(result, "digest")), err);
}

static void on_done(void *data, json_t *result, const struct error *err)
{
    struct image_call *c = data;
    struct api_request *req = c->req;
    if (c->outcome)
        call_record(c, result, err);
    if (!req) {
        call_free(c);
        return;
    }
    if (c->streaming || (!err && c->format != IMAGE_JSON)) {
        begin_stream(c);
        finish_stream(c, result, err);
    } else if (err) {
        api_fail(req, err);
    } else if (c->items) {
        api_reply(req, 200,
                  json_pack("{s:O, s:O, s:O}", "images", c->items, "used_bytes",
                            json_object_get(result, "used_bytes"), "max_bytes",
                            json_object_get(result, "max_bytes")));
    } else {
        api_reply(req, 200, view_image(req, result));
    }
    call_free(c);
}

const struct keeper_handlers image_call_handlers = {on_progress, on_item, on_done};

enum image_format image_format_wanted(const struct api_request *req)
{
    const char *accept = http_request_header(req->http, "Accept");
    if (accept && strstr(accept, "text/event-stream"))
        return IMAGE_SSE;
    return accept && strstr(accept, "application/x-ndjson") ? IMAGE_NDJSON : IMAGE_JSON;
}

struct image_call *image_call_new(struct api_request *req, const char *outcome, const char *image)
{
    struct image_call *c = new0(struct image_call);
    c->req = req;
    c->services = req->services;
    c->who = *req->who;
    c->outcome = outcome;
    c->image = xstrdup(image);
    list_init(&c->removal.node);
    return c;
}

bool image_call_start(struct image_call *c, json_t *request, int fd)
{
    struct api_request *req = c->req;
    struct error err = {0};
    req->state = c;
    req->on_abort = on_request_abort;
    int r = c->outcome
                ? image_record_begun(req->services->gate, req->who, c->outcome, c->image, &err)
                : 0;
    if (r < 0)
        json_decref(request);
    else
        c->call = images_call(req->services->images, request, fd, &image_call_handlers, c, &err);
    c->begun = c->call && c->outcome;
    if (c->call)
        return true;
    call_free(c);
    api_fail(req, &err);
    return false;
}

/* --- handlers */

/* By the path's last part, or by ?image=, because references have slashes. */
static const char *image_of(struct api_request *req)
{
    struct error err = {0};
    const char *image = req->params[0] ? req->params[0] : http_request_query(req->http, "image");
    if (image && image_text_check(image, &err) >= 0)
        return image;
    error_field(&err, "image", "which image? name it with ?image=");
    api_fail(req, &err);
    return NULL;
}

int handle_image_list(struct api_request *req)
{
    if (http_request_query(req->http, "image"))
        return handle_image_get(req);
    struct image_call *c = image_call_new(req, NULL, "");
    c->items = json_array();
    image_call_start(c, json_pack("{s:s}", "op", "list"), -1);
    return 0;
}

int handle_image_get(struct api_request *req)
{
    const char *image = image_of(req);
    if (image)
        image_call_start(image_call_new(req, NULL, image),
                         json_pack("{s:s, s:s}", "op", "find", "image", image), -1);
    return 0;
}

int handle_image_pull(struct api_request *req)
{
    const char *image = NULL, *policy = "always";
    int r = json_member_string(req->body, "image", &image, req->err);
    if (r < 0)
        return r;
    r = json_member_string(req->body, "policy", &policy, req->err);
    if (r < 0)
        return r;
    r = image_text_check(image ? image : "", req->err);
    if (r < 0)
        return r;
    if (strcmp(policy, "always") != 0 && strcmp(policy, "missing") != 0)
        return error_field(req->err, "policy", "'policy' is 'always' or 'missing'");
    r = image_check_name(req->services->gate, req->who, image, req->err);
    if (r < 0)
        return r;
    struct image_call *c = image_call_new(req, "pulled", image);
    c->format = image_format_wanted(req);
    image_call_start(
        c, json_pack("{s:s, s:s, s:s}", "op", "pull", "image", image, "policy", policy), -1);
    return 0;
}

/* What it is comes first, so that one in use is not removed. */
static void on_found(void *data, json_t *result, const struct error *err)
{
    struct image_call *c = data;
    struct api_request *req = c->req;
    const char *digest = json_string_value(json_object_get(result, "digest"));
    struct error failed = {0};
    c->call = NULL;
    if (err)
        failed = *err;
    else if (images_is_used(req->services->images, digest))
        error_set(&failed, ERROR_CONFLICT, 0,
                  "image %.200s is in use by a sandbox, or by a call that waits for approval",
                  c->image);
    if (!error_is_set(&failed)) {
        /* With a name more only this one goes. */
        if (strstr(c->image, digest) || json_array_size(json_object_get(result, "names")) < 2)
            image_removal_begin(req->services->images, &c->removal, digest);
        image_call_start(c, json_pack("{s:s, s:s}", "op", "remove", "image", c->image), -1);
        return;
    }
    call_free(c);
    api_fail(req, &failed);
}

int handle_image_remove(struct api_request *req)
{
    static const struct keeper_handlers handlers = {.on_done = on_found};
    const char *image = image_of(req);
    if (!image)
        return 0;
    struct image_call *c = image_call_new(req, "removed", image);
    c->goes_on = true;
    req->state = c;
    req->on_abort = on_request_abort;
    c->call =
        images_call(req->services->images, json_pack("{s:s, s:s}", "op", "find", "image", image),
                    -1, &handlers, c, req->err);
    if (c->call)
        return 0;
    call_free(c);
    return -1;
}
