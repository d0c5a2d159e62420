/* SPDX-License-Identifier: Apache-2.0 */
/* The mark that a connection over a serial port begins with: found wherever it is, in whatever
 * pieces it comes. */
#include <string.h>

#include "link/mark.h"
#include "link/pump.h"
#include "tests/unit/tap.h"

static uint8_t mark[GUEST_MARK_SIZE];

static void fill_mark(void)
{
    for (size_t i = 0; i < sizeof(mark); i++)
        mark[i] = (uint8_t)(i * 37 + 11);
}

/* Feeds data in two pieces, as a reader does; how many bytes came out before the mark, or -1
 * without one. */
static int find_in_pieces(const uint8_t *data, size_t len, size_t cut)
{
    static struct pump p;
    int before = 0;
    bool found;
    p.start = p.len = 0;
    for (int piece = 0; piece < 2; piece++) {
        pump_put(&p, piece ? data + cut : data, piece ? len - cut : cut);
        size_t n = mark_find(pump_bytes(&p), p.len, mark, &found);
        before += (int)n;
        pump_skip(&p, n);
        if (found)
            return before;
    }
    return -1;
}

static void test_cut_everywhere(void)
{
    uint8_t data[100];
    bool all = true;
    memset(data, 'x', sizeof(data));
    memcpy(data + 40, mark, sizeof(mark));
    for (size_t cut = 0; cut <= sizeof(data); cut++)
        all = all && find_in_pieces(data, sizeof(data), cut) == 40;
    ok(all, "found after 40 bytes wherever the stream is cut");
}

static void test_false_beginnings(void)
{
    uint8_t data[128];
    bool all = true;
    memset(data, mark[0], sizeof(data));
    memcpy(data + 10, mark, 31); /* all but its last byte */
    memcpy(data + 70, mark, sizeof(mark));
    for (size_t cut = 0; cut <= sizeof(data); cut++)
        all = all && find_in_pieces(data, sizeof(data), cut) == 70;
    ok(all, "what only begins like the mark is passed on");
}

static void test_none(void)
{
    uint8_t data[64];
    bool found;
    memset(data, 'x', sizeof(data));
    ok(mark_find(data, sizeof(data), mark, &found) == 64 && !found,
       "no mark: all of it is before one");
    memcpy(data + 60, mark, 4);
    ok(mark_find(data, sizeof(data), mark, &found) == 60 && !found,
       "a beginning at the end is kept back");
    ok(mark_find(data, 0, mark, &found) == 0 && !found, "nothing has no mark");
}

static void test_pump(void)
{
    static struct pump p;
    char text[] = "0123456789";
    pump_put(&p, text, 10);
    pump_skip(&p, 4);
    pump_put(&p, text, 10);
    ok(p.len == 16 && memcmp(pump_bytes(&p), "4567890123456789", 16) == 0,
       "what was put last is last");
    pump_skip(&p, 16);
    ok(p.len == 0 && p.start == 0 && pump_has_room(&p), "empty again");
}

int main(void)
{
    fill_mark();
    test_cut_everywhere();
    test_false_beginnings();
    test_none();
    test_pump();
    return tap_done();
}
