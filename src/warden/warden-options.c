/* SPDX-License-Identifier: Apache-2.0 */
/* Every limit of the warden at its default. */
#include "warden/warden.h"

#define MIB (1024ull * 1024)

void warden_options_init(struct warden_options *o)
{
    *o = (struct warden_options){
        .config = {.id_first = 2000000000,
                   .id_count = 65536,
                   .id_block = 4,
                   .blanks = 4,
                   .oci_blanks = 2,
                   .memory_reserve_bytes = 32 * MIB,
                   .disk_default_inodes = 65536,
                   .state_reserve_bytes = 128 * MIB,
                   .tmpfs_max_bytes = 1024 * MIB,
                   .disk_templates = 8,
                   .user_limits = {.inotify_instances = 32, .inotify_watches = 8192},
                   .engine_timeout_ms = 30000,
                   .engine_connect_timeout_ms = 5000,
                   .engine_start_timeout_ms = 20000},
        .cgroup_prefix = "mas-sandbox",
        .fence_dir = "/var/tmp",
        .max_sandboxes = 1000,
        .disk_default_bytes = 256 * MIB,
        .open_files_default = 4096,
        .create_timeout_ms = 10000,
        .runner_fd = -1,
        .toolnet_fd = -1,
        .engine_fd = -1,
        .oci_fd = -1,
        .intercept_fd = -1,
        .vmm_fd = -1,
        .net_fd = -1,
    };
}
