/* SPDX-License-Identifier: Apache-2.0 */
/* Named steps between validation and the policy, each of which may find something. What they find
 * feeds the policy (rules match on findings) and is shown to the approver; none of them decides
 * by itself. The order is that of the table and is written into the audit with every decision. */
#pragma once

#include <stddef.h>

#include "policy/finding.h"

struct gate_call;

struct check {
    const char *name;
    /* Appends to f; has no effect beyond it and no unbounded cost. */
    void (*run)(const struct gate_call *call, struct findings *f);
};

extern const struct check checks[];
extern const size_t n_checks;

/* Runs all of them in order. */
void checks_run(const struct gate_call *call, struct findings *ret);
