/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "audit/chain.h"
#include "audit/record.h"

#define LINE_MAX_BYTES (2 * AUDIT_RECORD_MAX)
#define HEADER_START   "{\"mas_audit\":1,\"base_seq\":"
#define HEADER_2_START "{\"mas_audit\":2,\"base_seq\":"
#define FIRST_KEY      ",\"first_key\":\""

static const uint8_t zeros[CHECKPOINT_SIGNATURE_SIZE];

void audit_verifier_init(struct audit_verifier *v, const uint8_t *key)
{
    *v = (struct audit_verifier){.hasher = audit_hasher_new(), .rest = STRBUF_INIT(LINE_MAX_BYTES)};
    if (!key)
        return;
    v->key = audit_key_new(key);
    v->owns_key = true;
    v->key_origin = AUDIT_KEY_GIVEN;
}

void audit_verifier_done(struct audit_verifier *v)
{
    audit_hasher_free(v->hasher);
    strbuf_done(&v->rest);
    if (v->owns_key)
        audit_key_free(v->key);
    for (size_t i = 0; i < v->n_others; i++)
        audit_key_free(v->others[i]);
    audit_key_free(v->learned);
    free(v->segments);
    *v = (struct audit_verifier){0};
}

bool audit_verifier_add_key(struct audit_verifier *v, const uint8_t key[CHECKPOINT_KEY_SIZE])
{
    struct audit_key *k = v->n_others < AUDIT_OTHER_KEYS_MAX ? audit_key_new(key) : NULL;
    if (k)
        v->others[v->n_others++] = k;
    return k;
}

void audit_verifier_begin_with(struct audit_verifier *v, const uint8_t key[CHECKPOINT_KEY_SIZE])
{
    if (!v->learned && memcmp(key, zeros, CHECKPOINT_KEY_SIZE) != 0)
        v->learned = audit_key_new(key);
}

void audit_verifier_know(struct audit_verifier *v, const struct checkpoint *known, size_t n)
{
    v->known = known;
    v->n_known = n;
    v->next_known = 0;
}

