#include "gateway/gateway-proto.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

static const char *const code_names[] = {
    [GATEWAY_OK] = "ok",
    [GATEWAY_HOST_NOT_ALLOWED] = "host_not_allowed",
    [GATEWAY_ADDRESS_NOT_ALLOWED] = "address_not_allowed",
    [GATEWAY_RESOLVE_FAILED] = "resolve_failed",
    [GATEWAY_CONNECT_FAILED] = "connect_failed",
    [GATEWAY_TIMEOUT] = "timeout",
    [GATEWAY_BAD_REQUEST] = "bad_request",
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
