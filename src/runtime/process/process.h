/* SPDX-License-Identifier: Apache-2.0 */
/* No isolation at all: the runner as an ordinary process. Only when asked for by name, and only
 * where the operator named it too. */
#pragma once

#include "runtime/runtime.h"

extern const struct runtime_ops runtime_process;
