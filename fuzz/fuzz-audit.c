/* SPDX-License-Identifier: Apache-2.0 */
/* Exports from anywhere: the verifier reads them whole and in pieces, and must come to the same
 * end; records and checkpoints are taken apart as recovery and queries do. Nothing that the fuzzer
 * makes up may pass as genuine, because it has no key. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "audit/chain.h"
#include "audit/record.h"
#include "audit/verify.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t key[CHECKPOINT_KEY_SIZE] = {1};

static bool verify_whole(const char *text, size_t len, const uint8_t *with,
                         struct audit_verifier *v)
{
    audit_verifier_init(v, with);
    return audit_verify_text(v, text, len) && audit_verify_export_end(v);
}

static bool verify_pieces(const char *text, size_t len, struct audit_verifier *v)
{
    audit_verifier_init(v, NULL);
    for (size_t at = 0, n = 1; at < len && !v->failed; at += n, n = n * 2 % 61 + 1)
        audit_verify_feed(v, text + at, n < len - at ? n : len - at);
    return audit_verify_export_end(v);
}

static void take_apart(const char *line, size_t len)
{
    struct audit_member m;
    struct checkpoint c;
    char text[CHECKPOINT_TEXT_SIZE];
    size_t at = 0;
    while (audit_record_next(line, len, &at, &m))
        assert(m.text >= line && m.text + m.text_len <= line + len);
    audit_record_seq(line, len);
    if (checkpoint_parse(line, len, &c))
        assert(checkpoint_format(&c, text) == len && memcmp(text, line, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct audit_verifier a, b, c;
    const char *text = (const char *)data;
    bool whole = verify_whole(text, size, NULL, &a), pieces = verify_pieces(text, size, &b);
    assert(whole == pieces && a.seq == b.seq && a.n_records == b.n_records);
    assert(!verify_whole(text, size, key, &c));
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - (text + at)) : size - at;
        take_apart(text + at, len);
        at += len + 1;
    }
    audit_verifier_done(&a);
    audit_verifier_done(&b);
    audit_verifier_done(&c);
    return 0;
}
