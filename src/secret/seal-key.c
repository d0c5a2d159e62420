/* SPDX-License-Identifier: Apache-2.0 */
#include "secret/seal-key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#define KEY_FILE  "secret.key"
#define TEMPORARY ".secret.key"

/* The file appears whole or not at all, and is on disk before anything is sealed for it: what is
 * sealed for a key that is lost can never be opened. */
static int write_key(int dir, const uint8_t key[SEAL_KEY_SIZE])
{
    unlinkat(dir, TEMPORARY, 0);
    _cleanup_close_ int fd =
        openat(dir, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int r = fd_write_all(fd, key, SEAL_KEY_SIZE);
    if (r < 0)
        return r;
    if (fsync(fd) < 0 || renameat(dir, TEMPORARY, dir, KEY_FILE) < 0 || fsync(dir) < 0)
        return -errno;
    return 0;
}

static int make_key(int dir, uint8_t ret[SEAL_KEY_SIZE], struct error *err)
{
    int r = getrandom(ret, SEAL_KEY_SIZE, 0) == SEAL_KEY_SIZE ? write_key(dir, ret) : -EIO;
    return r < 0 ? error_set(err, ERROR_UNAVAILABLE, -r, "make warden/" KEY_FILE) : 0;
}

/* A key that others can read may be known to them, so it is refused and not mended: what was sealed
 * for it has to be sealed anew. One byte more than a key is read, to notice a file that is longer.
 */
int seal_key_open(const char *dir, uint8_t ret[SEAL_KEY_SIZE], struct error *err)
{
    struct stat st;
    uint8_t key[SEAL_KEY_SIZE + 1];
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_set(err, ERROR_UNAVAILABLE, errno, "make the warden's directory");
    _cleanup_close_ int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open the warden's directory");
    _cleanup_close_ int fd = openat(dir_fd, KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return make_key(dir_fd, ret, err);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open warden/" KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_mode & 077)
        return error_set(err, ERROR_INVALID, 0, "warden/" KEY_FILE " can be read by others");
    if (read(fd, key, sizeof(key)) != SEAL_KEY_SIZE)
        return error_set(err, ERROR_INVALID, 0, "warden/" KEY_FILE " is not a key");
    for (size_t i = 0; i < SEAL_KEY_SIZE; i++)
        ret[i] = key[i];
    explicit_bzero(key, sizeof(key));
    return 0;
}
