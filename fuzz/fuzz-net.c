/* SPDX-License-Identifier: Apache-2.0 */
/* Records as mas-net reads them, and networks as people write them. What is let through must be
 * what the rules' texts are made of: ranges that are well-formed, within the operator's ceiling,
 * and no byte in a text that is not ours. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/strbuf.h"
#include "egress/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fill_config(struct net_config *c)
{
    *c = (struct net_config){.uid = 64224, .connections = 10, .connects_per_second = 10};
    assert(net_range_parse("10.213.0.0/16", &c->pool4) == 0);
    assert(net_range_parse("fd6d:6173:6e65:7400::/64", &c->pool6) == 0);
    assert(net_range_parse("0.0.0.0/0", &c->ceiling[c->n_ceiling++]) == 0);
    assert(net_range_parse("2600::/16", &c->ceiling[c->n_ceiling++]) == 0);
    assert(net_range_parse("192.168.0.0/16", &c->open[c->n_open++]) == 0);
    assert(net_config_is_valid(c));
}

/* Words of nft's grammar, names of ours and numbers; nothing that ends one statement and begins
 * another on the same line. */
static void assert_text(const struct strbuf *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789 \n_.:/{}@!=,&;\"-";
    assert(text->data && strspn(text->data, allowed) == text->len);
}

static void check_request(const uint8_t *data, size_t size)
{
    static struct net_config c;
    struct net_request q = {0};
    char why[128] = "";
    fill_config(&c);
    memcpy(&q, data, size < sizeof(q) ? size : sizeof(q));
    if (!net_request_is_valid(&q, &c))
        return;
    assert(q.n_ranges <= NET_RANGES_MAX && q.slot < net_config_slots(&c));
    if (net_ceiling_check(&c, q.ranges, q.n_ranges, why, sizeof(why)) < 0) {
        assert(why[0]);
        return;
    }
    struct strbuf text = STRBUF_INIT(1 << 20);
    assert(table_add(&text, &c, &q) == 0 && table_replace(&text, &q) == 0 &&
           table_remove(&text, &c, q.slot) == 0);
    assert_text(&text);
    strbuf_done(&text);
}

static void check_text(const uint8_t *data, size_t size)
{
    char text[128], again[NET_RANGE_TEXT_SIZE];
    struct net_range r, same;
    size = size < sizeof(text) - 1 ? size : sizeof(text) - 1;
    memcpy(text, data, size);
    text[size] = 0;
    if (net_range_parse(text, &r) < 0)
        return;
    assert(net_range_is_valid(&r) && net_range_covers(&r, &r));
    net_range_format(&r, again);
    again[strcspn(again, " ")] = 0;
    assert(net_range_parse(again, &same) == 0 && same.bits == r.bits &&
           memcmp(same.address, r.address, sizeof(r.address)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] & 1)
        check_request(data + 1, size - 1);
    else if (size)
        check_text(data + 1, size - 1);
    return 0;
}
