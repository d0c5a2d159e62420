/* SPDX-License-Identifier: Apache-2.0 */
/* Orders as the warden would send them, for tests of what becomes of them. */
#pragma once

#include <stdio.h>

#include "builder/child.h"
#include "builder/flavour.h"
#include "oci/config.h"
#include "oci/seccomp.h"

static inline struct child_order order_plain(enum oci_backend b)
{
    struct child_order o = {.backend = b, .open_files = 4096};
    snprintf(o.hostname, sizeof(o.hostname), "sandbox");
    snprintf(o.workdir, sizeof(o.workdir), "/workspace");
    return o;
}

/* Everything that an order can say. */
static inline struct child_order order_full(enum oci_backend b)
{
    struct child_order o = order_plain(b);
    o.flags = PLAN_TOOL_NET | PLAN_TOOL_NOBODY;
    o.limits = (struct limits){.memory_bytes = 256 << 20,
                               .cpu_millicores = 1500,
                               .processes = 100,
                               .io_bytes_per_s = 50 << 20};
    o.process_rlimit = oci_flavour(b)->own_kernel ? 100 : 0;
    o.n_mounts = 2;
    snprintf(o.mounts[0].target, sizeof(o.mounts[0].target), "/workspace/project");
    snprintf(o.mounts[1].target, sizeof(o.mounts[1].target), "/data");
    return o;
}

static inline struct child_order order_image(enum oci_backend b)
{
    struct child_order o = order_plain(b);
    o.image_from_fd = 1;
    return o;
}

static inline json_t *config_of(const struct child_order *o)
{
    const struct oci_config c = {
        .backend = (enum oci_backend)o->backend,
        .order = o,
        .runner_id = 2000000000,
        .tool_id = 2000000001,
        .nobody_id = 2000000002,
        .rootfs = OCI_ROOTFS,
        .system = OCI_TEMPLATE,
        .cgroup = oci_flavour((enum oci_backend)o->backend)->joins_cgroups ? "/mas-1-2/s3" : NULL,
    };
    return oci_config_new(&c);
}
