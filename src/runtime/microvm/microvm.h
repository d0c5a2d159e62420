/* SPDX-License-Identifier: Apache-2.0 */
/* A virtual machine a sandbox, within the walls of a local one. */
#pragma once

#include "runtime/runtime.h"

extern const struct runtime_ops runtime_microvm;
