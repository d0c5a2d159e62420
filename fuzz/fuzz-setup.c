/* SPDX-License-Identifier: Apache-2.0 */
/* What agents and their clients hand to sbx: the first byte says which. 'h' is the JSON of a hook,
 * a digit the configuration of a client, into which our entry is put twice: the second time must
 * change nothing. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/hook-call.h"
#include "cli/mcp-client.h"
#include "libsbx/sbx.h"

#define FILE_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_hook(const char *text, size_t len)
{
    struct error err = {0};
    struct hook_call h = {0};
    _cleanup_json_ json_t *input = json_parse_object(text, len, &err);
    if (input && hook_call_parse(input, &h, &err) >= 0)
        assert(h.call.tool && h.call.n_paths <= HOOK_PATHS_MAX);
    hook_call_done(&h);
}

static void fuzz_client(const struct mcp_client *client, const char *text, size_t len)
{
    static const struct mcp_target target = {.command = "/usr/sbin/mas-sandboxd"};
    struct sbx_error err;
    _cleanup_strbuf_ struct strbuf once = STRBUF_INIT(FILE_MAX), twice = STRBUF_INIT(FILE_MAX);
    if (client->merge(text, len, &target, &once, &err) < 0)
        return;
    assert(client->merge(once.data, once.len, &target, &twice, &err) >= 0);
    assert(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    _cleanup_free_ char *text = xstrndup((const char *)data + 1, size - 1);
    size_t len = strlen(text);
    if (data[0] == 'h')
        fuzz_hook(text, len);
    else
        fuzz_client(&mcp_clients[data[0] % n_mcp_clients], text, len);
    return 0;
}