static bool verifier_fail(struct audit_verifier *v, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static bool verifier_fail(struct audit_verifier *v, const char *fmt, ...)
{
    va_list ap;
    int n = v->line ? snprintf(v->reason, sizeof(v->reason), "line %" PRIu64 ": ", v->line) : 0;
    va_start(ap, fmt);
    vsnprintf(v->reason + n, sizeof(v->reason) - (size_t)n, fmt, ap);
    va_end(ap);
    v->failed = true;
    return false;
}

/* --- what was known before */

/* Called with each record: its hash must be the one that a known checkpoint has of it. */
static bool meet_known(struct audit_verifier *v)
{
    for (; v->next_known < v->n_known; v->next_known++) {
        const struct checkpoint *k = &v->known[v->next_known];
        if (k->seq > v->seq)
            return true;
        if (k->seq == v->seq && memcmp(k->head, v->hash, sizeof(v->hash)) != 0)
            return verifier_fail(v,
                                 "record %" PRIu64
                                 " or one before it is not the one that the known "
                                 "checkpoint %" PRIu64 " was signed over",
                                 v->seq, k->seq);
    }
    return true;
}

/* --- parts */

bool audit_verify_start(struct audit_verifier *v, uint64_t base_seq,
                        const uint8_t base[CHECKPOINT_HASH_SIZE])
{
    if (base_seq == 0 && memcmp(base, zeros, CHECKPOINT_HASH_SIZE) != 0)
        return verifier_fail(v, "the chain does not start from nothing");
    v->base_seq = v->seq = base_seq;
    memcpy(v->hash, base, sizeof(v->hash));
    v->has_header = true;
    return meet_known(v);
}

/* A search for the two members is enough: both are written by us in this form, and a record in
 * which a caller's text contains them has the quotes escaped. */
static bool tells_key_change(const char *record, size_t len)
{
    static const char kind[] = "\"kind\":\"key_change\"", what[] = "\"what\":\"signing key\"";
    return memmem(record, len, kind, sizeof(kind) - 1) &&
           memmem(record, len, what, sizeof(what) - 1);
}

bool audit_verify_record(struct audit_verifier *v, const char *record, size_t len, const char *more,
                         size_t more_len, const uint8_t hash[CHECKPOINT_HASH_SIZE])
{
    uint8_t computed[CHECKPOINT_HASH_SIZE];
    uint64_t seq = audit_record_seq(record, len), expected = v->seq + 1;
    if (v->base_seq && !v->last.seq)
        return verifier_fail(v, "the base %" PRIu64 " is not signed", v->base_seq);
    if (seq != expected && seq > expected)
        return verifier_fail(v, "records %" PRIu64 " to %" PRIu64 " are missing", expected,
                             seq - 1);
    if (seq != expected)
        return verifier_fail(v, "record %" PRIu64 " was expected, and something else is there",
                             expected);
    audit_hash(v->hasher, v->hash, seq, record, len, more, more_len, computed);
    if (memcmp(computed, hash, sizeof(computed)) != 0)
        return verifier_fail(v, "record %" PRIu64 " was changed, or its hash was", seq);
    v->seq = seq;
    memcpy(v->hash, computed, sizeof(v->hash));
    v->n_records++;
    v->footer = false;
    if (tells_key_change(record, len))
        v->key_change_seen = true;
    return meet_known(v);
}

/* --- whose signature it is */

/* Of all keys that sign, only those that the caller brought count as proof. A key that the
 * export itself names proves no more than that the export is consistent. */
static bool is_given(const struct audit_verifier *v, const struct audit_key *k)
{
    bool given = k == v->key && v->key_origin == AUDIT_KEY_GIVEN;
    for (size_t i = 0; !given && i < v->n_others; i++)
        given = k == v->others[i];
    return given;
}

/* Returns NULL for a key that is not known. */
static const struct audit_key *find_signer(const struct audit_verifier *v,
                                           const struct checkpoint *c)
{
    if (v->signed_with && audit_key_verifies(v->signed_with, c))
        return v->signed_with;
    if (audit_key_verifies(v->key, c))
        return v->key;
    for (size_t i = 0; i < v->n_others; i++)
        if (audit_key_verifies(v->others[i], c))
            return v->others[i];
    return v->learned && audit_key_verifies(v->learned, c) ? v->learned : NULL;
}

/* Segments tell which key vouches for which records, and on what grounds, so that a reader of
 * the result can see from where on an older key is the only witness. */
static void sign_segment(struct audit_verifier *v, uint64_t seq)
{
    struct audit_segment *s = v->n_segments ? &v->segments[v->n_segments - 1] : NULL;
    v->given_seen = v->given_seen || is_given(v, v->signed_with);
    if (seq <= v->base_seq || (s && s->last == seq))
        return;
    if (!s || !audit_key_is(v->signed_with, s->key)) {
        uint64_t first = s ? s->last + 1 : v->base_seq + 1;
        v->segments = xrealloc(v->segments, (v->n_segments + 1) * sizeof(*s));
        s = &v->segments[v->n_segments++];
        *s = (struct audit_segment){.first = first, .basis = v->basis};
        audit_key_public(v->signed_with, s->key);
    }
    s->last = seq;
}

/* The key that a checkpoint names as its new one signs from here on; false: it did not agree. */
static bool follow_key(struct audit_verifier *v, const struct checkpoint *c,
                       enum audit_key_basis basis)
{
    const struct audit_key *next = audit_key_is(v->key, c->new_key) ? v->key : NULL;
    for (size_t i = 0; !next && i < v->n_others; i++)
        next = audit_key_is(v->others[i], c->new_key) ? v->others[i] : NULL;
    struct audit_key *fresh = next ? NULL : audit_key_new(c->new_key);
    if (!next && !fresh)
        return false;
    if (!audit_key_takes_over(next ? next : fresh, c)) {
        audit_key_free(fresh);
        return false;
    }
    if (fresh) {
        audit_key_free(v->learned);
        v->learned = fresh;
    }
    v->signed_with = next ? next : fresh;
    v->basis = basis;
    v->given_seen = v->given_seen || is_given(v, v->signed_with);
    return true;
}

/* The old key could not sign; what the new one says has to fit what is here. */
static bool check_replaced(struct audit_verifier *v, const struct checkpoint *c, bool told)
{
    bool named = memcmp(c->old_key, zeros, sizeof(c->old_key)) != 0;
    if (memcmp(c->signature, zeros, sizeof(c->signature)) != 0 ||
        (named && v->signed_with && !audit_key_is(v->signed_with, c->old_key)))
        return verifier_fail(
            v, "checkpoint %" PRIu64 " replaces another key than the one before it", c->seq);
    if (!told)
        return verifier_fail(
            v, "checkpoint %" PRIu64 " replaces the key, and no record tells of it", c->seq);
    v->key_changed_at = v->last.seq;
    if (!follow_key(v, c, AUDIT_KEY_REPLACED))
        return verifier_fail(v, "the signature of checkpoint %" PRIu64 " is not right", c->seq);
    if (v->given_seen && !is_given(v, v->signed_with))
        return verifier_fail(v,
                             "at record %" PRIu64
                             " the key before was lost: from there on there is only "
                             "the word of another key, which was not given",
                             c->seq);
    return true;
}

/* Without a checkpoint that hands over, a change of the key is accepted only if a record tells of
 * it. */
static bool check_signer(struct audit_verifier *v, const struct checkpoint *c)
{
    const struct audit_key *by = find_signer(v, c);
    if (!by)
        return verifier_fail(v, "the signature of checkpoint %" PRIu64 " is not right", c->seq);
    bool changed = v->signed_with && by != v->signed_with;
    if (changed && (!v->key_change_seen || v->signed_with == v->key || by == v->learned))
        return verifier_fail(v,
                             "checkpoint %" PRIu64
                             " is signed with another key than the one before, and "
                             "no record tells of it",
                             c->seq);
    if (changed) {
        v->key_changed_at = v->last.seq;
        v->basis = AUDIT_KEY_RECORDED;
    }
    v->signed_with = by;
    return true;
}

static bool check_rotated(struct audit_verifier *v, const struct checkpoint *c)
{
    if (!audit_key_is(v->signed_with, c->old_key))
        return verifier_fail(v, "checkpoint %" PRIu64 " hands over from a key that did not sign it",
                             c->seq);
    if (!follow_key(v, c, AUDIT_KEY_ROTATED))
        return verifier_fail(v, "the new key's signature of checkpoint %" PRIu64 " is not right",
                             c->seq);
    return true;
}

static bool check_signature(struct audit_verifier *v, const struct checkpoint *c)
{
    if (!v->key)
        return true;
    if (c->purpose == CHECKPOINT_REPLACE) {
        if (!check_replaced(v, c, v->key_change_seen || c->seq <= v->base_seq))
            return false;
        sign_segment(v, c->seq);
        return true;
    }
    if (!check_signer(v, c))
        return false;
    sign_segment(v, c->seq); /* of the old key, where it is rotated here */
    return c->purpose == CHECKPOINT_ROTATE ? check_rotated(v, c) : true;
}

bool audit_verify_key_change(struct audit_verifier *v, const struct checkpoint *c)
{
    if (!checkpoint_changes_key(c) || c->seq >= v->base_seq || v->last.seq ||
        c->seq <= v->key_line_seq)
        return verifier_fail(v, "checkpoint %" PRIu64 " is not in its place", c->seq);
    v->key_line_seq = c->seq;
    return check_signature(v, c);
}

static bool check_link(struct audit_verifier *v, const struct checkpoint *c)
{
    uint8_t prev[CHECKPOINT_HASH_SIZE];
    if (v->last.seq && v->key_changed_at == v->last.seq && c->prev_seq == 0)
        return true;  /* what the lost key had signed last was lost with it */
    if (!v->last.seq) /* the first one shown: what it links to was dropped, or never was */
        return c->prev_seq < c->seq && (c->prev_seq == 0 || c->seq == v->base_seq)
                   ? true
                   : verifier_fail(v, "the checkpoint before %" PRIu64 " is missing", c->seq);
    audit_hash_checkpoint(&v->last, prev);
    if (c->prev_seq != v->last.seq || memcmp(prev, c->prev, sizeof(prev)) != 0)
        return verifier_fail(v,
                             "checkpoint %" PRIu64 " follows checkpoint %" PRIu64 ", not %" PRIu64
                             " as it is here: one is missing or was changed",
                             c->seq, c->prev_seq, v->last.seq);
    return true;
}

bool audit_verify_checkpoint(struct audit_verifier *v, const struct checkpoint *c)
{
    if (c->seq != v->seq || c->seq == 0)
        return verifier_fail(v, "checkpoint %" PRIu64 " is at record %" PRIu64, c->seq, v->seq);
    if (memcmp(c->head, v->hash, sizeof(c->head)) != 0)
        return verifier_fail(v, "checkpoint %" PRIu64 " is of other records", c->seq);
    if (!check_signature(v, c) || !check_link(v, c))
        return false;
    v->last = *c;
    v->key_change_seen = false;
    v->n_checkpoints++;
    v->footer = true;
    return true;
}

/* --- text */

size_t audit_header_format(const struct audit_header *h, char out[AUDIT_HEADER_SIZE])
{
    char base[CHECKPOINT_HEX_SIZE], key[CHECKPOINT_HEX_SIZE], first[CHECKPOINT_HEX_SIZE];
    bool two = memcmp(h->first_key, zeros, sizeof(h->first_key)) != 0;
    hex_format(h->first_key, sizeof(h->first_key), first);
    hex_format(h->base, sizeof(h->base), base);
    hex_format(h->key, sizeof(h->key), key);
    return (size_t)snprintf(out, AUDIT_HEADER_SIZE,
                            "%s%" PRIu64 ",\"base\":\"%s\",\"last\":%" PRIu64
                            ",\"key\":\"%s\"%s%s%s}",
                            two ? HEADER_2_START : HEADER_START, h->base_seq, base, h->last_seq,
                            key, two ? FIRST_KEY : "", two ? first : "", two ? "\"" : "");
}

static bool parse_header(const char *line, size_t len, struct audit_header *ret)
{
    char copy[AUDIT_HEADER_SIZE], again[AUDIT_HEADER_SIZE];
    char base[CHECKPOINT_HEX_SIZE], key[CHECKPOINT_HEX_SIZE];
    *ret = (struct audit_header){0};
    if (len >= sizeof(copy) || memchr(line, 0, len))
        return false;
    memcpy(copy, line, len);
    copy[len] = 0;
    if (sscanf(copy,
               "{\"mas_audit\":%*1[12],\"base_seq\":%20" SCNu64
               ",\"base\":\"%64[0-9a-f]\",\"last\":%20" SCNu64 ",\"key\":\"%64[0-9a-f]\"",
               &ret->base_seq, base, &ret->last_seq, key) != 4 ||
        !hex_parse(base, strlen(base), ret->base, sizeof(ret->base)) ||
        !hex_parse(key, strlen(key), ret->key, sizeof(ret->key)))
        return false;
    const char *first = strstr(copy, FIRST_KEY);
    size_t left = first ? strlen(first + strlen(FIRST_KEY)) : 0;
    if (first && (left < 2 || !hex_parse(first + strlen(FIRST_KEY), left - 2, ret->first_key,
                                         sizeof(ret->first_key))))
        return false;
    /* Written again it must be the same bytes. That way the header has one spelling, and nothing
     * can be hidden in what sscanf() skips. */
    return audit_header_format(ret, again) == len && memcmp(again, line, len) == 0;
}

/* A key given by the caller must be the one it names; where there were several, it is looked for
 * among all that sign. */
static bool take_key(struct audit_verifier *v, const struct audit_header *h)
{
    bool several = memcmp(h->first_key, zeros, sizeof(h->first_key)) != 0;
    memcpy(v->header_key, h->key, sizeof(h->key));
    audit_verifier_begin_with(v, h->first_key);
    if (v->key_origin == AUDIT_KEY_GIVEN)
        return several || audit_key_is(v->key, h->key)
                   ? true
                   : verifier_fail(v, "it names another key than the one given");
    v->key = audit_key_new(h->key);
    v->owns_key = true;
    return v->key ? true : verifier_fail(v, "it names a key that is none");
}

bool audit_verify_line(struct audit_verifier *v, const char *line, size_t len)
{
    uint8_t hash[CHECKPOINT_HASH_SIZE];
    struct checkpoint c;
    size_t record_len;
    if (v->failed)
        return false;
    v->line++;
    if (len > LINE_MAX_BYTES)
        return verifier_fail(v, "this line is too long for a record");
    if (!v->has_header) {
        struct audit_header h;
        if (!parse_header(line, len, &h))
            return verifier_fail(v, "this is not the first line of an exported audit");
        v->last_seq = h.last_seq;
        return take_key(v, &h) && audit_verify_start(v, h.base_seq, h.base);
    }
    if (checkpoint_is_text(line, len)) {
        if (!checkpoint_parse(line, len, &c))
            return verifier_fail(v, "this checkpoint is damaged");
        return !v->last.seq && c.seq < v->base_seq ? audit_verify_key_change(v, &c)
                                                   : audit_verify_checkpoint(v, &c);
    }
    if (!audit_line_parse(line, len, &record_len, hash))
        return verifier_fail(v, "this is neither a record with its hash nor a checkpoint");
    return audit_verify_record(v, line, record_len, "}", 1, hash);
}

static bool feed_rest(struct audit_verifier *v, const char *piece, size_t len)
{
    if (strbuf_append(&v->rest, piece, len) >= 0)
        return true;
    v->line++;
    return verifier_fail(v, "this line is too long for a record");
}

bool audit_verify_feed(struct audit_verifier *v, const char *piece, size_t len)
{
    const char *end;
    while (!v->failed && (end = memchr(piece, '\n', len))) {
        size_t n = (size_t)(end - piece);
        if (v->rest.len) {
            if (!feed_rest(v, piece, n) || !audit_verify_line(v, v->rest.data, v->rest.len))
                return false;
            strbuf_reset(&v->rest);
        } else if (!audit_verify_line(v, piece, n)) {
            return false;
        }
        piece += n + 1;
        len -= n + 1;
    }
    return !v->failed && (len == 0 || feed_rest(v, piece, len));
}

bool audit_verify_text(struct audit_verifier *v, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        if (!end) {
            v->line++;
            return verifier_fail(v, "the last line is cut off");
        }
        if (!audit_verify_line(v, text + at, (size_t)(end - text) - at))
            return false;
        at = (size_t)(end - text) + 1;
    }
    return true;
}

