/* Blanks that have their order already.
 *
 * Most plans ask for the operator's defaults and nothing else. For them some blanks are armed: they
 * have the order that such a plan would give them, their limits included, and their runner waits
 * for a connection. An armed blank was never used either, and is given only to a plan that would
 * have made exactly it; any other plan takes a plain one. */
#pragma once

#include <stdbool.h>

#include "proto/plan.h"
#include "warden/state.h"

/* Finds out from the options what most plans ask for; once, before there are blanks. */
void armed_init(struct warden *w);
/* Whether this blank is to be armed, now that it is ready. */
bool armed_wants(const struct cell *s);
/* From warden.blanks to warden.armed: it has its order from now on. */
void armed_add(struct cell *s);
/* One that is what this plan asks for, or NULL. */
struct cell *armed_take(struct warden *w, const struct plan *p, const struct limits *limits);
/* Takes a blank out of the list that it is in, armed or plain. */
void armed_remove(struct cell *s);
