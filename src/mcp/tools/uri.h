/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of resources: sandbox://SANDBOX/file/PATH and sandbox://SANDBOX/exec/ID/STREAM. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct exec;

#define URI_PREFIX "sandbox://"

struct uri {
    char *sandbox;
    char *path;     /* of a file, absolute; NULL for a log */
    char *exec_id;  /* of a log; NULL for a file */
    uint8_t stream; /* of a log: enum output_stream */
};

/* 0 with ret filled (uri_done() frees it), or -EINVAL. Percent-encoding is undone. */
int uri_parse(const char *text, struct uri *ret);
void uri_done(struct uri *u);
/* Heap. */
char *uri_format_log(const struct exec *e, uint8_t stream);
