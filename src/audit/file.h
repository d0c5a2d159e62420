/* SPDX-License-Identifier: Apache-2.0 */
/* The append-only files that records are written to before anything else happens to them.
 *
 * There are two, used in turn: while one is written to, the records of the other are being chained
 * into the database, and it is emptied when all of them are there for good. A line without its
 * newline is a write that never returned; what it was about did not run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

#define AUDIT_FILE_SWITCH_BYTES (4 * 1024 * 1024)

struct audit_file {
    int dir_fd;
    struct audit_part {
        int fd;
        uint64_t size;
        uint64_t last_seq;
    } parts[2];
    unsigned current;
    bool torn; /* a failed write left bytes that could not be taken back */
};

int audit_file_open(struct audit_file *f, const char *dir, struct error *err);
void audit_file_close(struct audit_file *f);
/* Calls fn for every line, oldest first, without newline; complete is false for a torn last one,
 * which is cut off afterwards. */
typedef int (*audit_line_fn)(void *data, const char *line, size_t len, bool complete,
                             struct error *err);
int audit_file_load(struct audit_file *f, audit_line_fn fn, void *data, struct error *err);
/* The same for files of another daemon, from which nothing is cut off. Files that are not there or
 * cannot be read are empty. */
void audit_file_read(const char *dir, audit_line_fn fn, void *data);
/* One write() of a whole line, newline included. Either all of it is in the file, or nothing. */
int audit_file_append(struct audit_file *f, const char *line, size_t len, uint64_t seq, bool sync,
                      struct error *err);
/* On a worker is fine: only descriptors are used. */
int audit_file_sync(const int fds[2]);
/* The part that could be emptied if everything up to seq were in the database for good; -1 if there
 * is none.
 */
int audit_file_spent(const struct audit_file *f, uint64_t seq);
void audit_file_empty(struct audit_file *f, int part);
