/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs by their digest: nothing of one is used before its size and hash are what was said. */
#pragma once

#include <jansson.h>

#include "image/meter.h"

struct strbuf;

/* An index, manifest or configuration. A parsed one takes up to a hundred times its size: the
 * smallest values are two bytes. */
#define BLOB_JSON_MAX (1u << 20)

/* Where they are: a file each, named by the digest behind the prefix ("blobs/sha256/", ""). */
struct blobs {
    int dir_fd;
    const char *prefix;
};

struct descriptor {
    char digest[IMAGE_DIGEST_SIZE];
    uint64_t size;
    const char *media_type; /* borrowed from the JSON; "" where there is none */
};

/* `what` is the word for it in messages. */
int descriptor_parse(const json_t *obj, const char *what, struct descriptor *ret,
                     struct error *err);
/* A regular file of the right size; its content is not looked at. */
int blob_open(const struct blobs *b, const struct descriptor *d, struct error *err);
/* Hashes a file of that size from its start to its end; leaves the offset at the start. `what` is
 * the word for it in messages. */
int blob_hash(int fd, const char *what, uint64_t size, struct meter *m, char ret[IMAGE_DIGEST_SIZE],
              struct error *err);
/* Reads from the start to the end and compares size and hash; leaves the offset at the start. */
int blob_verify(int fd, const char *digest, uint64_t size, struct meter *m, struct error *err);
/* A small JSON blob, verified. A new reference, or NULL. */
json_t *blob_read_json(const struct blobs *b, const struct descriptor *d, struct error *err);
/* A small file below a directory, no links on the way. */
int blob_read_file(int dir_fd, const char *path, struct strbuf *out, struct error *err);
