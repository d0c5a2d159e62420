/* SPDX-License-Identifier: Apache-2.0 */
/* MCP messages from hostile bytes: the JSON-RPC parser, and the schema checker with a schema and a
 * value of the caller's. What was parsed is formatted again, and must be JSON. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "mcp/rpc.h"
#include "mcp/schema.h"

#define OUT_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct strbuf *out)
{
    struct error err = {0};
    json_t *again = json_parse_any(out->data, out->len, &err);
    /* An id may be of any size; json may not. */
    assert(again || strstr(err.message, "too big") || strstr(err.message, "integer"));
    json_decref(again);
}

static void fuzz_message(const struct rpc_text *t, size_t i)
{
    struct rpc_message m;
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(OUT_MAX);
    rpc_message_init(&m, t, i);
    if (m.kind == RPC_REQUEST && rpc_format_result(&out, m.id, m.params ? m.params : t->json) == 0)
        check_text(&out);
    if (m.kind == RPC_INVALID && rpc_format_error(&out, m.id, m.code, m.why) == 0)
        check_text(&out);
    rpc_message_done(&m);
}

/* [schema, value] */
static void fuzz_schema(const json_t *pair)
{
    struct error err = {0}, check_err = {0};
    struct schema *s = schema_compile(json_array_get(pair, 0), &err);
    assert(s || error_is_set(&err));
    if (s && schema_check(s, json_array_get(pair, 1), "arguments", &check_err) < 0)
        assert(error_is_set(&check_err));
    schema_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct rpc_text t;
    if (rpc_text_parse(&t, (const char *)data, size, &err) < 0)
        return 0;
    for (size_t i = 0; i < rpc_text_count(&t); i++)
        fuzz_message(&t, i);
    if (json_array_size(t.json) == 2)
        fuzz_schema(t.json);
    rpc_text_done(&t);
    return 0;
}
