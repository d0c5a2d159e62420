/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/socks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/target.h"

#define METHOD_NONE 0

enum { COMMAND_CONNECT = 1 };
enum { TYPE_IPV4 = 1, TYPE_NAME = 3, TYPE_IPV6 = 4 };

ssize_t socks_parse_greeting(const uint8_t *data, size_t len)
{
    if (len > 0 && data[0] != SOCKS_VERSION)
        return -EPROTO;
    if (len < 2 || len < 2 + (size_t)data[1])
        return 0;
    size_t size = 2 + (size_t)data[1];
    return memchr(data + 2, METHOD_NONE, size - 2) ? (ssize_t)size : -EPROTONOSUPPORT;
}

static int request_refuse(enum socks_reply *ret_reply, enum socks_reply reply, const char **ret_why,
                          const char *why)
{
    *ret_reply = reply;
    *ret_why = why;
    return -EPROTO;
}

/* The bytes of the address, which begins at data[4]; 0 while that is not known, -EPROTO. */
static ssize_t address_size(const uint8_t *data, size_t len)
{
    switch (data[3]) {
    case TYPE_IPV4:
        return 4;
    case TYPE_IPV6:
        return 16;
    case TYPE_NAME:
        return len > 4 ? 1 + data[4] : 0;
    default:
        return -EPROTO;
    }
}

/* An address becomes text and is parsed like any other host, so that one function decides what is
 * an address, and forms such as an IPv4 address inside IPv6 mean the same here as everywhere. */
static int parse_address(const uint8_t *data, struct target *ret)
{
    char ip[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 2];
    if (data[3] == TYPE_NAME)
        return target_parse_host((const char *)data + 5, data[4], ret);
    bool v6 = data[3] == TYPE_IPV6;
    inet_ntop(v6 ? AF_INET6 : AF_INET, data + 4, ip, sizeof(ip));
    int n = snprintf(text, sizeof(text), v6 ? "[%s]" : "%s", ip);
    return target_parse_host(text, (size_t)n, ret);
}

ssize_t socks_parse_request(const uint8_t *data, size_t len, struct target *ret,
                            enum socks_reply *ret_reply, const char **ret_why)
{
    *ret = (struct target){0};
    if (len < 4)
        return 0;
    ssize_t size = address_size(data, len);
    if (data[0] != SOCKS_VERSION || data[2] != 0)
        return request_refuse(ret_reply, SOCKS_FAILED, ret_why, "the request is malformed");
    if (data[1] != COMMAND_CONNECT)
        return request_refuse(ret_reply, SOCKS_BAD_COMMAND, ret_why,
                              "only CONNECT is carried here: no BIND, no UDP");
    if (size < 0)
        return request_refuse(ret_reply, SOCKS_BAD_ADDRESS, ret_why,
                              "the address is neither a name nor IPv4 nor IPv6");
    if (size == 0 || len < 4 + (size_t)size + 2)
        return 0;
    int r = parse_address(data, ret);
    ret->port = (uint16_t)(data[4 + size] << 8 | data[5 + size]);
    if (r == -EPERM)
        return request_refuse(ret_reply, SOCKS_NOT_ALLOWED, ret_why,
                              "a host that resolvers read as a number is not allowed");
    if (r < 0 || !ret->port)
        return request_refuse(ret_reply, SOCKS_FAILED, ret_why,
                              "the target is not a host and port that can be read");
    return 4 + size + 2;
}

/* The address that the connection is bound to stays zero: it is the host's, and not the sandbox's
 * to know. */
void socks_format_reply(enum socks_reply reply, uint8_t out[SOCKS_REPLY_SIZE])
{
    memset(out, 0, SOCKS_REPLY_SIZE);
    out[0] = SOCKS_VERSION;
    out[1] = (uint8_t)reply;
    out[3] = TYPE_IPV4;
}
