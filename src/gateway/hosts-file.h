/* SPDX-License-Identifier: Apache-2.0 */
/* Names of the hosts file that can be answered without libc's resolver, which may wait and so needs
 * a thread.
 *
 * Only what the resolver would answer with the very same: a name with one IPv4 address on one line,
 * where nsswitch.conf has the file before everything else. The files are read again when they have
 * changed. Everything else is the resolver's. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct address;
struct map;

struct hosts_file {
    const char *path, *switch_path; /* NULL: /etc/hosts and /etc/nsswitch.conf */
    struct stat seen, switch_seen;
    bool then_servers;         /* what is not in the file is asked of name servers, and no other */
    struct map *names;         /* to addresses; NULL: there is nothing to be found */
    struct address *addresses; /* one for each line */
};

/* name: lower case, without a dot at its end. */
bool hosts_file_find(struct hosts_file *h, const char *name, struct address *ret);
/* After hosts_file_find(): the file has no line with that name, and a name server has the last
 * word. */
bool hosts_file_leaves_to_servers(const struct hosts_file *h, const char *name);
/* Whether a file is another than at the last look, of which *seen is kept. One that is not there
 * differs from one that is. */
bool hosts_file_has_changed(const char *path, struct stat *seen);
void hosts_file_done(struct hosts_file *h);
