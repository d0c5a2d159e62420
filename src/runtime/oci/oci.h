/* SPDX-License-Identifier: Apache-2.0 */
/* OCI runtimes: crun, runc, runsc (gVisor) and kata, started by the warden from a plan. Each is a
 * runtime of its own; "oci" with "oci_runtime" names one of them too (registry.c). */
#pragma once

#include "runtime/runtime.h"

extern const struct runtime_ops runtime_crun, runtime_runc, runtime_gvisor, runtime_kata;
