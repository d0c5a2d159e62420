/* SPDX-License-Identifier: Apache-2.0 */
/* The name server that is asked first, as resolv.conf has it.
 *
 * Only of a file that says nothing by which libc's resolver would ask in another way than by a
 * datagram to that server. The file is read again when it has changed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/address.h"

struct resolv_file {
    const char *path; /* NULL: /etc/resolv.conf */
    uint16_t port;    /* where its servers are; 0: 53 */
    struct stat seen;
    bool known;
    struct address server;
};

bool resolv_file_find(struct resolv_file *f, struct address *ret);
