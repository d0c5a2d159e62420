/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses: what is one, what covers what, and what the operator's ceiling lets through.
 */
#include <errno.h>
#include <string.h>

#include "proto/net.h"
#include "tests/unit/tap.h"

static struct net_range range(const char *text)
{
    struct net_range r;
    if (net_range_parse(text, &r) < 0)
        memset(&r, 0, sizeof(r));
    return r;
}

static bool is_range(const char *text)
{
    struct net_range r;
    return net_range_parse(text, &r) == 0 && net_range_is_valid(&r);
}

static bool covers(const char *outer, const char *inner)
{
    struct net_range o = range(outer), i = range(inner);
    return net_range_covers(&o, &i);
}

static void test_texts(void)
{
    static const char *const good[] = {
        "0.0.0.0/0", "11.0.0.2",   "11.0.0.2/32",  "11.0.0.5/24", "11.0.0.2:65535", "11.0.0.0/8:1",
        "::/0",      "2600:11::2", "[2600:11::2]", "fd00::/8",    "[fd00::/8]:443", "[::1]:80"};
    static const char *const bad[] = {"",
                                      "11.0.0",
                                      "11.0.0.2/33",
                                      "11.0.0.2/",
                                      "11.0.0.2/-1",
                                      "11.0.0.2:0",
                                      "11.0.0.2:",
                                      "11.0.0.2:65536",
                                      "011.0.0.2",
                                      "11.0.0.2/08",
                                      "[11.0.0.2",
                                      "[2600::]443",
                                      "2600::/129",
                                      "allowed.test",
                                      "11.0.0.2 ",
                                      "0x0b000002",
                                      "11.0.0.2/8/8",
                                      "*",
                                      "[fd00::/8]:",
                                      "fe80::1%eth0"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        ok(is_range(good[i]), "'%s' is a network", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(!is_range(bad[i]), "'%s' is none", bad[i]);
    struct net_range r = range("11.0.0.5/24");
    ok(r.address[3] == 0, "bits after the prefix are dropped");
}

static void test_records(void)
{
    struct net_range r = range("11.0.0.0/24");
    r.address[3] = 1;
    ok(!net_range_is_valid(&r), "bits after the prefix make a record malformed");
    r = range("11.0.0.0/24");
    r.address[9] = 1;
    ok(!net_range_is_valid(&r), "and so do bytes after the address");
    r = range("11.0.0.0/24");
    r.port_first = 9;
    r.port_last = 8;
    ok(!net_range_is_valid(&r), "and ports that end before they begin");
    r = range("11.0.0.0/24");
    r.family = 5;
    ok(!net_range_is_valid(&r), "and another family");
}

static void test_covers(void)
{
    ok(covers("11.0.0.0/8", "11.2.3.0/24"), "a wider network covers");
    ok(!covers("11.2.3.0/24", "11.0.0.0/8"), "a narrower one does not");
    ok(covers("11.0.0.0/8", "11.0.0.2:80"), "all ports cover one");
    ok(!covers("11.0.0.0/8:80", "11.0.0.2"), "one does not cover all");
    ok(!covers("0.0.0.0/0", "2600::/16"), "families are apart");
}

static int ceiling(const char *allowed, const char *open, const char *asked)
{
    struct net_config c = {.n_ceiling = 1, .n_open = open != NULL};
    struct net_range q = range(asked);
    char why[128] = "";
    c.ceiling[0] = range(allowed);
    if (open)
        c.open[0] = range(open);
    int r = net_ceiling_check(&c, &q, 1, why, sizeof(why));
    return r < 0 && !why[0] ? -EINVAL : r;
}

static void test_ceiling(void)
{
    static const char *const closed[] = {"10.0.0.0/8",      "127.0.0.1",     "169.254.0.0/16",
                                         "169.254.169.254", "168.63.129.16", "192.168.1.1",
                                         "224.0.0.1",       "0.0.0.0"};
    static const char *const closed6[] = {"::1",       "fd00::/8",      "fe80::/10", "64:ff9b::/96",
                                          "2002::/16", "fd00:ec2::254", "ff02::1",   "4000::/3"};
    ok(ceiling("11.0.0.0/8", NULL, "11.0.0.2") == 0, "within the ceiling");
    ok(ceiling("11.0.0.0/8", NULL, "12.0.0.2") == -EPERM, "beside it");
    ok(ceiling("0.0.0.0/0", NULL, "0.0.0.0/0") == 0, "all of it is asked for, public or not");
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
        ok(ceiling("0.0.0.0/0", NULL, closed[i]) == -EPERM, "%s is closed", closed[i]);
    for (size_t i = 0; i < sizeof(closed6) / sizeof(closed6[0]); i++)
        ok(ceiling("::/0", NULL, closed6[i]) == -EPERM, "%s is closed", closed6[i]);
    ok(ceiling("0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16") == 0, "unless the operator names it");
    ok(ceiling("0.0.0.0/0", "10.1.0.0/16", "10.0.0.0/8") == -EPERM, "as widely as that");
    ok(ceiling("0.0.0.0/0", "169.254.0.0/16", "169.254.169.254") == -EPERM,
       "metadata by its network stays closed");
    ok(ceiling("0.0.0.0/0", "169.254.169.254", "169.254.169.254") == 0,
       "by its address it is open");
    ok(ceiling("0.0.0.0/0", "10.0.0.1:80", "10.0.0.1") == -EPERM, "one port opens one port");
}

static void test_pools(void)
{
    struct net_config c = {.pool4 = range("10.213.0.0/16"), .pool6 = range("fd00::/64")};
    ok(net_config_slots(&c) == NET_SLOTS_MAX, "a large pool has as many as there are zones");
    c.pool4 = range("10.213.0.0/24");
    ok(net_config_slots(&c) == 256 - NET_POOL_FIRST - 1, "a small one what is left of it");
    c.pool4 = range("10.213.0.0/30");
    ok(net_config_slots(&c) == 0, "one without room is none");
    c.pool4 = range("fd00::/64");
    ok(net_config_slots(&c) == 0, "nor is one of the other family");
}

int main(void)
{
    test_texts();
    test_records();
    test_covers();
    test_ceiling();
    test_pools();
    return tap_done();
}
