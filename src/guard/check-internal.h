/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that have files of their own; check.c has the table. */
#pragma once

#include "guard/check.h"

void check_validate(const struct gate_call *call, struct findings *f);
