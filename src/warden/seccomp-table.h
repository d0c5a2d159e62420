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
    COMPARE_HIGH_EQUAL,   /* (argument >> 32) == value */
};

#define SYSCALL_PRETEND (-1) /* as an error: not carried out, answered with success */

struct syscall_arg {
    enum syscall_compare compare;
    unsigned index;
    uint64_t mask;
    uint64_t value;
};

#define SYSCALL_ARGS_MAX 3

/* A call's rules are tried in order; the first whose arguments all match decides: allowed, or
 * refused with error. When none matches the call is refused with EPERM, or allowed if all its rules
 * are refusals. Comparisons see the low 32 bits, as the kernel
 * does for these arguments; a pointer is compared in two halves. */
struct syscall_rule {
    const char *name;
    int error;
    struct syscall_arg args[SYSCALL_ARGS_MAX];
};

extern const char *const syscalls_allowed[]; /* whatever the arguments; NULL-terminated */
extern const struct syscall_rule syscall_rules[];
extern const size_t n_syscall_rules;
