/* SPDX-License-Identifier: Apache-2.0 */
#include "api/durable-reply.h"

#include <stdlib.h>

#include "api/request.h"
#include "base/alloc.h"
#include "base/weak.h"
#include "net/http.h"

struct durable_reply *durable_reply_new(struct api_request *req, int status)
{
    struct durable_reply *d = new0(struct durable_reply);
    d->req = api_later(req);
    d->status = status;
    return d;
}

void durable_reply_free(struct durable_reply *d)
{
    weak_unref(d->req);
    json_decref(d->answer);
    free(d);
}

void durable_reply_send(void *data, const struct error *err)
{
    struct durable_reply *d = data;
    struct api_request *req = weak_get(d->req);
    if (req && err) {
        api_fail(req, err);
    } else if (req) {
        if (d->secret)
            http_response_header(req->http, "Cache-Control", "no-store");
        api_reply(req, d->status, json_incref(d->answer));
    }
    durable_reply_free(d);
}
