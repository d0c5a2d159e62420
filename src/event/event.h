/* SPDX-License-Identifier: Apache-2.0 */
/* Changes in the daemon, and which callers may see them.
 *
 * An event says that something happened to an object: which one, whose it is, and a few facts. It
 * has no command line, no output and no content of files: a caller that may see more asks for the
 * object. Every event has a number, by which a reader goes on where it stopped (event-journal.h).
 *
 * Who may see an event is decided here and nowhere else: the owner of the object; operators and
 * admins, who see everything; auditors too, because the audit shows them more, and each type names
 * the roles that see it, whichever key is the owner. A type whose object has no owner is shown to
 * those roles only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "identity/identity.h"

struct error;
struct strbuf;

/* The numbers are in the store: none is ever given to another type. */
enum event_type {
    EVENT_DAEMON_STARTED = 1,
    EVENT_SANDBOX_CREATED = 2,
    EVENT_SANDBOX_CRASHED = 3,
    EVENT_SANDBOX_DELETED = 4,
    EVENT_SANDBOX_PAUSED = 5,
    EVENT_SANDBOX_RESUMED = 6,
    EVENT_EXEC_STARTED = 7,
    EVENT_EXEC_ENDED = 8,
    EVENT_APPROVAL_PENDING = 9,
    EVENT_APPROVAL_APPROVED = 10,
    EVENT_APPROVAL_REJECTED = 11,
    EVENT_APPROVAL_EXPIRED = 12,
    EVENT_APPROVAL_USED = 13,
    EVENT_APPROVAL_VOID = 14,
    EVENT_IMAGE_PULLED = 15,
    EVENT_IMAGE_IMPORTED = 16,
    EVENT_IMAGE_REMOVED = 17,
    EVENT_POOL_FULL = 18,
    EVENT_POOL_EMPTY = 19,
    EVENT_POLICY_LOADED = 20,
    EVENT_POLICY_REFUSED = 21,
    EVENT_NETWORK_ALLOWED = 22,
    EVENT_NETWORK_DENIED = 23,
    EVENT_NETWORK_CLOSED = 24,
    EVENT_NETWORK_SUMMARY = 25,
    _EVENT_TYPE_MAX = 26,
};

#define EVENT_ID_MAX   1024 /* bytes; image names are the longest */
#define EVENT_DATA_MAX 4096

/* As it is kept in memory and in the store: three texts, each with its NUL, follow one another. */
struct event {
    uint64_t seq;
    int64_t time_ns; /* real time */
    uint32_t len;    /* of text */
    uint16_t owner;  /* where they begin in text; the id is first */
    uint16_t data;
    uint8_t type; /* enum event_type */
    uint8_t spare[7];
    char text[];
};

static inline const char *event_id(const struct event *e)
{
    return e->text;
}
static inline const char *event_owner(const struct event *e)
{
    return e->text + e->owner;
}
static inline const char *event_data(const struct event *e) /* a JSON object, or "" */
{
    return e->text + e->data;
}

/* "exec.ended"; NULL for what is no type. */
const char *event_type_name(unsigned type);

/* A set of types, one bit each. */
#define EVENT_TYPES_ALL (~(uint64_t)0)
static inline uint64_t event_type_bit(enum event_type type)
{
    return (uint64_t)1 << type;
}
/* "exec.ended,approval": types, and first words of types for all that begin so. ERROR_INVALID names
 * the word that is neither. */
int event_types_parse(const char *text, uint64_t *ret, struct error *err);
/* All types of one first word, "approval". */
uint64_t event_types_of(const char *word);

/* Whether the caller `who` may see events of that type about an object of the key `owner`. */
bool event_is_for(enum event_type type, const char *owner, const struct identity *who);

/* {"seq","time","type","id","owner"?,"data"?} */
int event_format(const struct event *e, struct strbuf *out);
