/* SPDX-License-Identifier: Apache-2.0 */
#include "builder/cgroup-mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/strbuf.h"

#define MOUNTINFO_MAX (1024 * 1024)

/* mountinfo: id parent major:minor root mountpoint options [tags...] - fstype source super */
static int parse_mount_line(char *line, char **ret_point, char **ret_type, char **ret_super)
{
    char *dash = strstr(line, " - ");
    if (!dash)
        return -EINVAL;
    *dash = 0;
    char *save = NULL, *point = NULL;
    char *field = strtok_r(line, " ", &save);
    for (int i = 0; field && i < 4; i++)
        point = field = strtok_r(NULL, " ", &save);
    char *type = strtok_r(dash + 3, " ", &save);
    char *source = strtok_r(NULL, " ", &save);
    char *super = strtok_r(NULL, " ", &save);
    if (!point || !type || !source || !super)
        return -EINVAL;
    *ret_point = point;
    *ret_type = type;
    *ret_super = super;
    return 0;
}

int cgroup_each_mount(int (*fn)(const char *fstype, const char *mountpoint, const char *super,
                                void *data),
                      void *data)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MOUNTINFO_MAX);
    int r = fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", &text);
    if (r < 0)
        return r;
    char *save = NULL;
    for (char *line = strtok_r(text.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *point, *type, *super;
        if (parse_mount_line(line, &point, &type, &super) < 0 || strncmp(type, "cgroup", 6) != 0)
            continue;
        r = fn(type, point, super, data);
        if (r < 0)
            return r;
    }
    return 0;
}
