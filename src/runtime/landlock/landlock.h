/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes without namespaces, for hosts that allow none: processes of the host's behind Landlock,
 * seccomp, user ids and what cgroups there are. */
#pragma once

#include "runtime/runtime.h"

extern const struct runtime_ops runtime_landlock;
