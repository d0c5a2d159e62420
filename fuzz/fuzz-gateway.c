/* SPDX-License-Identifier: Apache-2.0 */
/* CONNECT lines and host rules. The first line of the input is a rule, the rest a CONNECT line.
 * What was parsed is one spelling of one place: parsing its own text again gives the same. No name
 * that passes is one that a resolver would read as a number. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "gateway/rule.h"
#include "base/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

static void check_target(const struct target *t)
{
    char line[GATEWAY_LINE_MAX];
    struct target again;
    struct in_addr number;
    bool v6 = t->is_address && t->address.family == AF_INET6;
    int n =
        snprintf(line, sizeof(line), v6 ? "CONNECT [%s] %u" : "CONNECT %s %u", t->host, t->port);
    expect(gateway_parse_connect(line, (size_t)n, &again) == 0);
    expect(strcmp(again.host, t->host) == 0 && again.port == t->port);
    expect(again.is_address == t->is_address);
    expect(t->port != 0);
    if (!t->is_address)
        expect(inet_aton(t->host, &number) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\n', size);
    size_t rule_len = end ? (size_t)(end - data) : 0;
    _cleanup_free_ char *rule = xstrndup((const char *)data, rule_len);
    const char *line = (const char *)data + rule_len + (end != NULL);
    struct rule_list rules = {0};
    struct target t;
    rule_list_add(&rules, rule);
    if (gateway_parse_connect(line, size - (size_t)(line - (const char *)data), &t) == 0) {
        check_target(&t);
        if (rule_check_host(&rules, false, &t) == GATEWAY_OK)
            expect(rules.n == 1);
        struct address a = t.address;
        if (t.is_address && rule_check_address(&rules, &t, &a) == GATEWAY_OK)
            expect(address_classify(&a) != ADDRESS_FORBIDDEN);
    }
    rule_list_done(&rules);
    return 0;
}
