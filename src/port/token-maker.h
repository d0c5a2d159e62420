/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#define MAKER_SALT_SIZE 16

/* Letters and digits; "": none. */
struct maker_mark {
    char text[MAKER_SALT_SIZE + 64 + 1];
};

/* A mark with a salt of its own. It takes some milliseconds, as does the question below. */
void maker_mark_make(const char *secret, struct maker_mark *ret);
/* Whether it was made of that secret. */
bool maker_mark_fits(const struct maker_mark *mark, const char *secret);
