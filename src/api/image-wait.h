/* Creates that name an image wait here until it is known what that is: before anything is decided,
 * because an image brings an environment and a directory to start in. */
#pragma once

struct api_request;
struct error;
struct image_found;
struct spec;

/* 0: the spec has no image, or one that was found. 1: it has to be found or fetched first; the
 * route's handler is called again with the same request then, or the request is answered with why
 * not. Negative: no such image. */
int api_need_image(struct api_request *req, struct spec *spec, struct error *err);
/* The same for others than requests: fills the spec from what was found. Negative: a rule denies
 * the image. */
struct api_options;
struct identity;
int image_apply(const struct api_options *o, const struct identity *who, struct spec *spec,
                const struct image_found *found, struct error *err);
/* Before anything is fetched: negative where a rule denies it by its name alone. */
int image_check_name(const struct api_options *o, const struct identity *who, const char *image,
                     struct error *err);
