/* The system call filter, compiled once at start from seccomp-table.c. */
#pragma once

#include <linux/filter.h>

struct error;

int seccomp_program_init(struct sock_fprog *p, struct error *err);
void seccomp_program_done(struct sock_fprog *p);
/* Applies it to the calling process, for good. no_new_privs must be set. 0 or -errno. */
int seccomp_program_apply(const struct sock_fprog *p);
