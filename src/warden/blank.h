/* Never-used sandboxes: a cloned child in all its namespaces, waiting for an order (child.h). */
#pragma once

#include <stdbool.h>

#include "warden/watch.h"

struct plan_reply;
struct cell;
struct warden;

/* A sandbox in CELL_BLANK, in no list; plain: one without walls, which waits for nothing. on_exit is called with it. NULL with reply's error and
 * message set (reply may be NULL: the failure is logged). */
struct cell *blank_new(struct warden *w, bool plain, watch_child_fn on_exit,
                       struct plan_reply *reply);
