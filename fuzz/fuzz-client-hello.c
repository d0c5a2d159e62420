/* SPDX-License-Identifier: Apache-2.0 */
/* The first message of a TLS client. A name that was found is the same however many bytes follow,
 * and was not there before its message was whole. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/client-hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char name[SERVER_NAME_SIZE], other[SERVER_NAME_SIZE];
    if (size == 0 || data[0] != CLIENT_HELLO_TLS)
        return 0;
    enum client_hello whole = client_hello_parse(data, size, name);
    if (whole == HELLO_NAME)
        expect(strlen(name) > 0 && strlen(name) < SERVER_NAME_SIZE);
    /* From the first half on, the answer changes once: from "more" to what it stays. */
    _cleanup_free_ uint8_t *half = xcalloc(1, size / 2 + 1);
    memcpy(half, data, size / 2);
    enum client_hello before = size / 2 ? client_hello_parse(half, size / 2, other) : HELLO_MORE;
    if (before == HELLO_NAME)
        expect(whole == HELLO_NAME && strcmp(name, other) == 0);
    if (before == HELLO_BAD)
        expect(whole == HELLO_BAD);
    return 0;
}
