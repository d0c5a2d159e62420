/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What an error is called in answers, its HTTP status, and what sbx exits with. Exit codes from
 * 120 on are seldom a command's own; 124 is what timeout(1) exits with. */
static const struct {
    const char *name;
    int http;
    int exit;
} codes[] = {
    [ERROR_NONE] = {"none", 200, 0},
    [ERROR_INVALID] = {"invalid_request", 400, 2},
    [ERROR_UNAUTHORIZED] = {"unauthorized", 401, 122},
    [ERROR_FORBIDDEN] = {"forbidden", 403, 122},
    [ERROR_DENIED] = {"policy_denied", 403, 122},
    [ERROR_PENDING] = {"pending_approval", 202, 122},
    [ERROR_NOT_FOUND] = {"not_found", 404, 123},
    [ERROR_METHOD] = {"method_not_allowed", 405, 2},
    [ERROR_CONFLICT] = {"conflict", 409, 123},
    [ERROR_TOO_LARGE] = {"too_large", 413, 2},
    [ERROR_UNSUPPORTED] = {"unsupported", 400, 2},
    [ERROR_UNENFORCEABLE] = {"unenforceable", 422, 123},
    [ERROR_TOOL_FAILED] = {"tool_failed", 422, 1},
    [ERROR_LIMIT] = {"limit_exceeded", 429, 121},
    [ERROR_CRASH] = {"sandbox_crash", 502, 120},
    [ERROR_BAD_GATEWAY] = {"bad_gateway", 502, 120},
    [ERROR_TIMEOUT] = {"timeout", 504, 124},
    [ERROR_NO_SPACE] = {"no_space", 507, 121},
    [ERROR_UNAVAILABLE] = {"unavailable", 503, 121},
    [ERROR_INTERNAL] = {"internal", 500, 125},
};
static_assert(sizeof(codes) / sizeof(codes[0]) == _ERROR_CODE_MAX, "a row per error code");

const char *error_errno_text(int errnum)
{
    if (errnum == ERRNO_NO_JIT_MEMORY)
        return "the host's memory for compiled BPF programs is used up (net.core.bpf_jit_limit)";
    return strerror(errnum);
}

/* The first error stays: what fails afterwards mostly follows from it. */
static void fill_error(struct error *err, enum error_code code, int errnum, const char *field,
                       const char *fmt, va_list ap)
{
    if (!err || err->code != ERROR_NONE)
        return;
    err->code = code;
    err->sys_errno = errnum;
    snprintf(err->field, sizeof(err->field), "%s", field);
    int n = vsnprintf(err->message, sizeof(err->message), fmt, ap);
    if (errnum && n >= 0 && (size_t)n < sizeof(err->message))
        snprintf(err->message + n, sizeof(err->message) - (size_t)n, ": %s",
                 error_errno_text(errnum));
}

int error_set(struct error *err, enum error_code code, int errnum, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill_error(err, code, errnum, "", fmt, ap);
    va_end(ap);
    return errnum ? -errnum : -EINVAL;
}

int error_field(struct error *err, const char *field, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill_error(err, ERROR_INVALID, 0, field, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

int error_unsupported(struct error *err, const char *field, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fill_error(err, ERROR_UNSUPPORTED, 0, field, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

/* Messages that begin with the member in quotes get its whole path there, too. A path that is too
 * long is left as it was, because a part of it would name another member. */
int error_within(struct error *err, int r, const char *parent, ...)
{
    if (r >= 0 || !err || !*err->field)
        return r;
    struct error old = *err;
    char inside[sizeof(err->field)];
    size_t n = strlen(old.field);
    va_list ap;
    va_start(ap, parent);
    vsnprintf(inside, sizeof(inside), parent, ap);
    va_end(ap);
    int len = snprintf(err->field, sizeof(err->field), "%s.%s", inside, old.field);
    if (len < 0 || (size_t)len >= sizeof(err->field))
        *err = old; /* too long for a message */
    else if (old.message[0] == '\'' && strncmp(old.message + 1, old.field, n) == 0 &&
             old.message[n + 1] == '\'')
        snprintf(err->message, sizeof(err->message), "'%s%s", err->field, old.message + n + 1);
    return r;
}

void error_prefix(struct error *err, const char *fmt, ...)
{
    if (!err || err->code == ERROR_NONE)
        return;
    char old[sizeof(err->message)];
    memcpy(old, err->message, sizeof(old));
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->message, sizeof(err->message), fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof(err->message))
        snprintf(err->message + n, sizeof(err->message) - (size_t)n, ": %s", old);
}

bool error_is_set(const struct error *err)
{
    return err && err->code != ERROR_NONE;
}

void error_clear(struct error *err)
{
    if (err)
        *err = (struct error){0};
}

enum error_code error_code_find(const char *name)
{
    for (int i = 0; i < _ERROR_CODE_MAX; i++)
        if (strcmp(codes[i].name, name) == 0)
            return (enum error_code)i;
    return ERROR_INTERNAL;
}

const char *error_code_name(enum error_code code)
{
    return code < _ERROR_CODE_MAX ? codes[code].name : "internal";
}

int error_code_http(enum error_code code)
{
    return code < _ERROR_CODE_MAX ? codes[code].http : 500;
}

int error_code_exit(enum error_code code)
{
    return code < _ERROR_CODE_MAX ? codes[code].exit : 125;
}
