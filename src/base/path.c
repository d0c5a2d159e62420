/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

bool path_is_clean(const char *path)
{
    if (path[0] != '/')
        return false;
    if (path[1] == 0)
        return true;
    for (const char *p = path; *p;) {
        const char *part = p + 1;
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        p = part + n;
    }
    return true;
}

int path_normalize(const char *path, char *out, size_t size)
{
    size_t len = 0;
    if (*path == '/')
        return -EPERM;
    while (*path) {
        size_t part = strcspn(path, "/");
        if (part == 2 && !strncmp(path, "..", 2))
            return -EPERM;
        if (part && !(part == 1 && *path == '.')) {
            if (part > NAME_MAX || len + part + 2 > size)
                return -ENAMETOOLONG;
            if (len)
                out[len++] = '/';
            memcpy(out + len, path, part);
            len += part;
        }
        path += part + (path[part] == '/');
    }
    out[len] = 0;
    return 0;
}

int path_check_length(const char *path)
{
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    for (const char *p = path; *p; p += *p == '/') {
        size_t part = strcspn(p, "/");
        if (part > NAME_MAX)
            return -ENAMETOOLONG;
        p += part;
    }
    return 0;
}

bool path_names_entry(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

const char *path_below(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    while (n > 0 && dir[n - 1] == '/')
        n--;
    if (strncmp(dir, path, n) != 0)
        return NULL;
    if (path[n] == 0)
        return path + n;
    return path[n] == '/' ? path + n + 1 : NULL;
}

char *path_default_socket(void)
{
    const char *dir = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
    return dir && *dir ? xasprintf("%s/mas-sandbox.sock", dir) : NULL;
}
