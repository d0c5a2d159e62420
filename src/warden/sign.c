#include "warden/sign.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "warden/sign-sinks.h"

#define KEY_FILE    "audit.key"
#define PUBLIC_FILE "audit.pub"
#define LAST_FILE   "audit.last"

static_assert(sizeof(struct checkpoint_slot) <= CHECKPOINT_SLOT_SIZE, "a slot fits its place");

static const char slot_magic[8] = CHECKPOINT_SLOT_MAGIC;

/* --- the key */

static int save_pem(int dir, const char *name, mode_t mode, EVP_PKEY *key, bool secret)
{
    _cleanup_close_ int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return -errno;
    FILE *f = fdopen(fd, "w");
    if (!f)
        return -errno;
    fd = -1; /* f's now */
    bool good =
        secret ? PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) : PEM_write_PUBKEY(f, key);
    good = fflush(f) == 0 && fsync(fileno(f)) == 0 && good;
    return fclose(f) == 0 && good ? 0 : -EIO;
}

static EVP_PKEY *make_key(int dir, struct error *err)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    int r = key ? save_pem(dir, KEY_FILE, 0600, key, true) : -EIO;
    if (r >= 0) {
        log_info("audit: a signing key was made");
        return key;
    }
    error_set(err, ERROR_UNAVAILABLE, -r, "make the audit's signing key");
    EVP_PKEY_free(key);
    return NULL;
}

static EVP_PKEY *load_key(int fd, struct error *err)
{
    struct stat st;
    FILE *f = fdopen(dup(fd), "r");
    EVP_PKEY *key = f ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : NULL;
    if (f)
        fclose(f);
    bool private = fstat(fd, &st) == 0 && !(st.st_mode & 077);
    if (key && private && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519)
        return key;
    error_set(err, ERROR_INVALID, 0, "warden/" KEY_FILE " %s",
              !private ? "can be read by others" : "is not an Ed25519 key");
    EVP_PKEY_free(key);
    return NULL;
}

/* The public key of an earlier signing key is what its checkpoints are proved with: it stays, under
 * a name with its first bytes. */
static int keep_old_public(int dir, const uint8_t own[CHECKPOINT_KEY_SIZE])
{
    uint8_t old[CHECKPOINT_KEY_SIZE] = {0};
    size_t len = sizeof(old);
    char hex[2 * CHECKPOINT_KEY_SIZE + 1], name[64];
    int fd = openat(dir, PUBLIC_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f)
        return errno == ENOENT ? 0 : -errno;
    EVP_PKEY *key = PEM_read_PUBKEY(f, NULL, NULL, NULL);
    bool good = key && EVP_PKEY_get_raw_public_key(key, old, &len) == 1;
    EVP_PKEY_free(key);
    fclose(f);
    if (good && memcmp(old, own, sizeof(old)) == 0)
        return 0;
    hex_format(old, sizeof(old), hex);
    snprintf(name, sizeof(name), PUBLIC_FILE ".%.16s", hex);
    log_error("audit: the signing key is another one; the old public key is kept as warden/%s",
              name);
    return renameat(dir, PUBLIC_FILE, dir, name) < 0 ? -errno : 0;
}

static int open_key(struct signer *s, int dir, struct error *err)
{
    size_t len = sizeof(s->public_key);
    _cleanup_close_ int fd = openat(dir, KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno != ENOENT)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open warden/" KEY_FILE);
    s->key = fd < 0 ? make_key(dir, err) : load_key(fd, err);
    if (!s->key)
        return -EINVAL;
    if (EVP_PKEY_get_raw_public_key(s->key, s->public_key, &len) != 1)
        return error_set(err, ERROR_INTERNAL, 0, "the audit's key has no public part");
    int r = keep_old_public(dir, s->public_key);
    r = r < 0 ? r : save_pem(dir, PUBLIC_FILE, 0644, s->key, false);
    return r < 0 && r != -EEXIST
               ? error_set(err, ERROR_UNAVAILABLE, -r, "write warden/" PUBLIC_FILE)
               : 0;
}

/* --- what was signed last */

