/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/hosts-file.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/strbuf.h"

#define FILE_MAX (1024 * 1024) /* a larger one is left to the resolver */
#define SPACE    " \t\r\f\v"

/* Of a name that is on several lines, or has an address of another kind. */
static struct address resolvers;

static void add_name(struct hosts_file *h, char *name, struct address *a)
{
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    map_put(h->names, name, map_find(h->names, name) ? &resolvers : a);
}

static void read_line(struct hosts_file *h, char *line, struct address *a)
{
    char *save = NULL;
    line[strcspn(line, "#")] = 0;
    const char *place = strtok_r(line, SPACE, &save);
    if (!place)
        return;
    /* Of IPv6 addresses, the resolver answers with more than is in the file for some. */
    bool plain = !strchr(place, ':') && address_parse(place, a) == 0;
    for (char *name; (name = strtok_r(NULL, SPACE, &save));)
        add_name(h, name, plain ? a : &resolvers);
}

/* The sources of host names in nsswitch.conf: is the file asked first, and an answer of it the last
 * word, and are name servers asked after it and nothing else? */
static bool read_sources(const char *path, bool *ret_then_servers)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(FILE_MAX);
    *ret_then_servers = false;
    if (fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return false;
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        line += strspn(line, SPACE);
        if (strncmp(line, "hosts:", 6) != 0)
            continue;
        char *rest = line + 6;
        rest[strcspn(rest, "#")] = 0;
        const char *first = strtok_r(rest, SPACE, &save);
        const char *second = first ? strtok_r(NULL, SPACE, &save) : NULL;
        const char *third = second ? strtok_r(NULL, SPACE, &save) : NULL;
        *ret_then_servers = second && strcmp(second, "dns") == 0 && !third;
        return first && strcmp(first, "files") == 0 && !(second && second[0] == '[');
    }
    return false;
}

void hosts_file_done(struct hosts_file *h)
{
    map_free(steal_ptr(h->names));
    free(steal_ptr(h->addresses));
}

static void hosts_file_read(struct hosts_file *h, const char *path, const char *switch_path)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(FILE_MAX);
    size_t n = 1;
    hosts_file_done(h);
    if (!read_sources(switch_path, &h->then_servers) ||
        fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return;
    for (const char *c = text.data; *c; c++)
        n += *c == '\n';
    h->names = map_new();
    h->addresses = xcalloc(n, sizeof(*h->addresses));
    char *save = NULL;
    n = 0;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        read_line(h, line, &h->addresses[n++]);
}

bool hosts_file_has_changed(const char *path, struct stat *seen)
{
    struct stat now;
    if (stat(path, &now) < 0)
        memset(&now, 0, sizeof(now));
    bool same = now.st_ino == seen->st_ino && now.st_dev == seen->st_dev &&
                now.st_size == seen->st_size && now.st_mtim.tv_sec == seen->st_mtim.tv_sec &&
                now.st_mtim.tv_nsec == seen->st_mtim.tv_nsec &&
                now.st_ctim.tv_sec == seen->st_ctim.tv_sec &&
                now.st_ctim.tv_nsec == seen->st_ctim.tv_nsec;
    *seen = now;
    return !same;
}

bool hosts_file_find(struct hosts_file *h, const char *name, struct address *ret)
{
    const char *path = h->path ? h->path : "/etc/hosts";
    const char *switch_path = h->switch_path ? h->switch_path : "/etc/nsswitch.conf";
    bool changed = hosts_file_has_changed(path, &h->seen);
    if (hosts_file_has_changed(switch_path, &h->switch_seen) || changed)
        hosts_file_read(h, path, switch_path);
    const struct address *found = h->names ? map_find(h->names, name) : NULL;
    if (!found || found == &resolvers)
        return false;
    *ret = *found;
    return true;
}

bool hosts_file_leaves_to_servers(const struct hosts_file *h, const char *name)
{
    return h->then_servers && h->names && !map_find(h->names, name);
}
