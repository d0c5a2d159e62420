/* SPDX-License-Identifier: Apache-2.0 */
/* Prints an exec's events: its output as it is, or each event as a line of JSON. */
#pragma once

#include <stdbool.h>

struct sbx_event;

struct event_printer {
    bool raw;
    bool exited;
    int exit_code;   /* sbx's own, once exited */
    int write_errno; /* why printing stopped, or 0 */
};
/* An sbx_event_fn on a struct event_printer. */
int event_print(void *printer, const struct sbx_event *ev);
/* What sbx exits with when the stream ended without an error. */
int event_exit_code(const struct event_printer *p);
