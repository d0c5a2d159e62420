/* SPDX-License-Identifier: Apache-2.0 */
/* Input, output and failures of builtins. */
#include "toolrunner/builtin-io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"

#define READ_SIZE   65536
#define REASON_ROOM 96
#define MESSAGE_MAX 512 /* with every byte escaped, less than a reader of failures takes */

static const struct {
    int errnum;
    const char *code;
} codes[] = {
    {ENOENT, "not_found"},       {ENOTDIR, "not_found"},
    {EACCES, "forbidden"},       {EPERM, "forbidden"},
    {EROFS, "forbidden"},        {EEXIST, "conflict"},
    {ENOTEMPTY, "conflict"},     {EISDIR, "conflict"},
    {EBUSY, "conflict"},         {ETXTBSY, "conflict"},
    {EFBIG, "too_large"},        {ENAMETOOLONG, "invalid_request"},
    {ENOSPC, "no_space"},        {EDQUOT, "no_space"},
    {EINVAL, "invalid_request"}, {ELOOP, "forbidden"},
    {EXDEV, "forbidden"},        {ENXIO, "invalid_request"},
    {ENODEV, "invalid_request"}, {EOPNOTSUPP, "invalid_request"},
    {ESPIPE, "invalid_request"}, {EMLINK, "conflict"},
    {ENOMEM, "limit_exceeded"},  {EMFILE, "limit_exceeded"},
    {ENFILE, "limit_exceeded"},  {EAGAIN, "limit_exceeded"},
};

int builtin_read_input(struct strbuf *b)
{
    for (;;) {
        int r = strbuf_reserve(b, READ_SIZE);
        if (r < 0)
            return r;
        ssize_t n = read(0, b->data + b->len, READ_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        strbuf_commit(b, (size_t)n);
    }
}

static int print_to(int fd, const json_t *value)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(2 * (size_t)BUILTIN_INPUT_MAX);
    if (json_format(value, &out) < 0 || strbuf_puts(&out, "\n") < 0)
        return 1;
    return fd_write_all(fd, out.data, out.len) < 0;
}

int builtin_print(const json_t *value)
{
    return print_to(1, value);
}

int builtin_tool_failure(const char *code, const char *message, const json_t *result)
{
    bool lossy;
    _cleanup_json_ json_t *text = json_string_from_bytes(message, strlen(message), &lossy);
    _cleanup_json_ json_t *o = json_pack("{s:O, s:s}", "error", text, "code", code);
    if (result)
        json_object_set(o, "result", (json_t *)result);
    print_to(1, o);
    return 1;
}

static int failure_print(const char *code, const char *message)
{
    bool lossy;
    _cleanup_json_ json_t *text = json_string_from_bytes(message, strlen(message), &lossy);
    _cleanup_json_ json_t *o = json_pack("{s:s, s:O}", "code", code, "message", text);
    print_to(2, o);
    return 1;
}

int builtin_failure_code(const char *code, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    return failure_print(code, message);
}

int builtin_failure(int errnum, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(message, sizeof(message) - REASON_ROOM, fmt, ap);
    va_end(ap);
    size_t shown = n < 0 ? 0 : (size_t)n;
    if (shown >= sizeof(message) - REASON_ROOM) /* the reason is said, whatever the path's length */
        shown = sizeof(message) - REASON_ROOM - 1;
    bool cut = n > 0 && shown < (size_t)n;
    snprintf(message + shown, sizeof(message) - shown, "%s: %s", cut ? "..." : "",
             strerror(errnum));
    const char *code = "internal";
    for (size_t i = 0; i < ELEMENTS(codes); i++) {
        if (codes[i].errnum == errnum)
            code = codes[i].code;
    }
    return failure_print(code, message);
}

int builtin_open_regular(const char *path, struct stat *ret)
{
    struct stat st;
    /* Without waiting: the open of a fifo that a program left there would never return, and that of
     * a terminal would make it ours. */
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        builtin_failure(errno, "%s", path);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode))
            builtin_failure(EISDIR, "%s", path);
        else
            builtin_failure_code("invalid_request", "%s: not a regular file", path);
        return -1;
    }
    if (ret)
        *ret = st;
    return fd_steal(&fd);
}
