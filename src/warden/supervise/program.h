/* SPDX-License-Identifier: Apache-2.0 */
/* The installed mas-sandboxd, which control plane, gateway and image keeper are started from. It is
 * opened by name for each control plane, so that one that replaces it is used from then on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct startup;

struct program {
    int fd; /* O_PATH; -1: none */
    struct stat st;
};

#define PROGRAM_INIT                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }

/* first: the program as it was when the operator started it, or NULL the first time. Another one
 * must belong to root, to us or to the owner of the first, and give no user more right to change
 * it. -errno with a text in why. */
int program_open(const struct startup *s, const struct program *first, struct program *ret,
                 char *why, size_t size);
bool program_is_same(const struct program *a, const struct program *b);
