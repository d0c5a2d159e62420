/* SPDX-License-Identifier: Apache-2.0 */
/* See launcher.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "oci/launcher.h"

#define KNOWN_MAX 256

/* "SIZE TIME", which differ between two programs of the same name. */
static int describe_program(const char *path, char *ret, size_t size)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return -errno;
    snprintf(ret, size, "%lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
             st.st_mtim.tv_nsec);
    return 0;
}

/* Root's alone to write, or it says nothing. */
static int read_known(int run_fd, struct strbuf *ret)
{
    struct stat st;
    _cleanup_close_ int fd =
        openat(run_fd, OCI_PLATFORM_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != 0 ||
        st.st_mode & (S_IWGRP | S_IWOTH))
        return -ENOENT;
    return fd_read_file_at(run_fd, OCI_PLATFORM_FILE, ret);
}

unsigned platform_load(int run_fd, const char *program, const char *const *platforms)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(KNOWN_MAX);
    char described[64];
    if (run_fd < 0 || describe_program(program, described, sizeof(described)) < 0 ||
        read_known(run_fd, &text) < 0 || !text.len)
        return 0;
    for (unsigned i = 0; platforms[i]; i++) {
        _cleanup_free_ char *line = xasprintf("%s %s\n", described, platforms[i]);
        if (strcmp(line, text.data) == 0)
            return i + 1;
    }
    return 0;
}

/* Launchers are the first process of a pid namespace each, so their pids do not tell them apart. */
void platform_save(int run_fd, const char *program, const char *platform)
{
    char described[64], random[9], beside[64];
    if (run_fd < 0 || describe_program(program, described, sizeof(described)) < 0)
        return;
    _cleanup_free_ char *line = xasprintf("%s %s\n", described, platform);
    random_id(random, sizeof(random) - 1);
    snprintf(beside, sizeof(beside), OCI_PLATFORM_FILE ".%s", random);
    _cleanup_close_ int fd =
        openat(run_fd, beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : fd_write_all(fd, line, strlen(line));
    if (r == 0 && renameat(run_fd, beside, run_fd, OCI_PLATFORM_FILE) < 0)
        r = -errno;
    if (fd >= 0 && r < 0)
        unlinkat(run_fd, beside, 0);
}
