/* SPDX-License-Identifier: Apache-2.0 */
/* Validation of hostile text: what it writes is UTF-8 that shows, and looking again finds nothing
 * more to strip. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "validate/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_forms(const struct validation *v)
{
    if (utf8_valid_prefix(v->sanitized.data ? v->sanitized.data : "", v->sanitized.len) !=
        v->sanitized.len)
        abort();
    for (size_t pos = 0; pos < v->sanitized.len;) {
        int32_t cp = validate_next(v->sanitized.data, v->sanitized.len, &pos);
        enum char_class class = validate_class(cp);
        if (cp != '\n' && cp != '\t' && cp != '\r' &&
            (class == CHAR_CONTROL || class == CHAR_BIDI || class == CHAR_INVALID))
            abort();
    }
    for (size_t i = 0; i < v->n_matches; i++)
        if (strlen(v->matches[i].excerpt) > VALIDATE_EXCERPT_MAX)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct validate_limits limits = {65536, 1000};
    struct validation v;
    validate_text((const char *)data, size, &limits, &v);
    check_forms(&v);
    if (v.valid && v.threat > THREAT_LOW)
        abort();
    for (size_t i = 0; i < v.n_matches; i++)
        if (v.matches[i].offset > size || v.matches[i].length > size - v.matches[i].offset)
            abort();
    json_decref(validation_to_json(&v));
    validation_done(&v);
    return 0;
}
