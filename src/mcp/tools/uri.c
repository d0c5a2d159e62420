/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools/uri.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digits.h"
#include "base/output-stream.h"
#include "base/path.h"
#include "sandbox/exec.h"

#define URI_MAX 8192

/* Heap, or NULL for bad escapes and NUL. */
static char *decode_text(const char *text, size_t len)
{
    _cleanup_free_ char *out = xcalloc(1, len + 1);
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)text[i];
        if (c == '%') {
            int high = i + 2 < len ? hex_value(text[i + 1]) : -1;
            int low = i + 2 < len ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return NULL;
            c = high << 4 | low;
            i += 2;
        }
        if (!c)
            return NULL;
        out[n++] = (char)c;
    }
    return steal_ptr(out);
}

/* "exec/ID/STREAM" */
static int parse_log(const char *rest, struct uri *u)
{
    size_t n = strcspn(rest, "/");
    if (strcmp(rest + n, "/stdout") == 0)
        u->stream = OUTPUT_STDOUT;
    else if (strcmp(rest + n, "/stderr") == 0)
        u->stream = OUTPUT_STDERR;
    else
        return -EINVAL;
    u->exec_id = n ? decode_text(rest, n) : NULL;
    return u->exec_id ? 0 : -EINVAL;
}

static int parse_rest(const char *rest, struct uri *u)
{
    if (strncmp(rest, "/exec/", 6) == 0)
        return parse_log(rest + 6, u);
    if (strncmp(rest, "/file/", 6) != 0)
        return -EINVAL;
    u->path = decode_text(rest + 5, strlen(rest + 5));
    return u->path && path_is_clean(u->path) ? 0 : -EINVAL;
}

int uri_parse(const char *text, struct uri *ret)
{
    struct uri u = {0};
    if (strncmp(text, URI_PREFIX, strlen(URI_PREFIX)) != 0 || strlen(text) > URI_MAX)
        return -EINVAL;
    const char *authority = text + strlen(URI_PREFIX);
    size_t n = strcspn(authority, "/");
    u.sandbox = n ? decode_text(authority, n) : NULL;
    if (!u.sandbox || parse_rest(authority + n, &u) < 0) {
        uri_done(&u);
        return -EINVAL;
    }
    *ret = u;
    return 0;
}

void uri_done(struct uri *u)
{
    free(u->sandbox);
    free(u->path);
    free(u->exec_id);
    *u = (struct uri){0};
}

char *uri_format_log(const struct exec *e, uint8_t stream)
{
    return xasprintf(URI_PREFIX "%s/exec/%s/%s", sandbox_id(exec_sandbox(e)), exec_id(e),
                     output_name(stream));
}
