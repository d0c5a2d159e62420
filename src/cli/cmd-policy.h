/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of sbx policy. */
#pragma once

struct args;

/* Prints a policy made of the Claude Code settings file; says on stderr what it could not
 * translate. Returns the exit code. */
int policy_import(const struct args *a);
