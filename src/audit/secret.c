/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of what may be secret. An environment variable or a line that was typed is often short,
 * and a plain hash of something short can be guessed by a reader of the record. So those are
 * hashed under a key of this state directory: equal ones look equal, and only a holder of the key
 * can try guesses. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "audit/internal.h"

#define KEY_FILE   "audit-hash.key"
#define BLOCK_SIZE 64

/* --- the key */

static int read_key(const char *path, uint8_t key[AUDIT_SECRET_SIZE])
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    return read(fd, key, AUDIT_SECRET_SIZE) == AUDIT_SECRET_SIZE ? 0 : -EIO;
}

/* Under another name first: a kill in between leaves no half of it. */
static int make_key(const char *path, uint8_t key[AUDIT_SECRET_SIZE])
{
    _cleanup_free_ char *fresh = xasprintf("%s.new", path);
    if (getrandom(key, AUDIT_SECRET_SIZE, 0) != AUDIT_SECRET_SIZE)
        return -EIO;
    _cleanup_close_ int fd =
        open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    if (write(fd, key, AUDIT_SECRET_SIZE) != AUDIT_SECRET_SIZE || fsync(fd) < 0 ||
        rename(fresh, path) < 0)
        return errno ? -errno : -EIO;
    return 0;
}

int audit_secret_open(struct audit *a, const char *dir, struct error *err)
{
    _cleanup_free_ char *path = xasprintf("%s/" KEY_FILE, dir);
    int r = read_key(path, a->secret);
    if (r == -ENOENT)
        r = make_key(path, a->secret);
    return r < 0 ? error_set(err, ERROR_UNAVAILABLE, -r, "audit: %s", path) : 0;
}

/* --- hashing */

static void hash_pad(struct sha256 *s, const uint8_t key[AUDIT_SECRET_SIZE], uint8_t pad)
{
    uint8_t block[BLOCK_SIZE];
    memset(block, pad, sizeof(block));
    for (size_t i = 0; i < AUDIT_SECRET_SIZE; i++)
        block[i] ^= key[i];
    sha256_init(s);
    sha256_update(s, block, sizeof(block));
}

/* HMAC-SHA-256 of the text of a plain digest, so that long inputs are hashed once and fast. */
void audit_digest_keyed(const struct audit *a, char digest[AUDIT_DIGEST_SIZE])
{
    uint8_t hash[SHA256_SIZE];
    struct sha256 s;
    hash_pad(&s, a->secret, 0x36);
    sha256_update(&s, digest, strlen(digest));
    sha256_final(&s, hash);
    hash_pad(&s, a->secret, 0x5c);
    sha256_update(&s, hash, sizeof(hash));
    sha256_final(&s, hash);
    memcpy(digest, "keyed:", 6);
    hex_format(hash, sizeof(hash), digest + 6);
}

struct audit_stream {
    EVP_MD_CTX *ctx;
    uint64_t bytes;
};

static void require_crypto(bool good)
{
    if (!good)
        abort();
}

void audit_stream_add(struct audit_stream **s, const void *data, size_t len)
{
    if (!*s) {
        *s = new0(struct audit_stream);
        (*s)->ctx = EVP_MD_CTX_new();
        require_crypto((*s)->ctx && EVP_DigestInit_ex((*s)->ctx, EVP_sha256(), NULL));
    }
    require_crypto(EVP_DigestUpdate((*s)->ctx, data, len));
    (*s)->bytes += len;
}

uint64_t audit_stream_end(struct audit_stream *s, char out[AUDIT_DIGEST_SIZE])
{
    uint8_t hash[CHECKPOINT_HASH_SIZE];
    if (!s) {
        audit_digest("", 0, out);
        return 0;
    }
    uint64_t bytes = s->bytes;
    require_crypto(EVP_DigestFinal_ex(s->ctx, hash, NULL));
    memcpy(out, "sha256:", 7);
    hex_format(hash, sizeof(hash), out + 7);
    EVP_MD_CTX_free(s->ctx);
    free(s);
    return bytes;
}
