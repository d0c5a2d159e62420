/* SPDX-License-Identifier: Apache-2.0 */
/* A network by address: the machine's one link, which leads to the router on the host
 * (egress/router.h). It is the runner's network namespace's alone, and has the address and the way
 * out that a link of a sandbox on the host would have; a link that is set up otherwise, or by
 * another process of the guest, gets nowhere. */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "egress/link.h"
#include "egress/netlink.h"
#include "guest/internal.h"

#define LINK_NAME    "eth0"
#define LINK_WAIT_MS 10000
#define LINK_POLL_MS 2

/* While the initramfs, which has the modules, is there. */
void guest_load_network(void)
{
    char word[8];
    if (guest_find_word(GUEST_NETWORK_WORD, word, sizeof(word)))
        guest_load_modules(GUEST_NET_MODULES);
}

/* Its driver may still be looking for it. */
static int await_link(int sock)
{
    const struct timespec pause = {.tv_nsec = LINK_POLL_MS * 1000000};
    for (int waited = 0;; waited += LINK_POLL_MS) {
        int index = link_find(sock, LINK_NAME);
        if (index != -ENODEV || waited >= LINK_WAIT_MS)
            return index;
        nanosleep(&pause, NULL);
    }
}

/* A route socket of this namespace, or -errno. This process stays there only for the moment. */
static int open_links_of(int ns)
{
    _cleanup_close_ int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0 || setns(ns, CLONE_NEWNET) < 0)
        return -errno;
    int sock = netlink_open(NETLINK_ROUTE);
    return setns(own, CLONE_NEWNET) < 0 ? -errno : sock;
}

static int configure(int sock, const struct child_order *o)
{
    const struct net_config pools = {.pool4 = o->net_pools[0], .pool6 = o->net_pools[1]};
    struct link_end end = {.config = &pools,
                           .own = NET_POOL_FIRST + o->net_slot - 1,
                           .other = NET_POOL_ROUTER,
                           .number = o->net_slot - 1,
                           .is_peer = true};
    int r = end.index = link_find(sock, LINK_NAME);
    r = r < 0 ? r : link_raise(sock, end.index);
    r = r < 0 ? r : link_end_configure(sock, &end);
    return r < 0 ? r : link_end_route(sock, &end, LINK_ROUTE_ALL, 0);
}

static int give_network(struct guest *g)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)g->runner);
    _cleanup_close_ int ns = open(path, O_RDONLY | O_CLOEXEC);
    if (ns < 0)
        return -errno;
    _cleanup_close_ int own = netlink_open(NETLINK_ROUTE);
    _cleanup_close_ int links = open_links_of(ns);
    if (own < 0 || links < 0)
        return own < 0 ? own : links;
    int r = await_link(own);
    r = r < 0 ? r : link_move(own, r, ns);
    return r < 0 ? r : configure(links, &g->order.child);
}

void guest_give_network(struct guest *g)
{
    int r = g->order.child.net_slot ? give_network(g) : 0;
    if (r < 0)
        guest_give_up(g, "a network by address in the guest", -r);
}
