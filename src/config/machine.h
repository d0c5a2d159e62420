/* SPDX-License-Identifier: Apache-2.0 */
/* The file that runtime_config names for the runtime microvm: JSON as the MAS library's documents
 * have it, with a few members of ours. Every member is in a table (machine.c), and one that is not
 * is refused. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/machine.h"

struct config_problems;

#define MACHINE_FILE_MAX (256 * 1024)

/* What of the file is a setting of the daemon's, and no part of the record. 0: not said. */
struct machine_sizes {
    uint32_t vcpu_count, mem_mib;
    uint32_t pool_size;
};

/* Without a file: the defaults, with what machine.sh has made in dir. */
void machine_config_init(struct machine_config *m, const char *dir);
/* Notes every problem, each with the member's path; ret is filled as far as it goes. */
void machine_config_parse(struct machine_config *ret, struct machine_sizes *ret_sizes,
                          const char *name, const char *text, size_t len,
                          struct config_problems *p);
/* What limits networks by address, as texts and back: the control plane reads no file. */
char **machine_cidrs_format(const struct machine_config *m);
void machine_cidrs_take(struct machine_config *m, char *const *texts);
void machine_config_load(struct machine_config *ret, struct machine_sizes *ret_sizes,
                         const char *path, struct config_problems *p);
