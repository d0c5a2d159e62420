/* SPDX-License-Identifier: Apache-2.0 */
/* What a name server answers. Its bytes are read no further than they go, addresses are added only
 * to a sound answer and no more than there is room for, and a question is its own sound answer once
 * it says that it is one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/alloc.h"
#include "gateway/dns.h"

#define ROOM 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

static void check_answer(const uint8_t *data, size_t size, enum dns_type type)
{
    struct address found[ROOM + 1];
    size_t n = 1;
    /* A copy of its very size, where reading on would be noticed. */
    _cleanup_free_ uint8_t *copy = xcalloc(1, size ? size : 1);
    memcpy(copy, data, size);
    enum dns_answer a =
        dns_answer_parse(copy, size, "www.example.test", type, 0x1234, found, ROOM, &n);
    expect(n >= 1 && n <= ROOM && (n == 1 || a == DNS_ADDRESSES));
    for (size_t i = 1; i < n; i++)
        expect(found[i].family == AF_INET || (found[i].family == AF_INET6 && type == DNS_AAAA));
}

static void check_question(const uint8_t *data, size_t size)
{
    char name[300] = {0};
    uint8_t question[DNS_QUESTION_MAX];
    size_t n = 0;
    for (size_t i = 0; i < size && i < sizeof(name) - 1; i++)
        name[i] = (char)(data[i] % 38 < 26   ? 'a' + data[i] % 38
                         : data[i] % 38 < 36 ? '0' + data[i] % 38 - 26
                                             : '.');
    size_t len = dns_question_format(name, DNS_A, 7, question);
    expect(len <= sizeof(question));
    if (!len)
        return;
    question[2] |= 0x80;
    size_t end = strlen(name);
    if (name[end - 1] == '.')
        name[end - 1] = 0;
    expect(dns_answer_parse(question, len, name, DNS_A, 7, NULL, 0, &n) == DNS_ADDRESSES && n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_answer(data, size, DNS_A);
    check_answer(data, size, DNS_AAAA);
    check_question(data, size);
    return 0;
}
