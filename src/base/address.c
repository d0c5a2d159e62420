/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"

static const char *const class_names[] = {
    [ADDRESS_PUBLIC] = "public",       [ADDRESS_LOOPBACK] = "loopback",
    [ADDRESS_PRIVATE] = "private",     [ADDRESS_LINK_LOCAL] = "link-local",
    [ADDRESS_METADATA] = "metadata",   [ADDRESS_RESERVED] = "reserved",
    [ADDRESS_FORBIDDEN] = "forbidden",
};
static_assert(ELEMENTS(class_names) == _ADDRESS_CLASS_MAX, "a name per class");

struct range {
    uint8_t net[16];
    uint8_t bits;
    uint8_t class;
};

/* First match wins: single addresses stand before the networks around them. */
static const struct range ranges4[] = {
    {{169, 254, 169, 254}, 32, ADDRESS_METADATA}, /* AWS, Google, Azure, OpenStack, ... */
    {{169, 254, 170, 2}, 32, ADDRESS_METADATA},   /* AWS container credentials */
    {{168, 63, 129, 16}, 32, ADDRESS_METADATA},   /* Azure's wire server, in a public network */
    {{100, 100, 100, 200}, 32, ADDRESS_METADATA}, /* Alibaba Cloud */
    {{192, 0, 0, 192}, 32, ADDRESS_METADATA},     /* Oracle Cloud */
    {{0, 0, 0, 0}, 8, ADDRESS_FORBIDDEN},         /* Linux connects 0.0.0.0 to loopback */
    {{10, 0, 0, 0}, 8, ADDRESS_PRIVATE},
    {{100, 64, 0, 0}, 10, ADDRESS_PRIVATE},
    {{127, 0, 0, 0}, 8, ADDRESS_LOOPBACK},
    {{169, 254, 0, 0}, 16, ADDRESS_LINK_LOCAL},
    {{172, 16, 0, 0}, 12, ADDRESS_PRIVATE},
    {{192, 0, 0, 0}, 24, ADDRESS_RESERVED},
    {{192, 0, 2, 0}, 24, ADDRESS_RESERVED},
    {{192, 88, 99, 0}, 24, ADDRESS_RESERVED}, /* 6to4 relays */
    {{192, 168, 0, 0}, 16, ADDRESS_PRIVATE},
    {{198, 18, 0, 0}, 15, ADDRESS_RESERVED},
    {{198, 51, 100, 0}, 24, ADDRESS_RESERVED},
    {{203, 0, 113, 0}, 24, ADDRESS_RESERVED},
    {{224, 0, 0, 0}, 4, ADDRESS_FORBIDDEN},
    {{255, 255, 255, 255}, 32, ADDRESS_FORBIDDEN},
    {{240, 0, 0, 0}, 4, ADDRESS_RESERVED},
};

static const struct range ranges6[] = {
    {{0}, 128, ADDRESS_FORBIDDEN},
    {{[15] = 1}, 128, ADDRESS_LOOPBACK},
    {{0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, [15] = 0x54}, 128, ADDRESS_METADATA}, /* AWS */
    {{0xfd, 0x20, 0x00, 0xce, [14] = 0x02, [15] = 0x54}, 128, ADDRESS_METADATA}, /* Google */
    {{0xfe, 0x80}, 10, ADDRESS_LINK_LOCAL},
    {{0xfe, 0xc0}, 10, ADDRESS_PRIVATE}, /* site-local, deprecated */
    {{0xfc}, 7, ADDRESS_PRIVATE},
    {{0xff}, 8, ADDRESS_FORBIDDEN},
    {{0x20, 0x01}, 23, ADDRESS_RESERVED}, /* Teredo, benchmarking, ORCHID, ... */
    {{0x20, 0x01, 0x0d, 0xb8}, 32, ADDRESS_RESERVED},
    {{0x3f, 0xff}, 20, ADDRESS_RESERVED},
    {{0x20}, 3, ADDRESS_PUBLIC}, /* the only part of the space that is assigned */
};

/* Where an IPv6 form hides an IPv4 address. The whole form counts as what the inner one is. */
static const struct {
    uint8_t net[16];
    uint8_t bits;
    uint8_t offset;
} carriers[] = {
    {{[10] = 0xff, [11] = 0xff}, 96, 12}, /* IPv4-mapped */
    {{0x00, 0x64, 0xff, 0x9b}, 96, 12},   /* NAT64 */
    {{0x20, 0x02}, 16, 2},                /* 6to4 */
};

