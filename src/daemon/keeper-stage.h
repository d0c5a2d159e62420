/* SPDX-License-Identifier: Apache-2.0 */
/* The image keeper's process between execution and keeper_main(). */
#pragma once

#include <stdbool.h>

struct config;

/* Before the process becomes the warden, whose pid is its own: a sealed memory file with what a
 * keeper needs to know, or -errno. images_path: the directory of all images. */
int keeper_stage_seal(bool privileged, const struct config *c, const char *images_path);
/* Returns the exit status. */
int keeper_stage(void);
