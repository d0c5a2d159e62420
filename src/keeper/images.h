/* SPDX-License-Identifier: Apache-2.0 */
/* Images as the control plane knows them: what a name means, found once and remembered while
 * nothing changes it. All changes go through here, so what is remembered is true. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/list.h"
#include "keeper/keeper-client.h"

#define IMAGES_DIGEST_SIZE 65

struct error;
struct images;

struct image_found {
    char digest[IMAGES_DIGEST_SIZE];
    char **env;    /* of the image; the sandbox's own comes after it */
    char *workdir; /* or "" */
    char **names;  /* in full as asked for, then what else it is called */
    bool fetched;  /* for this very call */
};

struct images_options {
    uv_loop_t *loop;
    int sock; /* of the keeper; taken */
    uint64_t generation;
    const char *policy; /* never, missing, always: when a create fetches */
    /* Calls cb for every image that a sandbox has, any number of times each. */
    void (*for_each_used)(void *data, void (*cb)(void *arg, const char *digest), void *arg);
    void *data;
};

struct images *images_new(const struct images_options *o);
void images_close(struct images *im); /* everything that waits fails; NULL is fine */

/* A waiter for an image; embedded in its owner. */
struct image_wait {
    /* Once, later. found is valid during the call. */
    void (*on_found)(struct image_wait *w, const struct image_found *found,
                     const struct error *err);
    const char *policy; /* NULL means the operator's */
    struct images *images;
    struct keeper_call *call;
    char *image;
};

/* What is known without asking the keeper, or NULL. Valid until the loop turns. */
const struct image_found *images_peek(struct images *im, const char *image);
/* Finds it, or fetches it as the policy says. Negative with err set: on_found does not come. */
int images_resolve(struct images *im, const char *image, struct image_wait *w, struct error *err);
void image_wait_cancel(struct image_wait *w); /* also of one that does not wait */

/* An image that is about to go, until it is gone or stays after all: nothing is made of it
 * meanwhile. Embedded in its owner, with list_init(&r->node) at first. */
struct image_removal {
    struct list node;
    char digest[IMAGES_DIGEST_SIZE];
};
void image_removal_begin(struct images *im, struct image_removal *r, const char *digest);
void image_removal_end(struct image_removal *r); /* legal when it has not begun */

bool images_is_used(const struct images *im, const char *digest);
/* A call to the keeper, as keeper_call_start(). A caller that changes the store calls
 * images_forget() when that is done. */
struct keeper_call *images_call(struct images *im, json_t *request, int fd,
                                const struct keeper_handlers *handlers, void *data,
                                struct error *err);
/* What may be asked for at all: at most KEEPER_IMAGE_MAX bytes of text without control
 * bytes, naming the request's member. */
int image_text_check(const char *image, struct error *err);
/* Something in the store has changed. */
void images_forget(struct images *im);
