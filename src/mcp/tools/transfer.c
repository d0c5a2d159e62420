/* SPDX-License-Identifier: Apache-2.0 */
/* upload_file and download_file: bytes as base64, in bounded parts. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "mcp/tools/file-call.h"
#include "mcp/tools/result.h"
#include "mcp/tools/tools.h"

static int check_size(size_t bytes, size_t max, struct error *err)
{
    if (bytes <= max)
        return 0;
    return error_set(err, ERROR_TOO_LARGE, 0, "%zu bytes are more than %zu (mcp_transfer_bytes)",
                     bytes, max);
}

/* --- in */

void tool_upload_file(struct mcp_call *call)
{
    struct error err = {0};
    const json_t *args = mcp_call_arguments(call);
    const json_t *encoded = json_object_get(args, "content_base64");
    _cleanup_free_ char *data = NULL;
    size_t len = 0;
    int r = base64_decode(json_string_value(encoded), json_string_length(encoded), &data, &len);
    if (r < 0)
        r = error_field(&err, "content_base64", "'content_base64' is not base64");
    if (r >= 0)
        r = check_size(len, mcp_call_config(call)->transfer_bytes, &err);
    if (r < 0) {
        result_fail(call, &err,
                    err.code == ERROR_TOO_LARGE ? "Send it in parts, the later ones with "
                                                  "\"append\": true."
                                                : NULL);
        return;
    }
    struct file_call c = {.call = call,
                          .path = json_string_value(json_object_get(args, "path")),
                          .finish_bytes = file_call_finish_written,
                          .number = len};
    const char *mode = json_is_true(json_object_get(args, "executable")) ? "755" : NULL;
    bool append = json_is_true(json_object_get(args, "append"));
    file_call_start(&c, file_op_write(c.path, mode, append), data, len);
}

/* --- out: one byte more than is asked for tells whether that was all */

static void finish_download(struct file_call *c, const struct strbuf *b)
{
    size_t len, n = b->len < c->max_bytes - 1 ? b->len : c->max_bytes - 1;
    _cleanup_free_ char *encoded = base64_encode(b->data ? b->data : "", n, &len);
    bool end = b->len == n;
    uint64_t next = c->number + n;
    _cleanup_free_ char *text =
        xasprintf("%zu bytes of %s from offset %llu, in content_base64%s", n, c->path,
                  (unsigned long long)c->number, end ? "; that is its end" : "; there is more");
    result_finish(c->call,
                  json_pack("{s:s, s:o, s:I, s:I, s:I, s:b}", "path", c->path, "content_base64",
                            json_stringn_nocheck(encoded, len), "offset", (json_int_t)c->number,
                            "bytes", (json_int_t)n, "next_offset", (json_int_t)next, "end", end),
                  text);
}

void tool_download_file(struct mcp_call *call)
{
    struct error err = {0};
    const json_t *args = mcp_call_arguments(call), *max = json_object_get(args, "max_bytes");
    size_t most = mcp_call_config(call)->transfer_bytes;
    size_t want = max ? (size_t)json_integer_value(max) : most;
    char offset[24], length[24];
    if (check_size(want, most, &err) < 0) {
        result_fail(call, &err, "Read it in parts, each from the next_offset of the one before.");
        return;
    }
    struct file_call c = {.call = call,
                          .path = json_string_value(json_object_get(args, "path")),
                          .finish_bytes = finish_download,
                          .max_bytes = want + 1,
                          .number = (uint64_t)json_integer_value(json_object_get(args, "offset"))};
    snprintf(offset, sizeof(offset), "%llu", (unsigned long long)c.number);
    snprintf(length, sizeof(length), "%zu", want + 1);
    file_call_start(&c, file_op_read(c.path, offset, length), NULL, 0);
}
