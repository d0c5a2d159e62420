/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/image-find.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json-format.h"
#include "base/json.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "event/event-journal.h"
#include "guard/approval.h"
#include "guard/gate.h"
#include "keeper/reference.h"
#include "runtime/runtime.h"
#include "runtime/spec.h"

static void announce_image(struct event_journal *events, const char *outcome, const char *image,
                           const char *digest)
{
    static const struct {
        const char *outcome;
        enum event_type type;
    } types[] = {{"pulled", EVENT_IMAGE_PULLED},
                 {"imported", EVENT_IMAGE_IMPORTED},
                 {"removed", EVENT_IMAGE_REMOVED}};
    _cleanup_strbuf_ struct strbuf data = STRBUF_INIT(EVENT_DATA_MAX);
    struct json_text t = json_text_begin(&data, '{');
    json_text_bytes(&t, "image", image, strlen(image));
    json_text_end(&t, '}');
    for (size_t i = 0; i < ELEMENTS(types); i++)
        if (strcmp(types[i].outcome, outcome) == 0)
            event_append(events, types[i].type, digest ? digest : image, "", data.data);
}

void image_note(struct gate *gate, const struct identity *who, const char *outcome,
                const char *image, const char *digest, const struct error *err)
{
    _cleanup_json_ json_t *details = json_pack("{s:o}", "image", json_message(image));
    if (digest)
        json_object_set_new(details, "digest", json_string(digest));
    if (err)
        json_object_set_new(details, "error", json_message(err->message));
    struct audit_record r = {
        .kind = "image", .who = who, .outcome = err ? "failed" : outcome, .details = details};
    audit_note(gate_audit(gate), &r);
    if (!err)
        announce_image(gate_events(gate), outcome, image, digest);
    log_info("image %s image=%s by=%s", err ? "failed" : outcome, image, who->key);
}

static json_t *begun_details(const char *what, const char *image)
{
    return json_pack("{s:o, s:s}", "image", json_message(image), "to_be", what);
}

int image_record_begun(struct gate *gate, const struct identity *who, const char *what,
                       const char *image, struct error *err)
{
    _cleanup_json_ json_t *details = begun_details(what, image);
    struct audit_record r = {.kind = "image", .who = who, .outcome = "begun", .details = details};
    int n = gate_audit(gate) ? audit_write(gate_audit(gate), &r, NULL, err) : 0;
    if (n < 0)
        error_prefix(err, "not done: the audit cannot be written");
    return n;
}

void image_note_left(struct gate *gate, const struct identity *who, const char *what,
                     const char *image)
{
    _cleanup_json_ json_t *details = begun_details(what, image);
    struct audit_record r = {.kind = "image", .who = who, .outcome = "left", .details = details};
    audit_note(gate_audit(gate), &r);
}

/* A name without a registry may be one of the store's: that is known once it was found. */
int image_check_name(struct gate *gate, const struct identity *who, const char *image,
                     struct error *err)
{
    _cleanup_free_ char *shown = reference_show(image, NULL, false);
    char *const names[] = {shown, NULL};
    return shown ? gate_check_image(gate, who, names, NULL, err) : 0;
}

/* Rules are asked about every name and the digest that the image turned out to have: the caller's
 * own spelling of it was only good enough to go and look. */
static int set_image(struct image_find *f, const struct image_found *found, struct error *err)
{
    _cleanup_free_ char *image = xstrdup(f->spec->image);
    int r = gate_check_image(f->gate, f->who, found->names, found->digest, err);
    if (r < 0)
        return r;
    spec_set_image(f->spec, image, found->digest, found->env, found->workdir, found->names);
    return r;
}

static void on_found(struct image_wait *w, const struct image_found *found, const struct error *err)
{
    struct image_find *f = container_of(w, struct image_find, wait);
    struct error failed = {0};
    f->looking = false;
    if (err) {
        failed = *err;
        if (f->approved)
            error_prefix(&failed, "'%.100s' as it was approved", f->spec->image);
    } else {
        if (found->fetched)
            image_note(f->gate, f->who, "pulled", f->spec->image, found->digest, NULL);
        set_image(f, found, &failed);
    }
    f->on_done(f, error_is_set(&failed) ? &failed : NULL);
}

int image_find_start(struct image_find *f, struct images *images, struct gate *gate,
                     const struct identity *who, const char *approval_id, struct spec *spec,
                     struct error *err)
{
    if (!spec->image || spec->image_digest)
        return 0;
    const struct runtime_ops *ops = spec->runtime ? runtime_find(spec->runtime) : NULL;
    if (ops && ops->has_own_images) /* what it means is found out elsewhere */
        return image_check_name(gate, who, spec->image, err);
    const char *digest =
        approval_id ? approvals_find_image(gate_approvals(gate), who, approval_id, spec->image)
                    : NULL;
    _cleanup_free_ char *approved = digest ? xasprintf("sha256:%s", digest) : NULL;
    const char *image = approved ? approved : spec->image;
    f->wait = (struct image_wait){.on_found = on_found};
    f->gate = gate;
    f->who = who;
    f->spec = spec;
    f->approved = approved;
    /* Where a person has approved this call, the image is looked up by the digest that was shown:
     * its name may lead to another one by now. */
    const struct image_found *known = images_peek(images, image);
    if (known)
        return set_image(f, known, err);
    int r = image_check_name(gate, who, spec->image, err);
    if (r < 0)
        return r;
    r = images_resolve(images, image, &f->wait, err);
    f->looking = r >= 0;
    return r < 0 ? r : 1;
}

/* No callback comes afterwards: f is a part of what is being freed. */
void image_find_cancel(struct image_find *f)
{
    if (f->looking) /* it may have been fetched all the same */
        image_note_left(f->gate, f->who, "pulled", f->spec->image);
    f->looking = false;
    image_wait_cancel(&f->wait);
}
