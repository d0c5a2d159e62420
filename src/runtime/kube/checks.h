/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator of a cluster wants to know before the first pod: which rights are missing,
 * whether network policies count, which classes are allowed, how pods are reached. */
#pragma once

#include <stddef.h>

struct cluster_report;
struct proof_report;
struct runtime_report;

/* Adds to ret->checks what is known already. */
void kube_checks_fill(const struct cluster_report *cluster, const struct proof_report *proof,
                      struct runtime_report *ret);
/* Pods that were made ahead and do not start, where there are any. */
void kube_checks_add_waiting(struct runtime_report *ret, size_t n, const char *why);