static bool prefix_equal(const uint8_t *a, const uint8_t *b, size_t bits)
{
    size_t whole = bits / 8, rest = bits % 8;
    if (memcmp(a, b, whole) != 0)
        return false;
    return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

static enum address_class find_class(const struct range *ranges, size_t n, const uint8_t *bytes)
{
    for (size_t i = 0; i < n; i++)
        if (prefix_equal(bytes, ranges[i].net, ranges[i].bits))
            return ranges[i].class;
    return _ADDRESS_CLASS_MAX;
}

static enum address_class classify_ipv4(const uint8_t *bytes)
{
    enum address_class c = find_class(ranges4, ELEMENTS(ranges4), bytes);
    return c == _ADDRESS_CLASS_MAX ? ADDRESS_PUBLIC : c;
}

/* An ISATAP interface identifier: 0000:5efe or 0200:5efe before the IPv4 address. */
static bool is_isatap(const uint8_t *b)
{
    return (b[8] == 0x00 || b[8] == 0x02) && b[9] == 0x00 && b[10] == 0x5e && b[11] == 0xfe;
}

/* The IPv4 address inside, or NULL. */
static const uint8_t *find_carried(const uint8_t *bytes)
{
    for (size_t i = 0; i < ELEMENTS(carriers); i++)
        if (prefix_equal(bytes, carriers[i].net, carriers[i].bits))
            return bytes + carriers[i].offset;
    bool public = find_class(ranges6, ELEMENTS(ranges6), bytes) == ADDRESS_PUBLIC;
    return public && is_isatap(bytes) ? bytes + 12 : NULL;
}

static enum address_class classify_ipv6(const uint8_t *bytes)
{
    const uint8_t *carried = find_carried(bytes);
    if (carried)
        return classify_ipv4(carried);
    enum address_class c = find_class(ranges6, ELEMENTS(ranges6), bytes);
    return c == _ADDRESS_CLASS_MAX ? ADDRESS_RESERVED : c;
}

bool address_carried(const struct address *a, struct address *ret)
{
    const uint8_t *carried = a->family == AF_INET6 ? find_carried(a->bytes) : NULL;
    if (!carried)
        return false;
    *ret = (struct address){.family = AF_INET};
    memcpy(ret->bytes, carried, 4);
    return true;
}

enum address_class address_classify(const struct address *a)
{
    return a->family == AF_INET ? classify_ipv4(a->bytes) : classify_ipv6(a->bytes);
}

bool address_closed_network(size_t i, struct address *ret, size_t *ret_bits,
                            enum address_class *ret_class)
{
    size_t n4 = ELEMENTS(ranges4), n6 = ELEMENTS(ranges6) - 1; /* the last is the public part */
    *ret = (struct address){.family = i < n4 ? AF_INET : AF_INET6};
    if (i < n4 + n6) {
        const struct range *r = i < n4 ? &ranges4[i] : &ranges6[i - n4];
        memcpy(ret->bytes, r->net, sizeof(r->net));
        *ret_bits = r->bits;
        *ret_class = (enum address_class)r->class;
        return true;
    }
    i -= n4 + n6;
    if (i >= ELEMENTS(carriers))
        return false;
    memcpy(ret->bytes, carriers[i].net, sizeof(carriers[i].net));
    *ret_bits = carriers[i].bits;
    *ret_class = ADDRESS_RESERVED;
    return true;
}

enum address_class address_class_of_prefix(const struct address *net, size_t bits)
{
    static const struct address assigned = {.family = AF_INET6, .bytes = {0x20}};
    struct address closed;
    size_t closed_bits;
    enum address_class class;
    for (size_t i = 0; address_closed_network(i, &closed, &closed_bits, &class); i++)
        if (closed.family == net->family && closed_bits <= bits &&
            prefix_equal(net->bytes, closed.bytes, closed_bits))
            return class;
    if (net->family == AF_INET6 && bits >= 3 && !prefix_equal(net->bytes, assigned.bytes, 3))
        return ADDRESS_RESERVED;
    return ADDRESS_PUBLIC;
}

const char *address_class_name(enum address_class c)
{
    return c < _ADDRESS_CLASS_MAX ? class_names[c] : "unknown";
}

static void set_ipv6(const uint8_t bytes[16], struct address *ret)
{
    *ret = (struct address){.family = AF_INET6};
    memcpy(ret->bytes, bytes, 16);
    if (prefix_equal(bytes, carriers[0].net, carriers[0].bits)) {
        *ret = (struct address){.family = AF_INET};
        memcpy(ret->bytes, bytes + 12, 4);
    }
}

int address_parse(const char *text, struct address *ret)
{
    uint8_t bytes[16] = {0};
    /* inet_pton() takes no octal, hexadecimal, short or zoned forms; "01.2.3.4" is refused too. */
    if (inet_pton(AF_INET, text, bytes) == 1) {
        *ret = (struct address){.family = AF_INET};
        memcpy(ret->bytes, bytes, 4);
        return 0;
    }
    if (inet_pton(AF_INET6, text, bytes) != 1)
        return -EINVAL;
    set_ipv6(bytes, ret);
    return 0;
}

int address_from_sockaddr(const struct sockaddr *sa, struct address *ret)
{
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)sa;
        *ret = (struct address){.family = AF_INET};
        memcpy(ret->bytes, &in->sin_addr, 4);
        return 0;
    }
    if (sa->sa_family != AF_INET6)
        return -EAFNOSUPPORT;
    const struct sockaddr_in6 *in6 = (const void *)sa;
    set_ipv6(in6->sin6_addr.s6_addr, ret);
    return 0;
}

socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret)
{
    *ret = (struct sockaddr_storage){0};
    if (a->family == AF_INET) {
        struct sockaddr_in *in = (void *)ret;
        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, a->bytes, 4);
        return sizeof(*in);
    }
    struct sockaddr_in6 *in6 = (void *)ret;
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, a->bytes, 16);
    return sizeof(*in6);
}

void address_format(const struct address *a, char out[ADDRESS_TEXT_SIZE])
{
    if (!inet_ntop(a->family, a->bytes, out, ADDRESS_TEXT_SIZE))
        out[0] = 0;
}

size_t address_bits(const struct address *a)
{
    return a->family == AF_INET ? 32 : 128;
}

bool address_in_prefix(const struct address *a, const struct address *net, size_t bits)
{
    return a->family == net->family && bits <= address_bits(a) &&
           prefix_equal(a->bytes, net->bytes, bits);
}
