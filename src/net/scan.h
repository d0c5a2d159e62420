/* SPDX-License-Identifier: Apache-2.0 */
/* First look at the raw bytes of a request head, before any parser sees them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum scan_state {
    SCAN_START,
    SCAN_START_LF,
    SCAN_LINE,
    SCAN_LINE_LF,
    SCAN_FIELD,
    SCAN_NAME,
    SCAN_VALUE,
    SCAN_VALUE_LF,
    SCAN_END_LF,
};

/* Whether it may stand in a token: a method, a field name. */
bool scan_is_token(unsigned char c);

/* Zero is the start of a head. */
struct scan {
    enum scan_state state;
    size_t pos;   /* bytes of the head seen */
    size_t start; /* where the request line begins, after empty lines */
};

/* data is the head from its first byte, len what has come of it so far; bytes seen by an earlier
 * call are not looked at again. Returns the head's length once it is complete (with the empty line
 * that ends it), 0 when more is needed, or minus the HTTP status to refuse it with. */
ssize_t scan_head(struct scan *s, const char *data, size_t len);
