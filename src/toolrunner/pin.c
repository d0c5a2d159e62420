/* SPDX-License-Identifier: Apache-2.0 */
/* Programs and files that a person approved by their bytes. See pin_seal() for why a copy is
 * taken. */
#include "toolrunner/pin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digits.h"
#include "base/fd.h"

#define PIN_FD_MIN 200 /* out of the way of what programs open */
#define COPY_SIZE  16384
#define SEALS      (F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)

static const char *parse_digest(const char *p, uint8_t out[SHA256_SIZE])
{
    for (int i = 0; i < SHA256_SIZE; i++, p += 2) {
        int high = hex_value_lower(p[0]), low = high < 0 ? -1 : hex_value_lower(p[1]);
        if (low < 0)
            return NULL;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return p;
}

int pins_parse(const char *text, size_t argc, struct pin ret[PINS_MAX])
{
    int n = 0;
    for (const char *p = text; *p; n++) {
        size_t arg = 0, digits = strspn(p, "0123456789");
        if (n == PINS_MAX || digits == 0 || digits > 6 || p[digits] != ':')
            return -EINVAL;
        for (size_t i = 0; i < digits; i++)
            arg = arg * 10 + (size_t)(p[i] - '0');
        p = parse_digest(p + digits + 1, ret[n].digest);
        if (!p || arg >= argc || (*p && *p != ' '))
            return -EINVAL;
        ret[n].arg = arg;
        p += *p == ' ';
    }
    return n;
}

/* From fd into copy, with the digest of what was copied. */
static int copy_hashed(int fd, int copy, uint8_t digest[SHA256_SIZE])
{
    char chunk[COPY_SIZE];
    struct sha256 s;
    sha256_init(&s);
    for (size_t total = 0;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        total += (size_t)n;
        if (total > PIN_BYTES_MAX)
            return -EFBIG;
        sha256_update(&s, chunk, (size_t)n);
        if (write(copy, chunk, (size_t)n) != n)
            return -ENOSPC;
    }
    sha256_final(&s, digest);
    return 0;
}

/* Without printf(): this runs in a child that shares its memory with the runner until execve(). */
static void format_path(int fd, char out[PIN_PATH_SIZE])
{
    static const char prefix[] = "/proc/self/fd/";
    char digits[12];
    size_t n = 0;
    do
        digits[n++] = (char)('0' + fd % 10);
    while (fd /= 10);
    memcpy(out, prefix, sizeof(prefix) - 1);
    for (size_t i = 0; i < n; i++)
        out[sizeof(prefix) - 1 + i] = digits[n - 1 - i];
    out[sizeof(prefix) - 1 + n] = 0;
}

int pin_seal(const char *path, const struct pin *pin, char ret[PIN_PATH_SIZE])
{
    uint8_t digest[SHA256_SIZE];
    struct stat st;
    /* The file is the tool's and may change at any time, also while it is read. What was approved
     * is a digest, so the bytes are copied first and the copy is compared and sealed: what runs is
     * what was compared, whatever happens to the path meanwhile. */
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || (pin->arg == 0 && !(st.st_mode & 0111)))
        return -EACCES;
    _cleanup_close_ int copy = memfd_create("approved", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (copy < 0)
        return -errno;
    int r = copy_hashed(fd, copy, digest);
    if (r < 0)
        return r;
    if (memcmp(digest, pin->digest, sizeof(digest)) != 0)
        return -EBADMSG;
    if (fcntl(copy, F_ADD_SEALS, SEALS) < 0)
        return -errno;
    /* Read from its start, by the process that opens or inherits it; stays open across execve(). */
    int kept = lseek(copy, 0, SEEK_SET) < 0 ? -1 : fcntl(copy, F_DUPFD, PIN_FD_MIN);
    if (kept < 0)
        return -errno;
    format_path(kept, ret);
    return 0;
}
