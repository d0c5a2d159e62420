/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile guest's messages about a directory of the host: whatever they say, what lies beside the
 * directory stays as it was, and no file becomes one that changes its user. */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "vmm/share.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX 65536 /* what a socket takes at once */

static void expect(bool good)
{
    if (!good)
        abort();
}

static void make_file(int dir, const char *path, const char *text)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    expect(fd >= 0 && fd_write_all(fd, text, strlen(text)) == 0);
    close(fd);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)kind;
    (void)at;
    expect(S_ISLNK(st->st_mode) || !(st->st_mode & (S_ISUID | S_ISGID)));
    return remove(path);
}

/* Directories that the guest may have closed to everyone are opened again first. */
static int open_up(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)kind;
    (void)at;
    if (S_ISDIR(st->st_mode))
        chmod(path, (st->st_mode & 07000) | 0700);
    return 0;
}

static void check_outside(int place)
{
    char text[16] = "";
    struct stat st;
    int fd = openat(place, "outside/secret", O_RDONLY | O_CLOEXEC), n = 0;
    expect(fd >= 0 && read(fd, text, sizeof(text)) == 6 && memcmp(text, "secret", 6) == 0);
    expect(fstat(fd, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 07777) == 0644);
    close(fd);
    DIR *dir = fdopendir(openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    expect(dir);
    while (readdir(dir))
        n++;
    expect(n == 4); /* the two directories, and what every one has */
    closedir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/fuzz-share.XXXXXX";
    int pair[2];
    if (size > INPUT_MAX)
        return 0;
    umask(0);
    expect(mkdtemp(path) && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    int place = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    expect(mkdirat(place, "shared", 0755) == 0 && mkdirat(place, "outside", 0755) == 0);
    make_file(place, "shared/file", "file");
    make_file(place, "outside/secret", "secret");
    expect(symlinkat("../outside", place, "shared/link") == 0);
    int dir = openat(place, "shared", O_PATH | O_DIRECTORY | O_CLOEXEC);
    expect(fd_write_all(pair[0], data, size) == 0 && shutdown(pair[0], SHUT_WR) == 0);
    fd_set_nonblock(pair[1], true); /* an answer for which there is no room is the end */
    share_serve(dir, pair[1]);
    check_outside(place);
    close(dir);
    close(place);
    close(pair[0]);
    close(pair[1]);
    nftw(path, open_up, 8, FTW_PHYS);
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return 0;
}
