/* SPDX-License-Identifier: Apache-2.0 */
/* An approval on a terminal, for the person who decides about it. */
#pragma once

#include <jansson.h>

/* Everything that its digest covers, and what is shown beside that, to stdout: what is unusual
 * first, then member by member, nothing left out. All of it is written as printable() does. */
void approval_print(const json_t *approval);
