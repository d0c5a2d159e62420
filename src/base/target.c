/* SPDX-License-Identifier: Apache-2.0 */
#include "base/target.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LABEL_MAX 63

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool label_ok(const char *label, size_t len)
{
    if (len == 0 || len > LABEL_MAX || label[0] == '-' || label[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_name_char(label[i]))
            return false;
    return true;
}

/* What inet_aton() would take for a part of an address: digits, or 0x and hexadecimal digits. */
static bool label_is_number(const char *label)
{
    if (strspn(label, "0123456789") == strlen(label))
        return true;
    return label[0] == '0' && label[1] == 'x' &&
           strspn(label + 2, "0123456789abcdef") == strlen(label + 2);
}

static int check_name(const char *name)
{
    const char *label = name;
    for (;;) {
        size_t len = strcspn(label, ".");
        if (!label_ok(label, len))
            return -EINVAL;
        if (!label[len])
            return label_is_number(label) ? -EPERM : 0;
        label += len + 1;
    }
}

int target_parse_host(const char *text, size_t len, struct target *ret)
{
    if (len == 0 || memchr(text, 0, len))
        return -EINVAL;
    if (text[0] == '[') {
        char inner[ADDRESS_TEXT_SIZE];
        if (len < 4 || text[len - 1] != ']' || len - 2 >= sizeof(inner))
            return -EINVAL;
        memcpy(inner, text + 1, len - 2);
        inner[len - 2] = 0;
        /* Brackets mean IPv6: no program writes "[127.0.0.1]". */
        if (!strchr(inner, ':') || address_parse(inner, &ret->address) < 0)
            return -EINVAL;
        ret->is_address = true;
        address_format(&ret->address, ret->host);
        return 0;
    }
    if (text[len - 1] == '.')
        len--;
    if (len == 0 || len > TARGET_HOST_MAX)
        return -EINVAL;
    for (size_t i = 0; i < len; i++)
        ret->host[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i]);
    ret->host[len] = 0;
    ret->is_address = !strchr(ret->host, ':') && address_parse(ret->host, &ret->address) == 0;
    return ret->is_address ? 0 : check_name(ret->host);
}

int target_parse_port(const char *text, size_t len, uint16_t *ret)
{
    uint32_t port = 0;
    if (len == 0 || len > 5 || text[0] == '0')
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port > UINT16_MAX)
        return -EINVAL;
    *ret = (uint16_t)port;
    return 0;
}

int target_cut_port(char *text, uint16_t *ret)
{
    char *close = strrchr(text, ']');
    char *colon = strrchr(text, ':');
    if (!colon || (close && colon < close) || (!close && strchr(text, ':') != colon))
        return 0;
    *colon = 0;
    return target_parse_port(colon + 1, strlen(colon + 1), ret);
}

void target_format_host(const struct target *t, char out[TARGET_TEXT_SIZE])
{
    bool bracketed = t->is_address && t->address.family == AF_INET6;
    snprintf(out, TARGET_TEXT_SIZE, bracketed ? "[%s]" : "%s", t->host);
}
