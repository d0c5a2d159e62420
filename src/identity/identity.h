/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks: the key a request came with, and what its roles allow.
 *
 * An identity is a plain value, copied wherever a call outlives its request. `key` is what owns
 * sandboxes, commands, idempotency keys and approvals, and what logs and the audit name; the secret
 * of a key is in neither. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct error;

enum role {
    ROLE_AGENT = 1,    /* runs things in sandboxes of its own */
    ROLE_OPERATOR = 2, /* sees the sandboxes of all keys; skills */
    ROLE_APPROVER = 4, /* decides what waits for a person */
    ROLE_AUDITOR = 8,  /* reads the audit */
    ROLE_ADMIN = 16,   /* keys, policy, configuration */
};
#define ROLES_ALL (ROLE_AGENT | ROLE_OPERATOR | ROLE_APPROVER | ROLE_AUDITOR | ROLE_ADMIN)

#define IDENTITY_KEY_SIZE     40
#define IDENTITY_NAME_SIZE    65
#define IDENTITY_ADDRESS_SIZE 46        /* INET6_ADDRSTRLEN */
#define IDENTITY_TOKEN        "token"   /* key and name of a caller with auth_token */
#define IDENTITY_WEBHOOK      "webhook" /* key and name under which the daemon delivers events */
#define IDENTITY_STREAM       "stream"  /* key and name of a sandbox's stream container */
#define IDENTITY_NOBODY       "-"       /* an owner that nothing has */
#define ROLES_TEXT_SIZE       64

struct identity {
    char key[IDENTITY_KEY_SIZE];         /* public id; "" where nothing is asked for */
    char address[IDENTITY_ADDRESS_SIZE]; /* whom a caller without a key is counted as; "": this
                                            machine's own callers, who are counted as one */
    char name[IDENTITY_NAME_SIZE];       /* what a person called it */
    unsigned roles;                      /* enum role */
    bool authenticated;
};

/* The anonymous caller, where no key and no token is configured, and of the line protocol: every
 * role, but not authenticated, so that nothing which needs two people can be done. */
extern const struct identity identity_local;
/* A caller with auth_token is agent, operator and admin. */
extern const struct identity identity_token;
/* The daemon itself, where it delivers events. */
extern const struct identity identity_webhook;

/* "agent, operator" of a set, for messages. */
const char *roles_format(unsigned roles, char out[ROLES_TEXT_SIZE]);
/* ["agent", ...], a new reference. */
json_t *roles_to_json(unsigned roles);
/* One name to its role; 0 when there is none of that name. */
unsigned role_find(const char *name, size_t len);
/* "agent,approver"; ERROR_INVALID names the word that is no role. */
int roles_parse(const char *text, unsigned *ret, struct error *err);

/* Whether it may do what needs one of `roles` (0: every caller may). An admin is not an approver:
 * each role stands for itself. */
bool identity_has(const struct identity *who, unsigned roles);
/* Whether it came with a key of the store, which may end; the others last as long as the daemon. */
bool identity_has_key(const struct identity *who);
/* Operators and admins see what belongs to other keys. */
bool identity_sees_all(const struct identity *who);
/* Whether what belongs to the key `owner` exists for it at all. */
bool identity_sees(const struct identity *who, const char *owner);
/* For lookups by owner where "" means all owners. A caller without key and roles, as on open
 * routes, sees nothing. */
const char *identity_scope(const struct identity *who);
/* All of it, for rows of the store: a new reference, and back. */
json_t *identity_to_json(const struct identity *who);
void identity_from_json(const json_t *o, struct identity *ret);
