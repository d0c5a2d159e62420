/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/local/network.h"

#include <errno.h>
#include <sched.h>
#include <stdbool.h>

#include "builder/child.h"

static bool is_new; /* no clone was given the namespace that the zygote is in */

int network_prepare(void)
{
    if (is_new)
        return 0;
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    int r = child_raise_loopback();
    is_new = r == 0;
    return r;
}

void network_give(void)
{
    is_new = false;
}
