/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/sign.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/key-memory.h"
#include "base/log.h"
#include "warden/sign-key.h"
#include "warden/sign-sinks.h"

#define LAST_FILE "audit.last"

/* --- what was signed last */

static bool read_slot(int fd, unsigned i, struct checkpoint *ret)
{
    struct checkpoint_slot slot = {0};
    return pread(fd, &slot, sizeof(slot), (off_t)i * CHECKPOINT_SLOT_SIZE) > 0 &&
           checkpoint_slot_read(&slot, ret);
}

/* The newer of two slots. A write that was cut off damages the slot that was being written, and the
 * other one still has the checkpoint before. A file with neither is refused: without knowing what
 * was signed, the key could be made to sign a number a second time. */
static int open_last(struct signer *s, struct error *err)
{
    struct stat st;
    s->last_fd = openat(s->dir_fd, LAST_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->last_fd < 0 || fstat(s->last_fd, &st) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open warden/" LAST_FILE);
    for (unsigned i = 0; i < 2; i++) {
        struct checkpoint found;
        if (!read_slot(s->last_fd, i, &found) || found.seq < s->last.seq)
            continue;
        s->last = found;
        s->slot = !i;
    }
    if (st.st_size && !s->last.seq)
        return error_set(err, ERROR_INVALID, 0,
                         "warden/" LAST_FILE " is damaged: what the audit's key has signed is not "
                         "known (remove it and audit.key to go on with a new key)");
    return 0;
}

/* On the disk before the signature is handed out: a warden that is started again must know of every
 * signature that left it. The slots are used in turn. */
static int save_last(struct signer *s, const struct checkpoint *c)
{
    struct checkpoint_slot slot;
    checkpoint_slot_fill(&slot, c);
    if (pwrite(s->last_fd, &slot, sizeof(slot), (off_t)s->slot * CHECKPOINT_SLOT_SIZE) !=
        sizeof(slot))
        return errno ? -errno : -EIO;
    if (fdatasync(s->last_fd) < 0)
        return -errno;
    s->slot = !s->slot;
    return 0;
}

/* Whether the newest checkpoint leaves the key that there is as the one to sign the next. */
static bool is_own(const struct signer *s, const struct checkpoint *c)
{
    if (!checkpoint_changes_key(c))
        return sign_key_verifies(s->key, c, c->signature);
    return memcmp(c->new_key, s->public_key, sizeof(c->new_key)) == 0 &&
           sign_key_verifies(s->key, c, c->new_signature);
}

int signer_open(struct signer *s, int state_fd, struct error *err)
{
    *s = (struct signer)SIGNER_INIT;
    s->dir_fd = fcntl(state_fd, F_DUPFD_CLOEXEC, 3);
    if (s->dir_fd < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "the warden's directory");
    int r = open_last(s, err);
    if (r < 0)
        return r;
    r = sign_key_open(s, err);
    s->replaced = r >= 0 && s->last.seq && !is_own(s, &s->last);
    if (s->replaced)
        log_error("audit: the signing key is another one than the one that signed record %llu; "
                  "earlier public keys are kept as warden/audit.pub.*",
                  (unsigned long long)s->last.seq);
    return r;
}

void signer_close(struct signer *s)
{
    EVP_PKEY_free(s->key);
    s->key = NULL;
    key_memory_free(s->secret, CHECKPOINT_KEY_SIZE);
    s->secret = NULL;
    fd_close(&s->dir_fd);
    fd_close(&s->last_fd);
    fd_close(&s->file_fd);
    fd_close(&s->syslog_fd);
    fd_close(&s->syslog_dir_fd);
}

/* --- signing */

static int sign_with(EVP_PKEY *key, const struct checkpoint *c,
                     uint8_t ret[CHECKPOINT_SIGNATURE_SIZE])
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    size_t size = checkpoint_statement(c, statement), len = CHECKPOINT_SIGNATURE_SIZE;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestSign(ctx, ret, &len, statement, size) == 1 &&
                len == CHECKPOINT_SIGNATURE_SIZE;
    EVP_MD_CTX_free(ctx);
    return good ? 0 : -EIO;
}

/* libcrypto's own form of the key lives for the one signature only: its memory is an ordinary part
 * of the heap, which every fork of the warden copies. In a fork, where the key is wiped, nothing is
 * signed rather than with another key. */
static int sign_own(const struct signer *s, const struct checkpoint *c,
                    uint8_t ret[CHECKPOINT_SIGNATURE_SIZE])
{
    uint8_t public_key[CHECKPOINT_KEY_SIZE];
    EVP_PKEY *key =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, s->secret, CHECKPOINT_KEY_SIZE);
    bool own = sign_key_public(key, public_key) &&
               memcmp(public_key, s->public_key, sizeof(public_key)) == 0;
    int r = own ? sign_with(key, c, ret) : -EIO;
    EVP_PKEY_free(key);
    return r;
}

/* Each checkpoint names the hash of the one before, so that none can be left out of an export. */
static void link_to_last(const struct signer *s, struct checkpoint *c)
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    if (!s->last.seq)
        return;
    c->prev_seq = s->last.seq;
    size_t len = checkpoint_statement(&s->last, statement);
    EVP_Digest(statement, len, c->prev, NULL, EVP_sha256(), NULL);
}