bool audit_verify_end(struct audit_verifier *v)
{
    if (v->failed)
        return false;
    if (v->rest.len)
        return verifier_fail(v, "the last line is cut off");
    v->line = 0;
    if (!v->has_header)
        return verifier_fail(v, "there is nothing");
    if (v->next_known < v->n_known)
        return verifier_fail(v,
                             "it ends with record %" PRIu64 ", but the known checkpoint %" PRIu64
                             " was signed over more: the end was cut off",
                             v->seq, v->known[v->n_known - 1].seq);
    if (v->signed_with && v->key_origin == AUDIT_KEY_GIVEN && !v->given_seen)
        return verifier_fail(v, "nothing in it is signed with the key given");
    return true;
}

bool audit_verify_export_end(struct audit_verifier *v)
{
    if (!audit_verify_end(v))
        return false;
    if (v->seq != v->last_seq)
        return verifier_fail(v, "it ends with record %" PRIu64 ", but its header says %" PRIu64,
                             v->seq, v->last_seq);
    if (!v->footer)
        return verifier_fail(v, "the signed footer is missing: the end was cut off");
    if (v->last.purpose == CHECKPOINT_EXPORT && v->signed_with &&
        !audit_key_is(v->signed_with, v->header_key))
        return verifier_fail(v, "its footer is not signed with the key that its header names");
    return true;
}
