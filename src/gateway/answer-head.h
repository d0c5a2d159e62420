/* SPDX-License-Identifier: Apache-2.0 */
/* Watches an answer of HTTP go by for one thing: whether its head says where it ends.
 *
 * An answer with a length, in chunks, or of a kind that has no body, ends where it says, and a
 * client notices when less comes. Any other ends where its connection does, so that one that was
 * cut looks whole. A head that cannot be read, or whose meaning is in doubt, says nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

struct answer_head {
    struct strbuf data; /* of a head that has not come whole */
    bool begun;         /* a byte has come */
    bool done;          /* the head of the final answer is read, or cannot be */
    bool says_end;
    bool of_head; /* the request was a HEAD, whose answer has no body */
};

/* method: of the request. */
void answer_head_init(struct answer_head *a, const char *method);
void answer_head_done(struct answer_head *a);
/* The next bytes of the answer. */
void answer_head_take(struct answer_head *a, const char *data, size_t len);
bool answer_head_says_end(const struct answer_head *a);
