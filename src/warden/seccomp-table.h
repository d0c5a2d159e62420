/* The system calls a sandbox may make, as data: compiled to BPF by seccomp.c, and meant to be
 * written into an OCI config's seccomp section under the same names. What is not in the table
 * answers EPERM; a name this libseccomp does not know for an architecture is skipped. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum syscall_compare {
    COMPARE_NONE,
    COMPARE_EQUAL,        /* argument == value */
    COMPARE_MASKED_EQUAL, /* (argument & mask) == value */
};

struct syscall_arg {
    enum syscall_compare compare;
    unsigned index;
    uint64_t mask;
    uint64_t value;
};

#define SYSCALL_ARGS_MAX 3

/* Allowed when all args match; error != 0: refused with that errno instead of allowed. A call with
 * several rules is allowed when one of them matches. */
struct syscall_rule {
    const char *name;
    int error;
    struct syscall_arg args[SYSCALL_ARGS_MAX];
};

extern const char *const syscalls_allowed[]; /* whatever the arguments; NULL-terminated */
extern const struct syscall_rule syscall_rules[];
extern const size_t n_syscall_rules;
