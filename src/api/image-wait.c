#include "api/image-wait.h"

#include <string.h>

#include "api/image-call.h"
#include "api/request.h"
#include "base/alloc.h"
#include "base/error.h"
#include "guard/approval.h"
#include "guard/gate.h"
#include "keeper/images.h"
#include "keeper/reference.h"

struct request_wait {
    struct image_wait wait;
    struct api_request *req;
    char *image;
    bool approved; /* it has to be the one that a person was shown */
};

/* What was found for the request whose handler is being called again. */
static const struct {
    struct api_request *req;
    const struct image_found *found;
} nobody;
static __typeof__(nobody) *current = &nobody;

int image_apply(const struct api_options *o, const struct identity *who, struct spec *spec,
                const struct image_found *found, struct error *err)
{
    _cleanup_free_ char *image = xstrdup(spec->image);
    int r = gate_check_image(o->gate, who, found->names, found->digest, err);
    if (r >= 0)
        spec_set_image(spec, image, found->digest, found->env, found->workdir, found->names);
    return r;
}

/* A name without a registry may be one of the store's: that is known when it was found. */
int image_check_name(const struct api_options *o, const struct identity *who, const char *image,
                     struct error *err)
{
    _cleanup_free_ char *shown = reference_show(image, NULL, false);
    char *const names[] = {shown, NULL};
    return shown ? gate_check_image(o->gate, who, names, NULL, err) : 0;
}

static void on_found(struct image_wait *w, const struct image_found *found, const struct error *err)
{
    struct request_wait *rw = container_of(w, struct request_wait, wait);
    struct api_request *req = rw->req;
    _cleanup_free_ char *image = rw->image;
    bool approved = rw->approved;
    free(rw);
    req->state = NULL;
    req->on_abort = NULL;
    if (err) {
        struct error failed = *err;
        if (approved)
            error_prefix(&failed, "'%.100s' as it was approved", image);
        api_fail(req, &failed);
        return;
    }
    if (found->fetched)
        image_note(req->options->audit, req->who, "pulled", image, found->digest, NULL);
    if (!req->http) /* it left, and its headers with it */
        req->terms.approval_id = NULL;
    __typeof__(nobody) now = {req, found};
    current = &now;
    req->route->handle(req);
    current = &nobody;
}

static void on_abort(struct api_request *req)
{
    struct request_wait *rw = req->state;
    image_wait_cancel(&rw->wait);
    free(rw->image);
    free(rw);
}

/* Who comes with a grant means the image that it was given for, even if its name has moved on. */
static char *approved_image(const struct api_request *req, const char *image)
{
    const char *id = req->terms.approval_id;
    const char *digest =
        id ? approvals_find_image(gate_approvals(req->options->gate), req->who, id, image) : NULL;
    return digest ? xasprintf("sha256:%s", digest) : NULL;
}

int api_need_image(struct api_request *req, struct spec *spec, struct error *err)
{
    if (!spec->image || spec->image_digest)
        return 0;
    _cleanup_free_ char *approved = approved_image(req, spec->image);
    const char *image = approved ? approved : spec->image;
    const struct image_found *found =
        current->req == req ? current->found : images_peek(req->options->images, image);
    if (found)
        return image_apply(req->options, req->who, spec, found, err);
    int r = image_check_name(req->options, req->who, spec->image, err);
    if (r < 0)
        return r;
    struct request_wait *rw = new0(struct request_wait);
    rw->req = req;
    rw->image = xstrdup(spec->image);
    rw->approved = approved;
    rw->wait.on_found = on_found;
    r = images_resolve(req->options->images, image, &rw->wait, err);
    if (r < 0) {
        free(rw->image);
        free(rw);
        return r;
    }
    req->state = rw;
    req->on_abort = on_abort;
    return 1;
}
