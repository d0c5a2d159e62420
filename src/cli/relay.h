/* SPDX-License-Identifier: Apache-2.0 */
/* Joins this process's standard streams to a running exec over its attach WebSocket, until the
 * command ends. */
#pragma once

#include <stdbool.h>

struct sbx_client;
struct sbx_error;

struct relay_result {
    char status[24]; /* "completed", "timed_out", ... or "" */
    char error[256]; /* why it did not run or end by itself, or "" */
    bool has_exit_code;
    int exit_code;
};

/* terminal: the exec has a pty, and ours is switched to raw mode while it runs; changes of its size
 * are passed on. Otherwise SIGINT, SIGTERM and SIGHUP are passed on to the command, and the last of
 * SIGNALS_TO_QUIT gives up. */
int relay_exec(struct sbx_client *c, const char *id, const char *exec_id, bool terminal,
               struct relay_result *ret, struct sbx_error *err);
/* Our terminal's size; 24 x 80 when there is none. */
void relay_terminal_size(int *ret_rows, int *ret_cols);
