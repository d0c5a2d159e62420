/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/mountinfo: what is mounted in a container, in the kernel's words. */
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "engine/engine.h"

static bool is_octal(const char *p)
{
    return p[0] >= '0' && p[0] <= '3' && p[1] >= '0' && p[1] <= '7' && p[2] >= '0' && p[2] <= '7';
}

/* The end of the field if it is this path; blanks and the like are written as octal. */
static const char *skip_path(const char *p, const char *path)
{
    for (; *path; path++) {
        char c = *p++;
        if (c == '\\' && is_octal(p)) {
            c = (char)((p[0] - '0') * 64 + (p[1] - '0') * 8 + (p[2] - '0'));
            p += 3;
        }
        if (c != *path)
            return NULL;
    }
    return *p == ' ' ? p + 1 : NULL;
}

/* Fields: id, parent, major:minor, root, target, options. */
bool mountinfo_has(const char *text, const char *target, dev_t dev, const char *option)
{
    bool found = false;
    for (const char *line = text; line && *line;) {
        unsigned major, minor;
        int at = 0;
        if (sscanf(line, "%*d %*d %u:%u %*s %n", &major, &minor, &at) == 2 && at) {
            const char *options = skip_path(line + at, target);
            if (options) /* the last one is on top */
                found = (!dev || makedev(major, minor) == dev) &&
                        (!option || strncmp(options, option, strlen(option)) == 0);
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return found;
}
