/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the signing key. A rotation must survive a kill at any moment, so its steps are
 * in this order:
 *
 *    1. audit.key.new     the next key, synced (sign_key_prepare())
 *    2. audit.pub.HEX     the public key that leaves, under a name that stays
 *    3. the last checkpoint names the new key and is signed by both: from here on it is decided
 *    4. audit.key         renamed from audit.key.new (sign_key_settle())
 *    5. audit.pub         written anew
 *
 * A start that finds audit.key.new compares it with the last checkpoint: named there, the
 * rotation goes on with step 4; otherwise the key was never used, and is removed. */
#include "warden/sign-key.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/key-memory.h"
#include "base/log.h"

#define KEY_FILE    "audit.key"
#define NEXT_FILE   "audit.key.new"
#define PUBLIC_FILE "audit.pub"
/* Room for the text of a key. The buffer that stdio would allocate is freed as it is, and what was
 * in it would go to every fork. */
#define PEM_BUFFER_SIZE  4096
#define PUBLIC_TEMPORARY ".audit.pub" /* not one of audit.pub.*, which are keys */

/* --- memory */

/* libcrypto frees some of the buffers through which it reads and writes a private key as they are.
 * What is left in them would go to every fork of the warden, so all that libcrypto frees in the
 * warden is wiped. */

static void *crypto_malloc(size_t size, const char *file, int line)
{
    (void)file;
    (void)line;
    return malloc(size);
}

static void crypto_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

/* realloc() may move the bytes and leave them behind, too. */
static void *crypto_realloc(void *p, size_t size, const char *file, int line)
{
    void *moved = size ? malloc(size) : NULL;
    size_t had = p ? malloc_usable_size(p) : 0;
    if (size && !moved)
        return NULL;
    if (had && size)
        memcpy(moved, p, had < size ? had : size);
    crypto_free(p, file, line);
    return moved;
}

void sign_key_wipe_memory(void)
{
    if (CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) != 1)
        log_warn("memory of libcrypto is not wiped: it was in use already");
}

/* --- one key */

bool sign_key_public(EVP_PKEY *key, uint8_t ret[CHECKPOINT_KEY_SIZE])
{
    size_t len = CHECKPOINT_KEY_SIZE;
    return key && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 &&
           EVP_PKEY_get_raw_public_key(key, ret, &len) == 1;
}

bool sign_key_verifies(EVP_PKEY *key, const struct checkpoint *c,
                       const uint8_t signature[CHECKPOINT_SIGNATURE_SIZE])
{
    uint8_t statement[CHECKPOINT_STATEMENT_SIZE];
    size_t len = checkpoint_statement(c, statement);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestVerify(ctx, signature, CHECKPOINT_SIGNATURE_SIZE, statement, len) == 1;
    EVP_MD_CTX_free(ctx);
    return good;
}

int sign_key_split(EVP_PKEY *key, uint8_t ret_secret[CHECKPOINT_KEY_SIZE], EVP_PKEY **ret_public)
{
    uint8_t public_key[CHECKPOINT_KEY_SIZE];
    size_t len = CHECKPOINT_KEY_SIZE;
    if (!sign_key_public(key, public_key) ||
        EVP_PKEY_get_raw_private_key(key, ret_secret, &len) != 1 || len != CHECKPOINT_KEY_SIZE)
        return -EIO;
    *ret_public =
        EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public_key, sizeof(public_key));
    return *ret_public ? 0 : -EIO;
}

/* Replaces what has that name, which is nothing that is still needed. */
static int save_pem(int dir, const char *name, mode_t mode, EVP_PKEY *key, bool secret)
{
    unlinkat(dir, name, 0);
    _cleanup_close_ int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return -errno;
    char text[PEM_BUFFER_SIZE];
    FILE *f = fdopen(fd, "w");
    if (!f)
        return -errno;
    fd = -1; /* f's now */
    setvbuf(f, text, _IOFBF, sizeof(text));
    bool good =
        secret ? PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) : PEM_write_PUBKEY(f, key);
    /* Synced before the caller renames it or signs with it. A key that signed and then was lost
     * with the power would leave checkpoints that nothing can continue. */
    good = fflush(f) == 0 && fsync(fileno(f)) == 0 && good;
    good = fclose(f) == 0 && good;
    explicit_bzero(text, sizeof(text));
    return good ? 0 : -EIO;
}

