/* SPDX-License-Identifier: Apache-2.0 */
/* System call filters: tables (filter-table.h) compiled to BPF, for sandboxes and for every process
 * of ours that reads what somebody else wrote. */
#pragma once

#include <linux/filter.h>

struct error;
struct syscall_table;

/* The table of sandboxes, as this kernel needs it. */
const struct syscall_table *filter_for_sandboxes(void);
int filter_compile(const struct syscall_table *t, struct sock_fprog *ret, struct error *err);
void filter_done(struct sock_fprog *p);
/* Applies it to the calling process, for good. no_new_privs must be set. 0 or -errno. */
int filter_install(const struct sock_fprog *p);
/* Compiles and applies. */
int filter_enter(const struct syscall_table *t, struct error *err);
