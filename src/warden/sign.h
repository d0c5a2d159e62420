/* SPDX-License-Identifier: Apache-2.0 */
/* The audit's signing key, and the rule under which it is used.
 *
 * The key is made here and never leaves the warden: in DIR/warden/audit.key, which the control
 * plane does not see. What it signs is (sequence number, head of the chain, the checkpoint signed
 * before); a sequence number is signed once, and only greater ones after it, also across restarts:
 * the newest checkpoint is on disk before its signature is given out. A control plane that was
 * taken over can have new records signed; it cannot have two histories of the old ones. Checkpoints
 * can go to a file and to syslog from here, past the control plane.
 *
 * A checkpoint of purpose CHECKPOINT_ROTATE makes another key the signing one (sign-key.h). Where
 * the key that signed last is not the one that is there, the first checkpoint of the new key is of
 * purpose CHECKPOINT_REPLACE, which says that the old one is lost. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/checkpoint.h"
#include "proto/plan.h"

struct error;
struct evp_pkey_st;

struct signer {
    struct evp_pkey_st *key; /* the public part; NULL: not open */
    uint8_t *secret;         /* the private one, CHECKPOINT_KEY_SIZE of key memory */
    uint8_t public_key[CHECKPOINT_KEY_SIZE];
    struct checkpoint last;               /* seq 0: nothing was signed */
    bool replaced;                        /* and another key signed it */
    bool unsettled;                       /* the files of a rotated key are not all in place */
    uint8_t old_key[CHECKPOINT_KEY_SIZE]; /* of the audit.pub that was found; zeros: the own one */
    int dir_fd;
    int last_fd;
    unsigned slot; /* of last_fd, to be written next */
    int file_fd;   /* audit_checkpoint_file, or -1 */
    int syslog_fd, syslog_dir_fd;
    char syslog_name[64];
};

#define SIGNER_INIT                                                                                \
    {                                                                                              \
        .dir_fd = -1, .last_fd = -1, .file_fd = -1, .syslog_fd = -1, .syslog_dir_fd = -1           \
    }

/* While host paths are seen. Makes the key when there is none below state_fd. */
int signer_open(struct signer *s, int state_fd, struct error *err);
/* Appends every checkpoint to this file too (made when absent), and to syslog. */
int signer_open_file(struct signer *s, const char *path, struct error *err);
int signer_open_syslog(struct signer *s, struct error *err);
void signer_close(struct signer *s);

/* 0 with *ret, or -errno with a text in why: -ESTALE for a sequence number that is not greater than
 * the newest. The newest request itself may be repeated and has the same answer. */
int signer_sign(struct signer *s, const struct plan_sign *request, struct checkpoint *ret,
                char *why, unsigned size);
