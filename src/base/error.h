/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, in words a user understands, with a stable code.
 *
 * A struct error lives on the caller's stack. It is empty until error_set(); setting it twice keeps
 * the first. Every code maps to an HTTP status and a CLI exit code in one table (error.c). */
#pragma once

#include <stdbool.h>

enum error_code {
    ERROR_NONE = 0,
    ERROR_INVALID,      /* the request is malformed or a value is out of range */
    ERROR_UNAUTHORIZED, /* no or wrong credentials */
    ERROR_FORBIDDEN,    /* known caller, not allowed */
    ERROR_DENIED,       /* a policy said no */
    ERROR_PENDING,      /* a person has to decide first: ref is the approval's id */
    ERROR_NOT_FOUND,
    ERROR_METHOD,
    ERROR_CONFLICT, /* exists already, or not legal in this state */
    ERROR_TOO_LARGE,
    ERROR_UNSUPPORTED,   /* refused by name: this build or host does not do it */
    ERROR_UNENFORCEABLE, /* an asked-for limit or right cannot be enforced here */
    ERROR_TOOL_FAILED,
    ERROR_LIMIT,       /* over a quota or admission limit; may work later */
    ERROR_CRASH,       /* the sandbox died under the call */
    ERROR_BAD_GATEWAY, /* a server inside a sandbox is not there, or does not keep to HTTP */
    ERROR_TIMEOUT,
    ERROR_NO_SPACE,
    ERROR_UNAVAILABLE,
    ERROR_INTERNAL,
    _ERROR_CODE_MAX,
};

struct error {
    enum error_code code;
    int sys_errno;  /* 0 where no system call failed */
    char field[64]; /* the request member at fault, or "" */
    char ref[40];   /* the id of what the message is about, or "" */
    char message[512];
};

/* Fills err (may be NULL) and returns -errnum, or -EINVAL where errnum is 0. When errnum is not 0
 * its text is appended: "bind '/x': Permission denied". */
int error_set(struct error *err, enum error_code code, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* As error_set() with ERROR_INVALID, naming the request member at fault. */
int error_field(struct error *err, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* As error_field() with ERROR_UNSUPPORTED: what the member asks for is not there. */
int error_unsupported(struct error *err, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The member at fault is inside another one, "limits" or "mounts[2]": it and the message name the
 * whole path from there. Returns r, so that a failing call can be wrapped; nothing happens to r of
 * 0 and more. */
int error_within(struct error *err, int r, const char *parent, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the message. */
void error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

bool error_is_set(const struct error *err);
void error_clear(struct error *err);

/* What installing a system call filter answers when the host has no memory left for compiled BPF
 * programs: the kernel's ENOTSUPP, which the C library has no name for. */
#define ERRNO_NO_JIT_MEMORY 524

/* As strerror(), with words for ERRNO_NO_JIT_MEMORY. */
const char *error_errno_text(int errnum);

/* The code of a name, ERROR_INTERNAL for an unknown one. */
enum error_code error_code_find(const char *name);
const char *error_code_name(enum error_code code); /* "not_found" */
int error_code_http(enum error_code code);         /* 404 */
int error_code_exit(enum error_code code);         /* for sbx */
