/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/gateway-proto.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/target.h"

static const char *const code_names[] = {
    [GATEWAY_OK] = "ok",
    [GATEWAY_HOST_NOT_ALLOWED] = "host_not_allowed",
    [GATEWAY_ADDRESS_NOT_ALLOWED] = "address_not_allowed",
    [GATEWAY_RESOLVE_FAILED] = "resolve_failed",
    [GATEWAY_CONNECT_FAILED] = "connect_failed",
    [GATEWAY_TIMEOUT] = "timeout",
    [GATEWAY_BAD_REQUEST] = "bad_request",
    [GATEWAY_NAME_MISMATCH] = "name_mismatch",
    [GATEWAY_ASK] = "approval_needed",
};
static_assert(ELEMENTS(code_names) == _GATEWAY_CODE_MAX, "a name per code");

const char *gateway_code_name(enum gateway_code code)
{
    return code < _GATEWAY_CODE_MAX ? code_names[code] : "unknown";
}

enum gateway_code gateway_code_find(const char *name)
{
    enum gateway_code c = GATEWAY_OK;
    while (c < _GATEWAY_CODE_MAX && strcmp(name, code_names[c]) != 0)
        c++;
    return c;
}

int gateway_parse_connect(const char *line, size_t len, struct target *ret)
{
    static const char verb[] = "CONNECT ";
    size_t verb_len = sizeof(verb) - 1;
    if (len <= verb_len || memcmp(line, verb, verb_len) != 0)
        return -EINVAL;
    const char *host = line + verb_len;
    const char *space = memchr(host, ' ', len - verb_len);
    if (!space)
        return -EINVAL;
    *ret = (struct target){0};
    int r = target_parse_host(host, (size_t)(space - host), ret);
    if (r < 0)
        return -EINVAL;
    return target_parse_port(space + 1, (size_t)(line + len - space - 1), &ret->port);
}
