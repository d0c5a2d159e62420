/* SPDX-License-Identifier: Apache-2.0 */
/* Values in the daemon's JSON: members by name, and bytes that may be carried as text or base64. */
#include "libsbx/internal.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

json_t *libsbx_parse(const char *data, size_t len, struct sbx_error *err)
{
    json_error_t e;
    json_t *root = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (json_is_object(root))
        return root;
    libsbx_fail(err, "internal", "the daemon's answer is not a JSON object%s%s", root ? "" : ": ",
                root ? "" : e.text);
    json_decref(root);
    return NULL;
}

char *libsbx_dump(const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    return text ? text : xstrdup("null");
}

char *libsbx_dup_member(const json_t *obj, const char *key)
{
    const char *s = json_string_value(json_object_get(obj, key));
    return s ? xstrdup(s) : NULL;
}

/* NULL when the text is not base64. */
static char *decode_base64(const char *text, size_t len, size_t *ret_len)
{
    if (len % 4 != 0 || len > INT_MAX)
        return NULL;
    char *out = xcalloc(len / 4 * 3 + 1, 1);
    int n = EVP_DecodeBlock((unsigned char *)out, (const unsigned char *)text, (int)len);
    if (n < 0) {
        free(out);
        return NULL;
    }
    for (size_t pad = 0; pad < 2 && pad < len && text[len - 1 - pad] == '='; pad++)
        n--; /* EVP_DecodeBlock counts the padding as zero bytes */
    out[n] = 0;
    *ret_len = (size_t)n;
    return out;
}

char *libsbx_bytes_member(const json_t *obj, const char *key, size_t *ret_len)
{
    _cleanup_free_ char *encoded_key = xasprintf("%s_base64", key);
    const json_t *encoded = json_object_get(obj, encoded_key);
    if (json_is_string(encoded)) {
        char *bytes =
            decode_base64(json_string_value(encoded), json_string_length(encoded), ret_len);
        if (bytes)
            return bytes;
    }
    const json_t *plain = json_object_get(obj, key);
    size_t len = json_is_string(plain) ? json_string_length(plain) : 0;
    char *out = xcalloc(len + 1, 1);
    if (len)
        memcpy(out, json_string_value(plain), len);
    *ret_len = len;
    return out;
}

bool libsbx_int_member(const json_t *obj, const char *key, int *ret)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_integer(v))
        return false;
    json_int_t n = json_integer_value(v);
    if (n < INT_MIN || n > INT_MAX)
        return false;
    *ret = (int)n;
    return true;
}

static char *dup_or_empty(const json_t *obj, const char *key)
{
    char *s = libsbx_dup_member(obj, key);
    return s ? s : xstrdup("");
}

void libsbx_exec_result_parse(const json_t *obj, struct sbx_exec_result *ret)
{
    struct sbx_exec_result r = {.duration_ms = -1};
    r.stdout_data = libsbx_bytes_member(obj, "stdout", &r.stdout_len);
    r.stderr_data = libsbx_bytes_member(obj, "stderr", &r.stderr_len);
    r.status = dup_or_empty(obj, "status");
    r.error = dup_or_empty(obj, "error");
    r.has_exit_code = libsbx_int_member(obj, "exit_code", &r.exit_code);
    const json_t *duration = json_object_get(obj, "duration_ms");
    if (json_is_number(duration))
        r.duration_ms = (long long)json_number_value(duration);
    *ret = r;
}

void sbx_exec_result_done(struct sbx_exec_result *r)
{
    free(r->stdout_data);
    free(r->stderr_data);
    free(r->status);
    free(r->error);
    *r = (struct sbx_exec_result){0};
}
