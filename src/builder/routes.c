/* SPDX-License-Identifier: Apache-2.0 */
#include "builder/routes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"

#define ROUTES_TEXT_MAX 65536

/* One line names the columns. */
static bool has_route_4(const char *text)
{
    const char *names = strchr(text, '\n');
    return names && names[1];
}

static bool has_route_6(const char *text)
{
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
        if (end - line <= 3 || strncmp(end - 3, " lo", 3) != 0)
            return true;
    return false;
}

/* Local routes are not in these tables; those of IPv6 are, by the loopback. A table that was never
 * used is empty, one of a kernel without that protocol is not there. */
int routes_check_none(int proc_fd, const char *process)
{
    static const struct {
        const char *name;
        bool (*has_route)(const char *text);
    } tables[] = {{"route", has_route_4}, {"ipv6_route", has_route_6}};
    char path[64];
    snprintf(path, sizeof(path), "%s/net", process);
    _cleanup_close_ int dir = openat(proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    for (size_t i = 0; i < ELEMENTS(tables); i++) {
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(ROUTES_TEXT_MAX);
        int r = fd_read_file_at(dir, tables[i].name, &text);
        if (r < 0 && r != -ENOENT && r != -EFBIG)
            return r;
        if (r == -EFBIG || (text.data && tables[i].has_route(text.data)))
            return -EPERM;
    }
    return 0;
}
