/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/resolv-file.h"

#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "gateway/hosts-file.h"

#define FILE_MAX (64 * 1024)
#define SPACE    " \t\r\f\v"

/* Options that say how long and how often is asked, or what is to be in a question that libc would
 * ask. "search", "domain" and "ndots" mean nothing here, as they mean nothing to libc's resolver in
 * this process, for which the root is the only search domain (LOCALDOMAIN in gateway.c): what a
 * rule allows is the name as it is given, and none that begins with it. */
static bool is_plain_option(const char *option)
{
    static const char *const plain[] = {"ndots:", "timeout:", "attempts:", "edns0", "trust-ad"};
    for (size_t i = 0; i < ELEMENTS(plain); i++)
        if (strncmp(option, plain[i], strlen(plain[i])) == 0)
            return true;
    return false;
}

/* False: the line is one by which another way is to be gone. As for libc, a line that begins with a
 * blank means nothing, and a comment is a line of its own. */
static bool read_line(struct resolv_file *f, char *line)
{
    char *save = NULL;
    if (strchr("#;" SPACE, line[0]))
        return true;
    const char *key = strtok_r(line, SPACE, &save);
    if (!key)
        return true;
    if (strcmp(key, "nameserver") == 0) {
        const char *server = strtok_r(NULL, SPACE, &save);
        bool first = !f->known;
        struct address a;
        if (!server || address_parse(server, &a) < 0)
            return false;
        if (first)
            f->server = a;
        f->known = true;
        return true;
    }
    if (strcmp(key, "options") == 0)
        for (const char *o; (o = strtok_r(NULL, SPACE, &save));)
            if (!is_plain_option(o))
                return false;
    return true;
}

static void resolv_file_read(struct resolv_file *f, const char *path)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(FILE_MAX);
    char *save = NULL;
    f->known = false;
    if (fd_read_file_at(AT_FDCWD, path, &text) < 0 || !text.data)
        return;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (!read_line(f, line)) {
            f->known = false;
            return;
        }
}

bool resolv_file_find(struct resolv_file *f, struct address *ret)
{
    const char *path = f->path ? f->path : "/etc/resolv.conf";
    if (hosts_file_has_changed(path, &f->seen))
        resolv_file_read(f, path);
    if (f->known)
        *ret = f->server;
    return f->known;
}
