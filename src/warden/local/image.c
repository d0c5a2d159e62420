/* SPDX-License-Identifier: Apache-2.0 */
/* The warden's part of images; see image.h. */
#include "warden/local/image.h"

#include <stdio.h>

#include "base/alloc.h"
#include "proto/plan.h"
#include "warden/local/mount.h"
#include "warden/local/userns.h"

int image_open(int host_ns_fd, int own_ns_fd, int store_fd, const char *digest)
{
    char path[sizeof("images/store//rootfs") + PLAN_IMAGE_SIZE];
    snprintf(path, sizeof(path), "images/store/%s/rootfs", digest);
    return mount_open_host(host_ns_fd, own_ns_fd, store_fd, path, true);
}

int image_map_owners(int tree_fd, int proc_fd, const struct id_range *ids, int64_t block)
{
    const struct mount_owner owners[] = {
        {IMAGE_ROOT_ID, id_block_host_id(ids, block, SANDBOX_RUNNER_ID)},
        {IMAGE_TOOL_ID, id_block_host_id(ids, block, SANDBOX_TOOL_ID)},
        {IMAGE_NOBODY_ID, id_block_host_id(ids, block, SANDBOX_NOBODY_ID)},
    };
    return mount_map_owners(tree_fd, proc_fd, owners, ELEMENTS(owners));
}
