/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out what the image that a spec names is. That comes before anything is decided or made,
 * because an image brings an environment and a directory to start in.
 *
 * Everything that waits for an image owns one of these: a one-shot run in its first phase
 * (tool/run.h), and the requests that create a sandbox. */
#pragma once

#include <stdbool.h>

#include "keeper/images.h"

struct audit;
struct error;
struct gate;
struct identity;
struct spec;

struct image_find {
    /* Set by the owner. Comes once, from a later turn of the loop: without err the spec has its
     * image. The owner may free the object inside. */
    void (*on_done)(struct image_find *f, const struct error *err);
    /* Of this file. */
    struct image_wait wait;
    struct gate *gate;
    const struct identity *who;
    struct spec *spec;
    bool approved; /* it has to be the image that a person was shown */
    bool looking;  /* the keeper has been asked, and may fetch it */
};

/* Fills in the image of spec. 0: it names none, or the image is known by now. 1: the image has to
 * be looked up or fetched first, and on_done comes; who and spec must live until then. Negative:
 * there is no such image, or a rule denies it.
 *
 * approval_id is the grant that the caller comes with, or NULL. Such a caller means the image that
 * the grant was given for, even if its name has moved on. */
int image_find_start(struct image_find *f, struct images *images, struct gate *gate,
                     const struct identity *who, const char *approval_id, struct spec *spec,
                     struct error *err);
void image_find_cancel(struct image_find *f); /* legal at any time; on_done does not come */

/* Before anything is fetched: negative where a rule denies the image by its name alone. */
int image_check_name(struct gate *gate, const struct identity *who, const char *image,
                     struct error *err);
/* Puts on record that an image is to be fetched, imported or removed (what: "pulled" and so on).
 * Negative: it must not be done. */
int image_record_begun(struct gate *gate, const struct identity *who, const char *what,
                       const char *image, struct error *err);
/* And that its caller left before it was known what became of it. */
void image_note_left(struct gate *gate, const struct identity *who, const char *what,
                     const char *image);
/* Records and announces what was done with an image. digest and err may be NULL. */
void image_note(struct gate *gate, const struct identity *who, const char *outcome,
                const char *image, const char *digest, const struct error *err);
