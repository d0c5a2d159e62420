/* SPDX-License-Identifier: Apache-2.0 */
/* Output that a container beside the sandbox brings: by which connection, and how much is missing.
 */
#include <stdint.h>
#include <string.h>

#include "sandbox/internal.h"
#include "tests/unit/tap.h"

struct connection {
    struct sandbox *sandbox;
    unsigned n_replaced;
};

/* As the API's side does: a connection that is closed is not the sandbox's any more. */
static void on_replaced(void *data)
{
    struct connection *c = data;
    c->n_replaced++;
    sandbox_end_stream(c->sandbox, c);
}

static void test_one_connection(void)
{
    static struct sandbox sb;
    struct connection first = {&sb, 0}, second = {&sb, 0}, third = {&sb, 0};
    sandbox_begin_stream(&sb, on_replaced, &first);
    ok(!first.n_replaced, "the first connection stays");
    sandbox_begin_stream(&sb, on_replaced, &second);
    ok(first.n_replaced == 1 && !second.n_replaced,
       "a container that connects again is not kept out by its connection before");
    sandbox_begin_stream(&sb, on_replaced, &third);
    ok(second.n_replaced == 1 && first.n_replaced == 1, "each is replaced once");
    sandbox_end_stream(&sb, &second);
    sandbox_end_stream(&sb, &third);
    sandbox_begin_stream(&sb, on_replaced, &first);
    ok(!third.n_replaced && first.n_replaced == 1, "one that has ended is not replaced");
}

static void test_missing(void)
{
    ok(stream_missing(10, 10, 0) == 0, "all was brought");
    ok(stream_missing(10, 7, 0) == 3, "three bytes are missing");
    ok(stream_missing(14, 10, 2) == 0, "two characters U+FFFD of the command's own were brought");
    ok(stream_missing(12, 10, 2) == 0, "one of them, and one for a byte that is no text");
    ok(stream_missing(16, 10, 2) == 6, "more is missing than they explain");
    ok(stream_missing(11, 10, 2) == 1, "and so is one byte");
    ok(stream_missing(5, 10, 2) == 0, "more than was written is not missing");
}

int main(void)
{
    test_one_connection();
    test_missing();
    return tap_done();
}