static EVP_PKEY *read_pem(int dir, const char *name, bool secret)
{
    char text[PEM_BUFFER_SIZE];
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    if (!f)
        return NULL;
    setvbuf(f, text, _IOFBF, sizeof(text));
    EVP_PKEY *key =
        secret ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : PEM_read_PUBKEY(f, NULL, NULL, NULL);
    fclose(f);
    explicit_bzero(text, sizeof(text));
    return key;
}

static int move_durably(int dir, const char *from, const char *to)
{
    return renameat(dir, from, dir, to) < 0 || fsync(dir) < 0 ? -errno : 0;
}

/* --- the private key */

static EVP_PKEY *make_next(int dir)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    int r = key ? save_pem(dir, NEXT_FILE, 0600, key, true) : -EIO;
    r = r >= 0 && fsync(dir) < 0 ? -errno : r;
    if (r >= 0)
        return key;
    EVP_PKEY_free(key);
    errno = -r;
    return NULL;
}

static EVP_PKEY *make_key(int dir, struct error *err)
{
    EVP_PKEY *key = make_next(dir);
    int r = key ? move_durably(dir, NEXT_FILE, KEY_FILE) : -errno;
    if (r < 0) {
        error_set(err, ERROR_UNAVAILABLE, -r, "make the audit's signing key");
        EVP_PKEY_free(key);
        return NULL;
    }
    log_info("audit: a signing key was made");
    return key;
}

static EVP_PKEY *load_key(int dir, const struct stat *st, struct error *err)
{
    uint8_t public_key[CHECKPOINT_KEY_SIZE];
    /* A key that others could read proves nothing. The daemon refuses to start with it, rather than
     * changing the mode: the operator has to know that it may have been copied. */
    bool private = !(st->st_mode & 077);
    EVP_PKEY *key = read_pem(dir, KEY_FILE, true);
    if (private && sign_key_public(key, public_key))
        return key;
    error_set(err, ERROR_INVALID, 0, "warden/" KEY_FILE " %s",
              !private ? "can be read by others" : "is not an Ed25519 key");
    EVP_PKEY_free(key);
    return NULL;
}

