/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the host, or of a directory that stands for it. Every path is absolute and resolved with
 * that directory as its root, also where links inside lead elsewhere: setting up a directory never
 * touches a file outside of it. All functions return 0 or -errno. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct strbuf;

struct setup_root {
    int fd;
    bool is_host; /* programs are run only there */
};

int setup_root_open(const char *dir, struct setup_root *ret); /* NULL means the host */
void setup_root_close(struct setup_root *root);
#define _cleanup_setup_root_ __attribute__((cleanup(setup_root_close)))

bool setup_root_has(const struct setup_root *root, const char *path);
/* Appends the file to b. */
int setup_root_read(const struct setup_root *root, const char *path, struct strbuf *b);
/* Replaces the file in one step. It keeps the owner and mode it had; a new one gets mode. What is
 * there and is no regular file is left alone: -ELOOP. */
int setup_root_write(const struct setup_root *root, const char *path, const char *text,
                     mode_t mode);
int setup_root_remove(const struct setup_root *root, const char *path);
int setup_root_make_dir(const struct setup_root *root, const char *path);
int setup_root_remove_dir(const struct setup_root *root, const char *path);
