/* SPDX-License-Identifier: Apache-2.0 */
/* Records around a sandbox's interceptor (src/intercept), all over one SOCK_SEQPACKET socket: the
 * warden's start first, the interceptor's answer to it, and then connections from the gateway. */
#pragma once

#include <stdint.h>

#define INTERCEPT_VERSION   1
#define INTERCEPT_UID       64222
#define INTERCEPT_PAIRS_MAX 8
#define INTERCEPT_SEED_SIZE 48
#define INTERCEPT_KEY_SIZE  32
#define INTERCEPT_SEAL_MAX  (16 * 1024) /* bytes of one sealed pair */
#define INTERCEPT_PEM_SIZE  6144        /* of the certificate, with NUL */

/* What the control plane sends with PLAN_INTERCEPT, in a sealed memory file: this, and behind it
 * the sealed pairs, one after another. The warden reads the numbers and looks into no seal. */
struct intercept_pairs {
    uint32_t version;
    uint32_t n_pairs;
    char generation[40]; /* of the sandbox, with NUL: the authority depends on it */
    uint32_t sealed_len[INTERCEPT_PAIRS_MAX];
};
#define INTERCEPT_FILE_MAX                                                                         \
    (sizeof(struct intercept_pairs) + INTERCEPT_PAIRS_MAX * INTERCEPT_SEAL_MAX)

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
 * first and the server's second. */
struct intercept_connection {
    uint32_t version;
    uint16_t port;
    uint16_t reserved;
    char host[256]; /* as target_parse_host() writes names */
};
