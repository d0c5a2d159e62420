/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes share that the warden starts from mas-sandboxd: the control plane, the gateway
 * and the image keeper. The last two are configured by a list of strings in a sealed memory file.
 */
#pragma once

/* Appends a string, taken, to a NULL-terminated vector. */
void stage_append(char ***v, char *text);
/* The file of a list, or -errno. */
int stage_seal(const char *name, char *const *list);
/* In the process that was started: the list, for as long as it lives, or NULL. Closes fd. */
char **stage_take(int fd);
/* "text:info", "json:debug" */
char *stage_log_style(const char *format, const char *level);
void stage_use_log_style(const char *style);
/* The terminal's ^C goes to the whole group; the warden decides what it means to us. */
void stage_set_signals(void);
