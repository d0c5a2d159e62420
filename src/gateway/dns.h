/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the domain name system: a question about one name, and the answer to it.
 *
 * An answer is a stranger's bytes. Nothing of it is believed but addresses of the name that was
 * asked for, or of names that it is an alias of, in an answer to that very question. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct address;

#define DNS_QUESTION_MAX 280  /* bytes: a head, the longest name, its type and class */
#define DNS_ANSWER_MAX   1500 /* of one datagram; a longer answer is cut, and says so */

enum dns_type { DNS_A = 1, DNS_AAAA = 28 };

enum dns_answer {
    DNS_ADDRESSES, /* perhaps none of this type */
    DNS_NO_NAME,   /* there is no such name */
    DNS_UNCLEAR,   /* the server failed, or said less than all: another way is to be gone */
    DNS_STRANGE,   /* no answer to this question: as if nothing had come */
};

/* The question's length, or 0 for a name that cannot be asked about. */
size_t dns_question_format(const char *name, enum dns_type type, uint16_t id,
                           uint8_t ret[DNS_QUESTION_MAX]);
/* Adds addresses to ret, which has *n of at most max. What does not fit is left out. */
enum dns_answer dns_answer_parse(const uint8_t *data, size_t size, const char *name,
                                 enum dns_type type, uint16_t id, struct address *ret, size_t max,
                                 size_t *n);
