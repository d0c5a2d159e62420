/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of their own for pods, by RuntimeClasses of the cluster: which class a runtime of the
 * kube family asks for, and what a pod of that class has to find inside. */
#pragma once

#include <stdint.h>

struct cluster_report;
struct error;

struct pod_class {
    const char *runtime;                                /* "kube-gvisor" */
    const char *name;                                   /* of the RuntimeClass */
    uint32_t kernel;                                    /* enum walls_kernel */
    const char *const *shares, *const *shares_streamed; /* struct effective */
};

/* NULL: pods of this runtime have the cluster's own class. */
const struct pod_class *pod_class_find(const char *runtime);
/* Whether its class can be asked for, as far as the broker has said. */
int pod_class_check(const char *runtime, const struct cluster_report *r, struct error *err);
