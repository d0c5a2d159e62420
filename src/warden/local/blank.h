/* Never-used sandboxes: a cloned child in all its namespaces, waiting for an order (child.h). */
#pragma once

#include "warden/state.h"
#include "warden/watch.h"

/* A sandbox in CELL_BLANK, in no list; one of CELL_PLAIN waits for nothing. on_exit is called with
 * it. NULL with reply's error and message set (reply may be NULL: the failure is logged). */
struct cell *blank_new(struct warden *w, enum cell_kind kind, watch_child_fn on_exit,
                       struct plan_reply *reply);
