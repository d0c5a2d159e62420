/* SPDX-License-Identifier: Apache-2.0 */
/* config.json of a bundle. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/oci.h"

struct child_order;
struct sock_fprog;

/* Where the launcher puts what the configuration names, in its own mount namespace. */
#define OCI_TEMPLATE    OCI_DIR "/template"
#define OCI_ROOTFS      OCI_DIR "/rootfs"
#define OCI_MOUNTS      OCI_DIR "/mounts"
#define OCI_LINK        OCI_DIR "/link"
#define OCI_AUTHORITIES OCI_DIR "/authorities.crt"

/* After the runner's two descriptors: the warden's own filter, which says more than a configuration
 * can, for the runner to apply to itself. */
#define OCI_FILTER_FD      5
#define OCI_FILTER_FD_TEXT "5"

/* Whether the sandbox's kernel takes over the network that its launcher is in. */
bool oci_copies_network(const struct child_order *o);

/* What a bundle is made from. */
struct oci_config {
    enum oci_backend backend;
    const struct child_order *order;
    uint32_t runner_id, tool_id, nobody_id; /* on the host */
    const char *rootfs;
    const char *system;              /* the template, where /dev and /.mas are */
    const char *cgroup;              /* where the runtime must join one; else NULL */
    const struct sock_fprog *filter; /* for a runtime that takes it; else NULL */
};
/* A new reference; NULL where a path of the order is not UTF-8. */
json_t *oci_config_new(const struct oci_config *c);
