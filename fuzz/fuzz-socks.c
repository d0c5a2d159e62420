/* SPDX-License-Identifier: Apache-2.0 */
/* What a client of SOCKS sends: a greeting and a request behind it. What is understood is within
 * the bytes that came, is not understood differently when more follow, and is a target that the
 * other readers of hosts would take, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/target.h"
#include "gateway/socks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

static void check_request(const uint8_t *data, size_t size)
{
    struct target t, again;
    enum socks_reply reply = SOCKS_OK;
    const char *why = NULL;
    char host[TARGET_TEXT_SIZE];
    ssize_t n = socks_parse_request(data, size, &t, &reply, &why);
    if (n <= 0) {
        expect(n == 0 || (reply != SOCKS_OK && why));
        return;
    }
    expect((size_t)n <= size && t.port != 0);
    target_format_host(&t, host);
    again = (struct target){0};
    expect(target_parse_host(host, strlen(host), &again) == 0 && strcmp(again.host, t.host) == 0);
    /* The same bytes and no more, where reading on would be noticed. */
    _cleanup_free_ uint8_t *copy = xcalloc(1, (size_t)n);
    memcpy(copy, data, (size_t)n);
    expect(socks_parse_request(copy, (size_t)n, &again, &reply, &why) == n);
    expect(strcmp(again.host, t.host) == 0 && again.port == t.port);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ssize_t n = socks_parse_greeting(data, size);
    expect(n <= (ssize_t)size);
    check_request(data, size);
    if (n > 0)
        check_request(data + n, size - (size_t)n);
    return 0;
}
