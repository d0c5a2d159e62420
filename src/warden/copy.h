/* SPDX-License-Identifier: Apache-2.0 */
/* Bounded copies of small files from the host into the template root. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct copy_budget {
    uint64_t bytes;
    unsigned files;
    unsigned depth;
};
#define COPY_BUDGET_INIT                                                                           \
    {                                                                                              \
        .bytes = 16 * 1024 * 1024, .files = 8192, .depth = 8                                       \
    }

/* All of a file, from its start, into a new one. */
int copy_fd(int source_fd, int target_dirfd, const char *target, mode_t mode);
/* Copies name ("a/b", or "prefix*" in the directory itself) with all below it: world-readable
 * files, directories and symlinks as they are. What is absent, of another kind or over the budget
 * is left out. */
int copy_matching(int source_dirfd, int target_dirfd, const char *name, struct copy_budget *budget);
/* Calls each with the names in a directory that "prefix*" means, until one is not 0; with the
 * pattern itself, there or not, where it has no star. */
int copy_each(int dirfd, const char *pattern, int (*each)(void *data, const char *name),
              void *data);
