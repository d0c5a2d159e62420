/* SPDX-License-Identifier: Apache-2.0 */
/* A file under a name of its own, to be renamed to the one it is for: whatever stands there, a link
 * to elsewhere too, is replaced and never written through. */
#pragma once

#define TEMP_NAME_SIZE 32

/* Makes one below at, with mode 0600; its descriptor or -errno. The caller renames or removes it.
 */
int temp_create(int at, char ret_name[TEMP_NAME_SIZE]);