static bool is_last(const struct signer *s, const struct plan_sign *request)
{
    return s->last.seq == request->seq && s->last.purpose == request->purpose &&
           memcmp(s->last.head, request->head, sizeof(s->last.head)) == 0;
}

/* After another key's checkpoint the first word of this one is that the other is lost; at any other
 * time it must not say so. */
static int check_purpose(const struct signer *s, uint32_t purpose, char *why, unsigned size)
{
    bool replaces = purpose == CHECKPOINT_REPLACE;
    if (replaces ? s->replaced || !s->last.seq : !s->replaced)
        return 0;
    snprintf(why, size, "%s",
             replaces ? "the signing key was not replaced"
                      : "the signing key was replaced, and that has to be signed first");
    return -EPERM;
}

static int sign_and_save(struct signer *s, struct checkpoint *c)
{
    int r = 0;
    if (c->purpose == CHECKPOINT_REPLACE) {
        sign_key_find_old(s, c->old_key);
        memcpy(c->new_key, s->public_key, sizeof(c->new_key));
        r = sign_own(s, c, c->new_signature);
    } else {
        r = sign_own(s, c, c->signature);
    }
    if (r < 0)
        return r;
    return save_last(s, c);
}

/* sign-key.h says in which order, and why. */
static int rotate_key(struct signer *s, struct checkpoint *c)
{
    EVP_PKEY *next, *public = NULL;
    uint8_t secret[CHECKPOINT_KEY_SIZE];
    int r = sign_key_prepare(s, &next);
    if (r < 0)
        return r;
    memcpy(c->old_key, s->public_key, sizeof(c->old_key));
    /* Saving the checkpoint is the decision: before it the old key is still the only one, and what
     * follows it cannot fail any more. */
    if ((r = sign_key_public(next, c->new_key) ? 0 : -EIO) == 0 &&
        (r = sign_key_split(next, secret, &public)) == 0 &&
        (r = sign_own(s, c, c->signature)) == 0 && (r = sign_with(next, c, c->new_signature)) == 0)
        r = save_last(s, c);
    EVP_PKEY_free(next);
    if (r < 0) {
        explicit_bzero(secret, sizeof(secret));
        EVP_PKEY_free(public);
        return r;
    }
    fault_point("sign.rotation-decided");
    memcpy(s->secret, secret, sizeof(secret));
    explicit_bzero(secret, sizeof(secret));
    EVP_PKEY_free(s->key);
    s->key = public;
    memcpy(s->public_key, c->new_key, sizeof(s->public_key));
    int late = sign_key_settle(s);
    s->unsettled = late < 0;
    if (late < 0)
        log_error("audit: the new signing key's files are not in place yet: %s", strerror(-late));
    else
        log_info("audit: the signing key was rotated; the old public key is kept beside it");
    return 0;
}

/* The checkpoint that decided a rotation is what a start finishes it by: it must not be written
 * over before the files are in place. */
static int settle_key(struct signer *s)
{
    int r = s->unsettled ? sign_key_settle(s) : 0;
    s->unsettled = r < 0;
    return r;
}

/* Every number once, and only rising ones: a control plane that was taken over cannot have a second
 * history signed. The same request again gets the same signature, because a control plane that was
 * killed may not have stored the first answer. */
int signer_sign(struct signer *s, const struct plan_sign *request, struct checkpoint *ret,
                char *why, unsigned size)
{
    struct checkpoint c = {
        .purpose = request->purpose, .seq = request->seq, .time_ns = clock_real_ns()};
    if (!s->key) {
        snprintf(why, size, "there is no signing key");
        return -ENOKEY;
    }
    if (is_last(s, request) || request->seq == 0) {
        *ret = s->last;
        return 0;
    }
    if (request->seq <= s->last.seq) {
        log_error("audit: asked to sign record %llu after %llu", (unsigned long long)request->seq,
                  (unsigned long long)s->last.seq);
        snprintf(why, size, "record %llu was signed already", (unsigned long long)s->last.seq);
        return -ESTALE;
    }
    int r = check_purpose(s, request->purpose, why, size);
    if (r < 0)
        return r;
    if (request->purpose == CHECKPOINT_ROTATE && sign_key_count_old(s) >= SIGN_OLD_KEYS_MAX) {
        snprintf(why, size,
                 "there are %d earlier public keys already: move warden/audit.pub.* away",
                 SIGN_OLD_KEYS_MAX);
        return -EDQUOT;
    }
    memcpy(c.head, request->head, sizeof(c.head));
    link_to_last(s, &c);
    r = settle_key(s);
    if (r >= 0)
        r = c.purpose == CHECKPOINT_ROTATE ? rotate_key(s, &c) : sign_and_save(s, &c);
    if (r < 0) {
        snprintf(why, size, "the signature cannot be recorded: %s", strerror(-r));
        return r;
    }
    s->last = *ret = c;
    s->replaced = false;
    signer_publish(s, &c);
    return 0;
}
