/* SPDX-License-Identifier: Apache-2.0 */
/* Text that came from outside: does it try to talk to the model instead of being talked about?
 *
 * Advice, not a wall. An attacker who knows these patterns can write around them, and a harmless
 * text can look like them. What is found informs the policy and the approver; the walls are the
 * sandbox, the policy and the person.
 *
 * A text is looked at as it is and as a reader would see it: without characters that do not show,
 * look-alikes as the letters they look like, encoded parts decoded. Patterns are PCRE2 without JIT,
 * tried only near words they cannot do without, within limits of steps, findings and time; a text
 * that could not be looked at in full is itself a finding. All of this is a pure function of the
 * text, safe on any thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strbuf.h"

struct error;

enum threat {
    THREAT_NONE,
    THREAT_LOW,
    THREAT_MEDIUM,
    THREAT_HIGH,
    THREAT_CRITICAL,
    _THREAT_MAX,
};

enum validate_category {
    VALIDATE_INSTRUCTION_OVERRIDE,
    VALIDATE_ROLE_MANIPULATION,
    VALIDATE_DELIMITER_MANIPULATION,
    VALIDATE_ENCODING_OBFUSCATION,
    VALIDATE_CONTEXT_MANIPULATION,
    VALIDATE_PERSISTENCE,
    VALIDATE_TOOL_HIJACKING,
    VALIDATE_CONTROL_CHARACTERS,
    VALIDATE_BIDI_CHARACTERS,
    _VALIDATE_CATEGORY_MAX,
};

#define VALIDATE_MATCHES_MAX 64
#define VALIDATE_EXCERPT_MAX 120

struct validate_match {
    enum validate_category category;
    const char *id;      /* "ignore_instructions"; a string of the program's */
    const char *message; /* what that is, in words; the same */
    enum threat threat;
    size_t offset, length; /* in the text; of something hidden: where it is hidden, if known */
    char excerpt[VALIDATE_EXCERPT_MAX + 1]; /* UTF-8 without anything that does not show */
};

struct validate_limits {
    size_t max_bytes;
    uint64_t timeout_ms;
};
#define VALIDATE_MAX_BYTES_DEFAULT  (1024 * 1024)
#define VALIDATE_TIMEOUT_MS_DEFAULT 2000

struct validation {
    enum threat threat; /* the highest of all matches; critical when high ones come together */
    bool valid;         /* none or low */
    bool complete;      /* all of it was looked at */
    struct validate_match matches[VALIDATE_MATCHES_MAX];
    size_t n_matches;
    struct strbuf sanitized; /* without what does not show and without chat-template markers */
    struct strbuf visible;   /* the text with <U+202E> for what does not show */
};

/* Looks at len bytes (any bytes). limits may be NULL for the defaults. ret is to be done with
 * validation_done(), whatever it found. */
void validate_text(const char *text, size_t len, const struct validate_limits *limits,
                   struct validation *ret);
void validation_done(struct validation *v);

const char *threat_name(enum threat t);                       /* "none" ... "critical" */
const char *validate_category_name(enum validate_category c); /* "instruction_override" */
/* the actions API's answer, and `findings` with places and words. */
json_t *validation_to_json(const struct validation *v);

/* The next code point at text[*pos], *pos moved on; -1 for a byte that is not UTF-8. */
int32_t validate_next(const char *text, size_t len, size_t *pos);
/* Whether it shows as itself: no control, no mark of direction, nothing without a width, nothing
 * that looks like a space. */
bool validate_shows(int32_t cp);
