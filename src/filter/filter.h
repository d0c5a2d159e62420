/* SPDX-License-Identifier: Apache-2.0 */
/* System call filters: tables (filter-table.h) compiled to BPF, for sandboxes and for every process
 * of ours that reads what others wrote. */
#pragma once

#include <linux/filter.h>

struct error;
struct syscall_table;

/* The table of sandboxes, as this kernel needs it. */
const struct syscall_table *filter_for_sandboxes(void);
/* The same for a kernel that nothing is known about yet: its runner may have to add a filter. */
const struct syscall_table *filter_for_guests(void);
int filter_compile(const struct syscall_table *t, struct sock_fprog *ret, struct error *err);
/* The same in two programs, which only together are the table: a process under both may do what a
 * process under filter_compile()'s program may. The shared one, which is nearly all of it, leaves
 * out what a process calls on its way to be a sandbox (filter_building): it is put on once, by the
 * zygote, and every clone inherits it, where to install the whole would have the kernel translate
 * it again for each. The own one is about those calls only, and comes last. */
enum filter_part { FILTER_WHOLE, FILTER_SHARED, FILTER_OWN };
int filter_compile_part(const struct syscall_table *t, enum filter_part part,
                        struct sock_fprog *ret, struct error *err);
void filter_done(struct sock_fprog *p);
/* Applies it to the calling process, for good. no_new_privs must be set. 0 or -errno. */
int filter_install(const struct sock_fprog *p);
/* Compiles and applies. */
int filter_enter(const struct syscall_table *t, struct error *err);