/* A next key was either decided on, and only its files are not in place, or it was not. */
static int finish_rotation(const struct signer *s)
{
    uint8_t public_key[CHECKPOINT_KEY_SIZE];
    EVP_PKEY *next = read_pem(s->dir_fd, NEXT_FILE, true);
    bool decided = s->last.purpose == CHECKPOINT_ROTATE && sign_key_public(next, public_key) &&
                   memcmp(public_key, s->last.new_key, sizeof(public_key)) == 0;
    EVP_PKEY_free(next);
    if (decided) {
        log_info("audit: the signing key's rotation was cut short, and is finished now");
        return move_durably(s->dir_fd, NEXT_FILE, KEY_FILE);
    }
    return unlinkat(s->dir_fd, NEXT_FILE, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* --- public keys */

/* The public key of an earlier signing key is what its checkpoints are proved with: it stays, under
 * a name with its first bytes. 1 where audit.pub is the signing key's own. */
static int keep_old_public(struct signer *s, const uint8_t own[CHECKPOINT_KEY_SIZE])
{
    uint8_t old[CHECKPOINT_KEY_SIZE] = {0};
    char hex[2 * CHECKPOINT_KEY_SIZE + 1], name[64];
    if (faccessat(s->dir_fd, PUBLIC_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    EVP_PKEY *key = read_pem(s->dir_fd, PUBLIC_FILE, false);
    bool good = sign_key_public(key, old);
    EVP_PKEY_free(key);
    if (good && own && memcmp(old, own, sizeof(old)) == 0)
        return 1;
    hex_format(old, sizeof(old), hex);
    snprintf(name, sizeof(name), PUBLIC_FILE ".%.16s", hex);
    /* A link and not a rename: audit.pub is there at every moment, for programs that read it. */
    if (linkat(s->dir_fd, PUBLIC_FILE, s->dir_fd, name, 0) < 0 && errno != EEXIST)
        return -errno;
    memcpy(s->old_key, old, sizeof(old));
    return fsync(s->dir_fd) < 0 ? -errno : 0;
}

static int save_public(struct signer *s)
{
    int r = keep_old_public(s, s->public_key);
    if (r != 0)
        return r < 0 ? r : 0;
    r = save_pem(s->dir_fd, PUBLIC_TEMPORARY, 0644, s->key, false);
    if (r < 0)
        return r;
    return move_durably(s->dir_fd, PUBLIC_TEMPORARY, PUBLIC_FILE);
}

static bool has_signed(int dir, const char *name, const struct checkpoint *c,
                       uint8_t ret[CHECKPOINT_KEY_SIZE])
{
    EVP_PKEY *key = read_pem(dir, name, false);
    bool good = sign_key_public(key, ret) && sign_key_verifies(key, c, c->signature);
    EVP_PKEY_free(key);
    return good;
}

/* Calls fn with the name of every earlier public key until it returns true. */
static size_t for_each_old(const struct signer *s,
                           bool (*fn)(const struct signer *s, const char *name, void *arg),
                           void *arg)
{
    size_t n = 0;
    int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (strncmp(e->d_name, PUBLIC_FILE ".", strlen(PUBLIC_FILE ".")) != 0)
            continue;
        n++;
        if (fn && fn(s, e->d_name, arg))
            break;
    }
    if (dir)
        closedir(dir);
    return n;
}

size_t sign_key_count_old(const struct signer *s)
{
    return for_each_old(s, NULL, NULL);
}

static bool take_signer_of_last(const struct signer *s, const char *name, void *ret)
{
    uint8_t key[CHECKPOINT_KEY_SIZE];
    bool found = has_signed(s->dir_fd, name, &s->last, key);
    if (found)
        memcpy(ret, key, sizeof(key));
    return found;
}

void sign_key_find_old(const struct signer *s, uint8_t ret[CHECKPOINT_KEY_SIZE])
{
    memcpy(ret, s->old_key, CHECKPOINT_KEY_SIZE);
    if (checkpoint_changes_key(&s->last))
        memcpy(ret, s->last.new_key, CHECKPOINT_KEY_SIZE);
    else if (s->last.seq)
        for_each_old(s, take_signer_of_last, ret);
}

/* --- all of it */

int sign_key_open(struct signer *s, struct error *err)
{
    struct stat st;
    int r = finish_rotation(s);
    if (r < 0)
        return error_set(err, ERROR_UNAVAILABLE, -r, "warden/" NEXT_FILE);
    bool there = fstatat(s->dir_fd, KEY_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT)
        return error_set(err, ERROR_UNAVAILABLE, errno, "open warden/" KEY_FILE);
    EVP_PKEY *key = there ? load_key(s->dir_fd, &st, err) : make_key(s->dir_fd, err);
    if (!key)
        return -EINVAL;
    s->secret = key_memory_new(CHECKPOINT_KEY_SIZE);
    r = s->secret ? sign_key_split(key, s->secret, &s->key) : -errno;
    EVP_PKEY_free(key);
    if (r < 0 || !sign_key_public(s->key, s->public_key))
        return error_set(err, ERROR_INTERNAL, r < 0 ? -r : 0, "keep the audit's key in memory");
    r = save_public(s);
    return r < 0 ? error_set(err, ERROR_UNAVAILABLE, -r, "write warden/" PUBLIC_FILE) : 0;
}

int sign_key_prepare(struct signer *s, EVP_PKEY **ret)
{
    EVP_PKEY *next = make_next(s->dir_fd);
    if (!next)
        return errno ? -errno : -EIO;
    fault_point("sign.next-made");
    int r = keep_old_public(s, NULL);
    fault_point("sign.old-kept");
    if (r < 0)
        EVP_PKEY_free(next);
    else
        *ret = next;
    return r;
}

int sign_key_settle(struct signer *s)
{
    int r = faccessat(s->dir_fd, NEXT_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT
                ? 0 /* in its place already: what failed came after */
                : move_durably(s->dir_fd, NEXT_FILE, KEY_FILE);
    if (r < 0)
        return r;
    fault_point("sign.key-moved");
    r = save_public(s);
    fault_point("sign.public-saved");
    return r;
}
