/* The system call filter, compiled once at start from seccomp-table.c. */
#pragma once

#include <linux/filter.h>

struct error;

/* Two programs: what is allowed, and, on top, argument values that are refused all the same. A
 * filter with "refuse by default" cannot express the second without comparing all 64 bits of an
 * argument of which the kernel only looks at 32. */
struct seccomp_programs {
    struct sock_fprog allow, refuse; /* the filters are allocated */
};

int seccomp_programs_init(struct seccomp_programs *p, struct error *err);
void seccomp_programs_done(struct seccomp_programs *p);
/* Applies them to the calling process, for good. no_new_privs must be set. 0 or -errno. */
int seccomp_programs_apply(const struct seccomp_programs *p);
