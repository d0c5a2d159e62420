/* SPDX-License-Identifier: Apache-2.0 */
/* Records around a sandbox's interceptor (src/intercept), all over one SOCK_SEQPACKET socket: the
 * warden's start first, the interceptor's answer to it, and then connections from the gateway. */
#pragma once

#include <stdint.h>

/* Of the records between control plane, warden and interceptor, and of those from the gateway: an
 * upgrade in place leaves an older warden, to which only what changed may be another version. */
#define INTERCEPT_VERSION            2
#define INTERCEPT_CONNECTION_VERSION 3

#define INTERCEPT_UID       64222
#define INTERCEPT_PAIRS_MAX 8
#define INTERCEPT_SEED_SIZE 48
#define INTERCEPT_KEY_SIZE  32
#define INTERCEPT_SEAL_MAX  (16 * 1024) /* bytes of one sealed pair */
#define INTERCEPT_PEM_SIZE  6144        /* of the certificate, with NUL */
#define INTERCEPT_HOSTS_MAX 128         /* hosts that are read for rules about methods and paths */
#define INTERCEPT_TEXT_SIZE 8192 /* of these, and of the rules that a record carries itself */
#define INTERCEPT_RULES_MAX                                                                        \
    (512 * 1024)                /* of one connection: all that a sandbox can have, with names      \
                                   of other scripts as punycode, which is longer */
#define INTERCEPT_RULE_SIZE 160 /* of what records call a rule, with NUL */

/* What the control plane sends with PLAN_INTERCEPT, in a sealed memory file: this, behind it the
 * sealed pairs, one after another, and behind those the hosts whose requests are read for rules
 * about methods and paths, a NUL after each. The warden reads the numbers and looks into no seal.
 */
struct intercept_pairs {
    uint32_t version;
    uint32_t n_pairs;
    char generation[40]; /* of the sandbox, with NUL: the authority depends on it */
    uint32_t sealed_len[INTERCEPT_PAIRS_MAX];
    uint32_t hosts_len;
};
#define INTERCEPT_FILE_MAX                                                                         \
    (sizeof(struct intercept_pairs) + INTERCEPT_PAIRS_MAX * INTERCEPT_SEAL_MAX +                   \
     INTERCEPT_TEXT_SIZE)

/* The warden's first record, with a copy of that file as its descriptor. */
struct intercept_start {
    uint32_t version;
    uint32_t keep_user; /* the warden is an ordinary user's: there is no other user to become */
    char label[72];     /* the sandbox's id, for the log and the certificate's name */
    uint8_t seed[INTERCEPT_SEED_SIZE]; /* of the certificate's key */
    uint8_t content_keys[INTERCEPT_PAIRS_MAX][INTERCEPT_KEY_SIZE];
};

/* Its answer: it serves, or says why not and ends. */
struct intercept_ready {
    uint32_t version;
    uint32_t error; /* 0 or an errno */
    char message[256];
    char certificate[INTERCEPT_PEM_SIZE];
};

/* A connection that the gateway decided on and dialled; with two descriptors, the client's side
 * first and the server's second. Where rules of the sandbox about this host have methods or paths,
 * the gateway could not know more than that one of them may allow the request: the interceptor
 * decides by the same rules, and says a no over the third descriptor (struct intercept_verdict). Of
 * rules only as many bytes are sent as there are; more than fit here are in a sealed memory file,
 * the fourth descriptor, and none are sent. */
struct intercept_connection {
    uint32_t version; /* INTERCEPT_CONNECTION_VERSION */
    uint16_t port;
    uint16_t decides;             /* 0 or 1: there are such rules */
    char host[256];               /* as target_parse_host() writes names */
    char address[48];             /* that was dialled, as address_format() writes it */
    uint32_t n_allowed, n_denied; /* of the rules, in this order */
    uint32_t rules_len;
    char rules[INTERCEPT_TEXT_SIZE]; /* as rule_format() writes them, a NUL after each */
};

enum intercept_refusal {
    INTERCEPT_DENIED = 1,  /* a rule denies it */
    INTERCEPT_NOT_ALLOWED, /* none allows it */
    INTERCEPT_ASKS,        /* all that allow it are rules by which a person is asked first */
    _INTERCEPT_REFUSAL_MAX,
};

/* What the interceptor says of a request that may not be made, at most once per connection. */
struct intercept_verdict {
    uint32_t version; /* INTERCEPT_CONNECTION_VERSION */
    uint32_t refusal;
    char rule[INTERCEPT_RULE_SIZE]; /* which decided; "": none did */
};
