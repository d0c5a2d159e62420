/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded answers of a real API server: tests/data/kube, made by make.py there. */
#pragma once

#include <stddef.h>

#define EXCHANGES_MAX 200

struct exchange {
    char *name, *method, *target;
    char *head;  /* of an exec: the answer's head with CRLF, up to the empty line and with it */
    char *bytes; /* of an answer: all of it. Of an exec: the frames */
    size_t len;
};

struct exchanges {
    struct exchange all[EXCHANGES_MAX];
    size_t n;
};

/* The file answers.txt, watches.txt or execs.txt of dir; dies where it cannot be read. */
void exchanges_load(struct exchanges *ret, const char *dir, const char *file);
void exchanges_done(struct exchanges *e);
const struct exchange *exchange_find(const struct exchanges *e, const char *name);
/* The whole answer to an upgrade with that Sec-WebSocket-Key; the caller frees it. */
char *exchange_upgrade(const struct exchange *x, const char *key, size_t *ret_len);
/* The HTTP code of an answer, and where its body begins. */
int exchange_code(const struct exchange *x);
size_t exchange_body(const struct exchange *x);
/* The body without chunks; the caller frees it. */
char *exchange_decode(const struct exchange *x, size_t *ret_len);
