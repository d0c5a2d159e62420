/* SPDX-License-Identifier: Apache-2.0 */
/* Traffic tokens whose time ends between two calls about them. */
#include "port/token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "tests/unit/tap.h"

#define SECOND_NS INT64_C(1000000000)

static int n_done;

static void on_done(void *data, const struct error *err)
{
    (void)data;
    (void)err;
    n_done++;
}

static const struct traffic_token *add_token(struct traffic_tokens *t, int64_t lifetime_s,
                                             char secret[TRAFFIC_SECRET_SIZE])
{
    struct traffic_token what = {.sandbox = "sbx-one", .generation = "first", .owner = "key-one"};
    struct error err = {0};
    return traffic_token_add(t, &what, lifetime_s, secret, on_done, NULL, &err);
}

/* The caller has found the token, and holds it, when its time is over. */
static void test_ended(struct traffic_tokens *t)
{
    char secret[TRAFFIC_SECRET_SIZE], link[TRAFFIC_SECRET_SIZE];
    const struct traffic_token *token = add_token(t, 1, secret);
    ok(token && traffic_link_make(t, token, 8080, link, on_done, NULL) == 0,
       "a live token has links");
    clock_seen_raise(token->expires_ns + SECOND_NS);
    n_done = 0;
    ok(traffic_link_make(t, token, 8080, link, on_done, NULL) == -ENOENT,
       "one whose time has ended since it was found has none");
    ok(traffic_token_revoke(t, "first", token->id, on_done, NULL) == -ENOENT,
       "and there is nothing to revoke, which the caller hears");
    ok(n_done == 0, "no callback comes of either");
}

static void test_live(struct traffic_tokens *t)
{
    char secret[TRAFFIC_SECRET_SIZE];
    const struct traffic_token *token = add_token(t, 0, secret);
    n_done = 0;
    ok(traffic_token_revoke(t, "second", token->id, on_done, NULL) == -ENOENT && !n_done,
       "a token is of one sandbox");
    ok(traffic_token_revoke(t, "first", token->id, on_done, NULL) == 0 && n_done == 1,
       "there it is revoked");
    ok(!traffic_token_identify(t, secret), "and its secret is worth nothing");
}

int main(void)
{
    uv_loop_t loop;
    struct error err = {0};
    struct traffic_maker maker = {.owner = "token"};
    uv_loop_init(&loop);
    struct traffic_tokens *t = traffic_tokens_open(NULL, &loop, &maker, &err);
    if (ok(t != NULL, "tokens without a store: %s", err.message)) {
        test_ended(t);
        test_live(t);
        traffic_tokens_stop(t);
        uv_run(&loop, UV_RUN_DEFAULT);
        traffic_tokens_free(t);
    }
    ok(uv_loop_close(&loop) == 0, "nothing is left in the loop");
    return tap_done();
}
