/* What the files of cells share: cell.c (what is asked of one), cell-refill.c (blanks),
 * cell-start.c (a plan becomes a running sandbox) and cell-end.c. */
#pragma once

#include "warden/cell.h"
#include "warden/state.h"

/* cell-refill.c: a blank for a plan, one made ahead where there is one. NULL with reply set. */
struct cell *cell_take_blank(struct warden *w, enum cell_kind kind, struct plan_reply *reply);
/* One could not be made: the next is tried later. */
void cell_refill_failed(struct warden *w, enum cell_kind kind, int error, const char *why);
/* A blank came to be: so the host has namespaces. */
void cell_trust_namespaces(struct warden *w);
/* What the child reported of a step that failed, if it did. */
void cell_read_failure(struct cell *s);
/* cell-start.c: the child has become a blank. */
void cell_on_ready(int fd, uint32_t events, void *data);
/* Its disk need not be counted in the warden's ledger (any more). */
void cell_release_claim(struct cell *s);
/* The create's reply, which is owed until here; error 0: it runs. */
void cell_reply_to_create(struct cell *s, int error);
/* Whether its runner connects by itself, instead of being given connections. */
bool cell_dials(const struct cell *s);
