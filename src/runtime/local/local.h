/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, Landlock, seccomp and cgroups, built by the warden from a plan. */
#pragma once

#include "runtime/runtime.h"

extern const struct runtime_ops runtime_local;
