/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/audit-evidence.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
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
#include "audit/chain.h"
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

static int load_key(const char *path, uint8_t ret[CHECKPOINT_KEY_SIZE], struct sbx_error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KEY_FILE_MAX);
    int r = fd_read_file_at(AT_FDCWD, path, &b);
    if (r < 0)
        return cli_set_error(err, "invalid_request", "read '%s': %s", path, strerror(-r));
    size_t len = b.len ? strcspn(b.data, " \r\n") : 0;
    if (!b.len ||
        (!hex_parse(b.data, len, ret, CHECKPOINT_KEY_SIZE) && !parse_pem(b.data, b.len, ret)))
        return cli_set_error(err, "invalid_request", "'%s' holds no Ed25519 public key", path);
    return 0;
}

/* What signed before lies beside it, as the warden names it. */
static int load_others(struct evidence *e, const char *path, struct sbx_error *err)
{
    _cleanup_free_ char *pattern = xasprintf("%s.*", path);
    glob_t found = {0};
    int r = 0;
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; r >= 0 && i < found.gl_pathc && e->n_others < AUDIT_OTHER_KEYS_MAX; i++)
            r = load_key(found.gl_pathv[i], e->others[e->n_others++], err);
    globfree(&found);
    return r;
}

int evidence_load_key(struct evidence *e, const char *path, struct sbx_error *err)
{
    if (load_key(path, e->key, err) < 0 || load_others(e, path, err) < 0)
        return -1;
    e->has_key = true;
    snprintf(e->key_from, sizeof(e->key_from), "%s", path);
    return 0;
}

/* --- checkpoints */

static void add_checkpoint(struct evidence *e, const struct checkpoint *c)
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
            add_checkpoint(e, &c);
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
        struct checkpoint_slot slot = {0};
        struct checkpoint found;
        if (pread(fd, &slot, sizeof(slot), i * CHECKPOINT_SLOT_SIZE) > 0 &&
            checkpoint_slot_read(&slot, &found) && found.seq > newest.seq)
            newest = found;
    }
    if (newest.seq)
        add_checkpoint(e, &newest);
    return 0;
}

static int compare_checkpoints(const void *a, const void *b)
{
    uint64_t x = ((const struct checkpoint *)a)->seq, y = ((const struct checkpoint *)b)->seq;
    return x < y ? -1 : x > y;
}

static bool checkpoint_verifies(const uint8_t public_key[CHECKPOINT_KEY_SIZE],
                                const struct checkpoint *c)
{
    struct audit_key *key = audit_key_new(public_key);
    bool good = key && (audit_key_verifies(key, c) || audit_key_takes_over(key, c));
    audit_key_free(key);
    return good;
}

static bool is_signed(const struct evidence *e, const struct audit_verifier *v,
                      const struct checkpoint *c)
{
    bool good = checkpoint_verifies(e->key, c);
    for (size_t i = 0; !good && i < e->n_others; i++)
        good = checkpoint_verifies(e->others[i], c);
    for (size_t i = 0; !good && i < v->n_segments; i++)
        good = checkpoint_verifies(v->segments[i].key, c);
    return good;
}

void evidence_sort(struct evidence *e)
{
    if (e->n_known)
        qsort(e->known, e->n_known, sizeof(*e->known), compare_checkpoints);
}

/* Before the base there is nothing to hold it against, and where something in the audit was wrong
 * the keys of later ones are not known. */
static bool was_compared(const struct audit_verifier *v, const struct checkpoint *c)
{
    return c->seq >= v->base_seq && (!v->failed || !v->has_header || c->seq <= v->seq);
}

int evidence_check(const struct evidence *e, const struct audit_verifier *v, struct sbx_error *err)
{
    const struct checkpoint *bad = NULL;
    for (size_t i = 0; e->has_key && !bad && i < e->n_known; i++)
        if (was_compared(v, &e->known[i]) && !is_signed(e, v, &e->known[i]))
            bad = &e->known[i];
    if (!bad)
        return 0;
    return cli_set_error(err, "invalid_request",
                         "the kept checkpoint of record %llu is not signed with the key of %s",
                         (unsigned long long)bad->seq, e->key_from);
}
