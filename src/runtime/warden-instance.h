/* SPDX-License-Identifier: Apache-2.0 */
/* The part that runtimes built by the warden share. */
#pragma once

#include "proto/plan.h"
#include "runtime/runtime.h"

/* A NULL workdir of its runtime: below the directory that the warden names. */
struct warden_kind {
    /* Of struct effective; NULL: it shares nothing that is worth a word. */
    const char *const *(*shares)(const struct effective *e);
    uint32_t flags; /* enum plan_flags, added to every plan */
    enum oci_backend backend;
    enum oci_backend inner;  /* the runtime that an engine is to use; OCI_NONE: its own choice */
    const char *lacks_inner; /* what is said of an engine that cannot use it */
    bool mounts_read_only;   /* host directories can be mounted so only */
    /* The operator's ceiling of addresses beside network_cidrs; NULL: none. As
     * net_ceiling_check(). */
    int (*check_ranges)(const struct runtime_host *host, const struct plan *p, char *why,
                        unsigned size);
};

/* As struct runtime_ops has them. */
struct runtime_instance *warden_instance_start(const struct runtime_ops *ops,
                                               struct runtime_host *host, const char *id,
                                               const struct spec *spec,
                                               const struct runtime_events *events, void *data,
                                               struct error *err);
struct runtime_instance *warden_instance_adopt(const struct runtime_ops *ops,
                                               struct runtime_host *host, const char *id,
                                               const struct spec *spec,
                                               const struct runtime_events *events, void *data,
                                               struct error *err);
void warden_instance_reconnect(struct runtime_instance *in);
void warden_instance_discard(struct runtime_host *host, const char *id);
void warden_instance_stop(struct runtime_instance *in);
void warden_instance_stats(struct runtime_instance *in,
                           void (*cb)(void *data, const struct runtime_stats *stats), void *data);
void warden_instance_freeze(struct runtime_instance *in, bool on,
                            void (*cb)(void *data, int result), void *data);
int warden_instance_change_addresses(struct runtime_instance *in, const struct spec *spec,
                                     void (*cb)(void *data, const struct error *err), void *data,
                                     struct error *err);
void warden_instance_save(struct runtime_instance *in, const char *name, runtime_snapshot_fn cb,
                          void *data);
void warden_instance_load(struct runtime_host *host, const char *name, runtime_snapshot_fn cb,
                          void *data);
void warden_instance_go_back(struct runtime_instance *in, const char *name, runtime_snapshot_fn cb,
                             void *data);
void warden_instance_drop(struct runtime_host *host, const char *name, runtime_snapshot_fn cb,
                          void *data);
int warden_instance_check_addresses(const struct runtime_instance *in, const struct spec *spec,
                                    struct error *err);
/* What all of them have in their tables. */
#define WARDEN_INSTANCE_OPS                                                                        \
    .start = warden_instance_start, .stop = warden_instance_stop, .adopt = warden_instance_adopt,  \
    .reconnect = warden_instance_reconnect, .stats = warden_instance_stats,                        \
    .change_addresses = warden_instance_change_addresses,                                          \
    .check_addresses = warden_instance_check_addresses
/* spec NULL: only what would enforce each wall. */
void warden_effective_fill(struct effective *e, const char *runtime, const struct plan_reply *reply,
                           const struct spec *spec);
