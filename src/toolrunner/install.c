/* SPDX-License-Identifier: Apache-2.0 */
#include "toolrunner/install.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "toolrunner/replace-file.h"

#define COPY_SIZE 65536

static int copy_program(int to, void *arg)
{
    int from = *(int *)arg;
    static char bytes[COPY_SIZE];
    for (;;) {
        ssize_t n = read(from, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = fd_write_all(to, bytes, (size_t)n);
        if (r < 0)
            return r;
    }
}

int install_runner(const char *dir)
{
    char path[PATH_MAX];
    _cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : 0;
    if (r == 0 &&
        (size_t)snprintf(path, sizeof(path), "%s/%s", dir, INSTALL_PROGRAM) >= sizeof(path))
        r = -ENAMETOOLONG;
    if (r == 0)
        r = replace_file(path, 0755, copy_program, &fd);
    if (r < 0)
        fprintf(stderr, "mas-toolrunner: cannot install into '%s': %s\n", dir, strerror(-r));
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
