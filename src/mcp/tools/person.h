/* SPDX-License-Identifier: Apache-2.0 */
/* A call that waits for a person: the client is asked where it can ask its user and the answer
 * would count, else the question stays in the approvals' queue and the call waits a while.
 *
 * An answer of the client's user is a decision of the session's key like any other:
 * guard/approval.h says whether that key may decide. With keys it may not decide about its own
 * calls, so its user is not asked then. */
#pragma once

#include "guard/gate.h"

struct approval;
struct mcp_call;
struct person;

/* How a call of a tool wants to be treated by the gate: it waits, and argument "approval_id" is a
 * grant that it may use. Borrows from the call. */
struct gate_terms person_terms(const struct mcp_call *call);

/* For run_events.on_asked: the run goes on by itself once the approval is decided. on_give_up comes
 * when no decision was made within mcp_approval_wait: the caller then gives the run up and calls
 * person_finish_pending(). */
struct person *person_new(struct mcp_call *call, const struct approval *a,
                          void (*on_give_up)(void *data), void *data);
/* The run goes on, failed or was given up. No event comes afterwards; NULL is fine. To be called
 * before the call is finished. */
void person_end(struct person *p);
/* Finishes the call of p with what a model should do, and ends p. */
void person_finish_pending(struct person *p);
