/* SPDX-License-Identifier: Apache-2.0 */
/* What the operator lets the broker make, read before a control plane existed: whatever an order
 * says, nothing beyond it reaches the cluster. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/net.h"

#define KUBE_LEASE_NAMESPACE "mas-sandbox" /* where none is named */

struct error;
struct kube_order;

struct kube_ceiling {
    char *prefix;           /* of namespaces: "sbx-" */
    char *instance;         /* whose objects are ours; a label's value */
    char *home;             /* of the control plane that gives orders; NULL: the instance */
    char **images;          /* what an image may begin with; one that ends in neither '/' nor ':' is
                               the whole of it */
    char **runtime_classes; /* besides none */
    char **storage_classes; /* of claims; NULL: no claims */
    char *link_image;       /* of the containers that are ours */
    char *priority_class;   /* NULL */
    char *lease_namespace;  /* where the Leases of homes are */
    char *shared_namespace; /* of all sandboxes (kube/layout.h); NULL: each has its own */
    uint32_t uid_first, uid_count; /* user ids of sandboxes */
    uint32_t orphan_s; /* a pod that no control plane reached for so long ends; 0: it does not */
    uint32_t cpu_millicores;
    uint64_t memory_bytes, disk_bytes; /* of one volume */
    bool node_disk;                    /* volumes on the node's disk, whose size only evicts */
    char *host_path;                   /* of nodes, what /cache may be; NULL: nothing of theirs */
    bool own_users;                    /* hostUsers: false may be asked for */
    bool writable_root;
    /* Of the direct carrier: where links listen (0: nowhere), the namespace from which they may be
     * reached, and, not a member of the object, the fingerprint of the broker's key. */
    uint32_t direct_port;
    char *direct_from;
    char direct_peer[72];
    /* Of stream containers, all or none: the image, the URL that they push to, which names an
     * address, and where they find the files. */
    char *stream_image, *stream_endpoint, *stream_events_dir;
    struct net_range stream_range; /* of the endpoint; no member of the object */
    char **networks;               /* what a sandbox may be let to; NULL: nothing */
    uint32_t n_ranges;
    struct net_range ranges[NET_RANGES_MAX]; /* the same, parsed */
};

void kube_ceiling_done(struct kube_ceiling *c);
#define _cleanup_kube_ceiling_ __attribute__((cleanup(kube_ceiling_done)))
/* As an object for the process that holds to it, and back. */
json_t *kube_ceiling_format(const struct kube_ceiling *c);
int kube_ceiling_parse(struct kube_ceiling *ret, const json_t *object, struct error *err);
/* How many sandboxes have user ids of their own: two each, and a third for a stream container. */
uint32_t kube_ceiling_slots(const struct kube_ceiling *c);
/* Whose sandboxes orders are about: what says another home, or none, is not touched. */
const char *kube_ceiling_home(const struct kube_ceiling *c);
/* 0, or negative with err set: ERROR_FORBIDDEN naming what is beyond, ERROR_INVALID for a
 * malformed order. */
int kube_ceiling_check(const struct kube_ceiling *c, const struct kube_order *o, struct error *err);
