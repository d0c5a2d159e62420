#include "cli/audit-evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/output.h"
#include "guard/audit-chain.h"
#include "libsbx/sbx.h"

#define KEY_FILE_MAX        (16 * 1024)
#define CHECKPOINT_FILE_MAX (256 * 1024 * 1024)

void evidence_done(struct evidence *e)
{
    free(e->known);
    *e = (struct evidence){0};
}

/* --- the key */

static bool parse_pem(const char *text, size_t len, uint8_t ret[CHECKPOINT_KEY_SIZE])
{
    BIO *bio = BIO_new_mem_buf(text, (int)len);
    EVP_PKEY *key = bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : NULL;
    size_t size = CHECKPOINT_KEY_SIZE;
    bool good = key && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519 &&
                EVP_PKEY_get_raw_public_key(key, ret, &size) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    return good;
}

int evidence_load_key(struct evidence *e, const char *path, struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KEY_FILE_MAX);
    int r = fd_read_file_at(AT_FDCWD, path, &b);
    if (r < 0)
        return cli_set_error(err, "invalid_request", "read '%s': %s", path, strerror(-r));
    size_t len = b.len ? strcspn(b.data, " \r\n") : 0;
    if (!b.len ||
        (!hex_parse(b.data, len, e->key, sizeof(e->key)) && !parse_pem(b.data, b.len, e->key)))
        return cli_set_error(err, "invalid_request", "'%s' holds no Ed25519 public key", path);
    e->has_key = true;
    snprintf(e->key_from, sizeof(e->key_from), "%s", path);
    return 0;
}

/* --- checkpoints */

static void add(struct evidence *e, const struct checkpoint *c)
{
    e->known = xrealloc(e->known, (e->n_known + 1) * sizeof(*e->known));
    e->known[e->n_known++] = *c;
}

/* The first checkpoint in a line. */
static bool find_in_line(const char *line, size_t len, struct checkpoint *ret)
{
    for (size_t at = 0; at < len; at++) {
        if (!checkpoint_is_text(line + at, len - at))
            continue;
        const char *end = memchr(line + at, '}', len - at);
        return end && checkpoint_parse(line + at, (size_t)(end - (line + at)) + 1, ret);
    }
    return false;
}

int evidence_load_checkpoints(struct evidence *e, const char *path, struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(CHECKPOINT_FILE_MAX);
    size_t before = e->n_known;
    int r = fd_read_file_at(AT_FDCWD, path, &b);
    if (r < 0)
        return cli_set_error(err, "invalid_request", "read '%s': %s", path, strerror(-r));
    for (size_t at = 0; at < b.len;) {
        struct checkpoint c;
        const char *end = memchr(b.data + at, '\n', b.len - at);
        size_t len = end ? (size_t)(end - (b.data + at)) : b.len - at;
        if (find_in_line(b.data + at, len, &c))
            add(e, &c);
        at += len + 1;
    }
    if (e->n_known == before)
        return cli_set_error(err, "invalid_request", "'%s' holds no checkpoint", path);
    return 0;
}

int evidence_load_last(struct evidence *e, const char *path, struct sbx_error *err)
{
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT
                   ? 0
                   : cli_set_error(err, "invalid_request", "open '%s': %s", path, strerror(errno));
    struct checkpoint newest = {0};
    for (off_t i = 0; i < 2; i++) {
        struct checkpoint_slot slot;
        uint8_t check[CHECKPOINT_HASH_SIZE];
        if (pread(fd, &slot, sizeof(slot), i * CHECKPOINT_SLOT_SIZE) != sizeof(slot))
            continue;
        EVP_Digest(&slot, offsetof(struct checkpoint_slot, check), check, NULL, EVP_sha256(), NULL);
        if (memcmp(check, slot.check, sizeof(check)) == 0 && slot.checkpoint.seq > newest.seq)
            newest = slot.checkpoint;
    }
    if (newest.seq)
        add(e, &newest);
    return 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = ((const struct checkpoint *)a)->seq, y = ((const struct checkpoint *)b)->seq;
    return x < y ? -1 : x > y;
}

int evidence_check(struct evidence *e, struct sbx_error *err)
{
    struct audit_key *key = e->has_key ? audit_key_new(e->key) : NULL;
    const struct checkpoint *bad = NULL;
    if (e->n_known)
        qsort(e->known, e->n_known, sizeof(*e->known), compare);
    for (size_t i = 0; key && !bad && i < e->n_known; i++)
        if (!audit_key_verifies(key, &e->known[i]))
            bad = &e->known[i];
    audit_key_free(key);
    if (!bad)
        return 0;
    return cli_set_error(err, "invalid_request",
                         "the kept checkpoint of record %llu is not signed with the key of %s",
                         (unsigned long long)bad->seq, e->key_from);
}
