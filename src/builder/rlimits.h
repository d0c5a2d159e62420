/* SPDX-License-Identifier: Apache-2.0 */
/* The resource limits of a sandbox: every one that the kernel has, with a value of our own, so that
 * none is what the shell or service happened to have that started the daemon. All runtimes use the
 * same table: as calls in a child of the warden's, as JSON for OCI runtimes and engines. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

struct child_order;

struct rlimit_row {
    int resource;
    const char *name; /* as OCI has it, "RLIMIT_CORE"; engines have it in small letters, "core" */
    rlim_t soft, hard;
    enum { RLIMIT_FIXED, RLIMIT_BY_PLAN } by; /* by plan: see rlimits_value() */
};

extern const struct rlimit_row rlimit_rows[];
extern const size_t n_rlimit_rows;
#define RLIMIT_ROWS_MAX 16

/* In the warden, at its start: what is above the table is lowered and what is below is raised,
 * where we may, so that the warden's children can have what the table says. The limits that an
 * operator may mean for the daemon itself, on core dumps and open files, stay. */
void rlimits_settle(void);
/* In a child, or in a process that is cloned for many (zygote): all that is the same for every
 * sandbox. What is above the hard limit and cannot be raised becomes that limit. 0 or -errno. */
int rlimits_apply_fixed(void);
/* What a plan decides. */
int rlimits_apply_order(const struct child_order *o);
/* Of one that a plan decides: 0 when it does not. */
uint64_t rlimits_value(const struct rlimit_row *row, const struct child_order *o);
/* To value, or to what there is if that is less. */
int rlimits_lower(int resource, rlim_t value);
