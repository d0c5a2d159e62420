/* SPDX-License-Identifier: Apache-2.0 */
/* Directories with all that is in them. */
#pragma once

/* Removes a file, or a directory of at most 32 levels; links are not followed. What cannot be
 * removed is logged. */
void tree_remove_at(int parent, const char *name);
