/* SPDX-License-Identifier: Apache-2.0 */
/* Which members a JSON object may have, as a table, and the one check of it.
 *
 * A request that names something we do not know asks for something we will not do: a limit with a
 * misspelled name is no limit. So a member outside the table is refused by name, with the one that
 * was probably meant. Contracts that promise to ignore foreign members get them told instead, but
 * not inside a guard: what narrows a call is never left out silently. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct error;
struct strbuf;

enum member_flags {
    /* Its value narrows what a call may do: unknown members inside are always refused. */
    MEMBER_GUARD = 1,
    /* The names inside fit in any letter case, with and without underscores. */
    MEMBER_ANY_CASE = 2,
    /* Accepted and not offered as what was meant. */
    MEMBER_HIDDEN = 4,
    /* Of a query: 1 or true, 0 or false. */
    MEMBER_SWITCH = 8,
    /* inner is of each object of an array. */
    MEMBER_LIST = 16,
    /* A string. */
    MEMBER_TEXT = 32,
    /* May be something else than the object of inner, which its handler then reads. */
    MEMBER_OR_OTHER = 64,
    /* An array of strings, an object of strings, true or false, a whole number. */
    MEMBER_TEXTS = 128,
    MEMBER_TEXT_MAP = 256,
    MEMBER_BOOL = 512,
    MEMBER_WHOLE = 1024,
    /* A number or a text; its reader knows the unit. */
    MEMBER_DURATION = 2048,
    /* Of a query: the empty text is a value, too. */
    MEMBER_MAY_BE_EMPTY = 4096,
};

/* Tables end with a row without a name. */
struct member {
    const char *name;
    unsigned flags;
    /* The members of the object that it has to be; NULL: the value is the handler's to check. */
    const struct member *inner;
    /* Instead of inner: found by the object that the member is in. May return NULL. What the
     * members inside are is for the owner of that table to check, with members_check_types(). */
    const struct member *(*find_inner)(const json_t *parent);
    /* Of a parameter of a query: the texts that it can be, by their numbers; NULL ends them. */
    const char *(*choice_at)(size_t i);
};

/* The table of an object that has no members. */
extern const struct member members_none[];

struct members_check {
    /* NULL: every unknown member is an error. Else the paths of those that are not, "a, b.c", are
     * appended; only bytes that a header may carry are written, and no more than fit. */
    struct strbuf *ignored;
    bool guarded; /* the object is inside a guard */
    bool any_case;
    bool names_only; /* what the members are is checked elsewhere */
};
/* Checks an object and all that its table says of objects inside. path goes before every name:
 * "" or "policy". The error names the whole path. */
int members_check(const struct members_check *how, const json_t *object, const struct member *table,
                  const char *path, struct error *err);
/* Only that the members which the table knows are what it says. */
int members_check_types(const json_t *object, const struct member *table, struct error *err);
/* The row of that very name, or NULL. */
const struct member *members_find(const struct member *table, const char *name);
/* Appends to what is ignored, as members_check() does. */
void members_tell(struct strbuf *ignored, const char *path, const char *name);
/* The choice of a member that a written text was probably meant to be, or NULL. */
const char *members_suggest_choice(const struct member *m, const char *written);
/* The name of a table that a written one was probably meant to be, or NULL. */
const char *members_suggest(const struct member *table, const char *written);
