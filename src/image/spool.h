/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a docker-archive, laid out in the work directory: a tar has no way to the layer that
 * is wanted next, and no other process can change what was verified there. */
#pragma once

#include "image/meter.h"

struct spool;
struct strbuf;

/* Reads the archive (any compression) into a directory "spool" of the work directory. */
int spool_open(int tar_fd, int work_fd, struct meter *m, struct spool **ret, struct error *err);
/* Removes the directory, frees. NULL is fine. */
void spool_free(struct spool *s);
static inline void cleanup_spool(struct spool **s)
{
    spool_free(*s);
}
#define _cleanup_spool_ __attribute__((cleanup(cleanup_spool)))

/* A file by its name in the archive, links of the archive resolved. */
int spool_file(struct spool *s, const char *name, uint64_t *ret_size, struct error *err);
/* The same, read whole. */
int spool_read(struct spool *s, const char *name, struct strbuf *out, struct error *err);
