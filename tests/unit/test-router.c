/* SPDX-License-Identifier: Apache-2.0 */
/* What mas-net does where the kernel does not do its part. */
#include <nftables/libnftables.h>
#include <string.h>

#include "egress/router.h"
#include "tests/unit/tap.h"

/* Answers to the connections of a slot's last sandbox would be let into the next one. */
static void test_connections_that_stay(void)
{
    struct router r = {.host_links = -1, .links = -1, .host_connections = -1, .connections = -1};
    const struct net_request add = {.version = NET_VERSION, .op = NET_ADD};
    const int fds[] = {0, 0};
    char why[200];
    r.rules = nft_ctx_new(NFT_CTX_DEFAULT);
    nft_ctx_set_dry_run(r.rules, true);
    nft_ctx_buffer_output(r.rules);
    nft_ctx_buffer_error(r.rules);
    int e = router_serve(&r, &add, fds, why, sizeof(why));
    ok(e < 0 && strstr(why, "connections"),
       "a slot whose connections cannot be forgotten gets no link: %d %s", e, why);
    nft_ctx_free(r.rules);
}

int main(void)
{
    test_connections_that_stay();
    return tap_done();
}
