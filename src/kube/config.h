/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator says of a Kubernetes cluster: how it is reached, and what may be made there.
 * mas-sandboxd reads what it names, and hands the broker both (kube/settings.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct kube_config {
    char *config_file; /* a kubeconfig; NULL: none */
    bool in_cluster;   /* instead: the files of this pod's service account */
    char *socket;      /* instead: a broker that runs elsewhere (mas-kube --listen); NULL */
    char *context;
    bool exec_plugins;
    /* As in struct kube_ceiling. */
    char *prefix, *instance;
    char **images, **runtime_classes, **storage_classes;
    char *link_image, *priority_class, *lease_namespace, *shared_namespace;
    uint32_t direct_port;
    char *direct_from;
    char *home;  /* this control plane, to others of the same instance; NULL: called like it */
    char *image; /* of pods whose spec names none; NULL: they are refused */
    uint32_t uid_first, uid_count;
    uint64_t disk_bytes;
    uint64_t orphan_ms; /* a pod that no control plane reached for so long ends */
    bool node_disk, own_users, writable_root;
    bool host_path; /* the ceiling's host_path is cache_hostpath */
    /* The runtime's: what pods ask their node for; 0: their limits. */
    uint32_t cpu_request_millicores;
    uint64_t memory_request_bytes;
    bool unproven_network; /* the runtime's: pods run although their network wall is not proven */
};

static inline bool kube_is_configured(const struct kube_config *c)
{
    return c->config_file || c->in_cluster || c->socket;
}