static void slot_check(const struct checkpoint_slot *slot, uint8_t out[CHECKPOINT_HASH_SIZE])
{
    EVP_Digest(slot, offsetof(struct checkpoint_slot, check), out, NULL, EVP_sha256(), NULL);
}

static bool read_slot(int fd, unsigned i, struct checkpoint_slot *ret)
{
    uint8_t check[CHECKPOINT_HASH_SIZE];
    if (pread(fd, ret, sizeof(*ret), (off_t)i * CHECKPOINT_SLOT_SIZE) != sizeof(*ret) ||
        memcmp(ret->magic, slot_magic, sizeof(slot_magic)) != 0)
        return false;
    slot_check(ret, check);
    return memcmp(check, ret->check, sizeof(check)) == 0;
}

static int open_last(struct signer *s, int dir, struct error *err)
{
    struct stat st;
    s->last_fd = openat(dir, LAST_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->last_fd < 0 || fstat(s->last_fd, &st) < 0)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open warden/" LAST_FILE);
    for (unsigned i = 0; i < 2; i++) {
        struct checkpoint_slot slot;
        if (!read_slot(s->last_fd, i, &slot) || slot.checkpoint.seq < s->last.seq)
            continue;
        s->last = slot.checkpoint;
        s->slot = !i;
    }
    if (st.st_size && !s->last.seq)
        return error_set(err, ERROR_INVALID, 0,
                         "warden/" LAST_FILE " is damaged: what the audit's key has signed is not "
                         "known (remove it and " KEY_FILE " to go on with a new key)");
    return 0;
}

static int save_last(struct signer *s, const struct checkpoint *c)
{
    struct checkpoint_slot slot;
    memset(&slot, 0, sizeof(slot));
    memcpy(slot.magic, slot_magic, sizeof(slot_magic));
    slot.checkpoint = *c;
    slot_check(&slot, slot.check);
    if (pwrite(s->last_fd, &slot, sizeof(slot), (off_t)s->slot * CHECKPOINT_SLOT_SIZE) !=
        sizeof(slot))
        return errno ? -errno : -EIO;
    if (fdatasync(s->last_fd) < 0)
        return -errno;
    s->slot = !s->slot;
    return 0;
}

int signer_open(struct signer *s, int state_fd, struct error *err)
{
    *s = (struct signer)SIGNER_INIT;
    int r = open_key(s, state_fd, err);
    return r < 0 ? r : open_last(s, state_fd, err);
}

void signer_close(struct signer *s)
{
    EVP_PKEY_free(s->key);
    s->key = NULL;
    fd_close(&s->last_fd);
    fd_close(&s->file_fd);
    fd_close(&s->syslog_fd);
    fd_close(&s->syslog_dir_fd);
}

/* --- signing */

static int sign_statement(struct signer *s, struct checkpoint *c)
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    size_t len = sizeof(c->signature);
    checkpoint_statement(c, statement);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, s->key) == 1 &&
                EVP_DigestSign(ctx, c->signature, &len, statement, sizeof(statement)) == 1 &&
                len == sizeof(c->signature);
    EVP_MD_CTX_free(ctx);
    return good ? 0 : -EIO;
}

static void link_to_last(const struct signer *s, struct checkpoint *c)
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    if (!s->last.seq)
        return;
    c->prev_seq = s->last.seq;
    checkpoint_statement(&s->last, statement);
    EVP_Digest(statement, sizeof(statement), c->prev, NULL, EVP_sha256(), NULL);
}

static bool is_last(const struct signer *s, const struct plan_sign *request)
{
    return s->last.seq == request->seq && s->last.purpose == request->purpose &&
           memcmp(s->last.head, request->head, sizeof(s->last.head)) == 0;
}

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
    memcpy(c.head, request->head, sizeof(c.head));
    link_to_last(s, &c);
    int r = sign_statement(s, &c);
    r = r < 0 ? r : save_last(s, &c);
    if (r < 0) {
        snprintf(why, size, "the signature cannot be recorded: %s", strerror(-r));
        return r;
    }
    s->last = *ret = c;
    signer_publish(s, &c);
    return 0;
}
