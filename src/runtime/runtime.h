/* SPDX-License-Identifier: Apache-2.0 */
/* A runtime: one way to start a runner behind walls. Each lives in its own folder and is one row of
 * the array in registry.c, which is asked how strong it is and what it can do.
 *
 * start() returns NULL with err set for a spec it cannot mean, else an instance that reports
 * through its events, always later, never from inside start(): on_started exactly once; after a
 * successful one, on_exited exactly once. The instance belongs to the runtime and is gone after
 * on_exited, or after on_started with an error.
 *
 * Where connections may break (Kubernetes), a lost one does not mean that the sandbox has died.
 * reconnect() asks for a fresh one, and on_reconnected brings it, as often as it was asked for and
 * as late as it takes. What the runtime knows of the sandbox's end still comes by on_exited.
 *
 * Where sandboxes live elsewhere, the end may be told before all of one is removed there. So
 * on_removed comes exactly once, too, before the last of the others or after it; of an instance
 * that a control plane leaves behind at its own end, never. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/spec.h"

struct cluster;
struct error;
struct runtime_host;
struct runtime_instance;
struct warden_kind;

/* What enforces each wall of a running sandbox. by[] is NULL where nothing does. */
struct effective {
    const char *runtime;
    char workdir[PLAN_PATH_SIZE]; /* where commands start unless the spec says; "": not known */
    char box[PLAN_PATH_SIZE]; /* its own directory on the host; "" where it has a root of its own */
    const char *by[_WALL_MAX];
    struct limits limits;    /* those that a wall enforces */
    bool disk_in_memory;     /* the disk budget is charged to the memory limit */
    bool uid_separation;     /* runner and tool have different uids */
    bool network_by_address; /* they reach the networks that the spec names */
    bool intercepted;        /* some of these hosts through an interceptor */
    bool network_by_name;    /* commands have a proxy to the hosts that the spec allows */
    uint32_t landlock_abi;
    const char *machine; /* of a virtual one: "booted" or "restored"; else NULL */
    const char *vmm;     /* of the same: "qemu" or "firecracker" */
    /* What it has in common with the host and other sandboxes, in words; NULL-terminated or NULL.
     */
    const char *const *shares;
};

/* How far a tool is from the host's kernel, each further than the one before. */
enum isolation {
    ISOLATION_NONE,              /* ordinary processes */
    ISOLATION_RESTRICTED,        /* processes among the host's, behind filters */
    ISOLATION_NAMESPACES,        /* the host's kernel, behind namespaces and filters */
    ISOLATION_USER_SPACE_KERNEL, /* a kernel of its own, which is a process of the host's */
    ISOLATION_VIRTUAL_MACHINE,   /* a kernel of its own on its own hardware */
    _ISOLATION_MAX,
};

struct runtime_stats {
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, processes, oom_kills;
};

/* How a sandbox ended. */
struct runtime_end {
    int wait_status; /* of its first process */
    uint64_t oom_kills;
    const char *why; /* in words, where the runtime knows more than the status says; or NULL */
};

/* What a sandbox is, for a runtime whose sandboxes outlive the daemon's disk: it is written beside
 * them, and read by a daemon that has lost it. */
struct runtime_record {
    const char *owner; /* id of its key; borrowed */
    char *text;        /* all of it, as the store has it; the callee frees. NULL: it is a helper of
                          one call, and no daemon is to find it */
    int64_t last_exec_s; /* since 1970; 0: it had none */
    bool pooled;         /* made ahead, and no caller has it yet */
};

struct runtime_events {
    /* Has no effect; legal at any time, also before on_started. */
    void (*describe)(void *data, struct runtime_record *ret);
    /* err NULL: runner_fd (taken by the callee) is a fresh connection to the runner. */
    void (*on_started)(void *data, int runner_fd, const struct effective *effective,
                       const struct error *err);
    /* After reconnect(): runner_fd as above. */
    void (*on_reconnected)(void *data, int runner_fd);
    void (*on_exited)(void *data, const struct runtime_end *end);
    /* With lives_elsewhere: nothing of it is left; or, where that is not certain, the runtime does
     * no more about it. */
    void (*on_removed)(void *data, bool certain);
};

/* One thing that a runtime needs or offers, and what the operator can do about it. One with the
 * name of a wall says why that is not enforced. */
struct runtime_check {
    const char *name;
    bool ok;
    char detail[448];   /* "": there is no more to say */
    const char *advice; /* NULL: there is nothing to do */
};
#define RUNTIME_CHECKS_MAX 8

/* What a runtime can do on this host, for GET /v1/status and sbx doctor. */
struct runtime_report {
    bool available;
    bool pause;             /* it has freeze, and the host lets it work */
    bool snapshots;         /* the same of save */
    char why[256];          /* where not available, or what is missing */
    char version[64];       /* of the program behind it; "" when there is none, or not known yet */
    struct effective walls; /* by[] only: what it would enforce */
    size_t n_checks;
    struct runtime_check checks[RUNTIME_CHECKS_MAX];
};

/* What was asked of a snapshot is done, or err says why not. bytes: of a save, what it takes on the
 * disk. runner_fd: of a return, a fresh connection to the runner, taken by the callee; else -1. */
typedef void (*runtime_snapshot_fn)(void *data, const struct error *err, uint64_t bytes,
                                    int runner_fd);

/* Functions get the table they were found in, so that one serves many runtimes. */
struct runtime_ops {
    const char *name;
    const char *summary;
    const char *workdir; /* where commands start unless the spec says; NULL: differs */
    enum isolation isolation;
    bool has_interceptor;           /* its sandboxes may have an interceptor (spec.intercept) */
    bool has_proxy;                 /* its sandboxes may have a network by name (spec.network) */
    bool has_addresses;             /* and by address (spec.cidrs) */
    bool connections_break;         /* a lost connection is no dead sandbox: reconnect() */
    bool lives_elsewhere;           /* the warden does not know which live: adopt() finds out, and
                                       on_removed says when nothing is left */
    bool has_volumes;               /* its sandboxes may have spec.workspace and spec.cache */
    bool has_streams;               /* and containers that bring their output (spec.stream_token) */
    bool has_own_images;            /* names of images are passed on to what runs them */
    bool needs_cluster;             /* its sandboxes are pods of the operator's cluster */
    bool is_machine;                /* they are machines that the operator's file describes
                                       (runtime_config), and their images are disks */
    const char *engine;             /* the container engine that holds them; or NULL */
    size_t record_max;              /* describe()'s text has to be shorter; 0: any length */
    const struct warden_kind *kind; /* of what the warden builds (warden-instance.h); or NULL */
    void (*probe)(const struct runtime_ops *ops, const struct runtime_host *host,
                  struct runtime_report *ret);
    /* Optional: refuses, before start(), a host or a spec with which it cannot work. */
    int (*check)(const struct runtime_ops *ops, const struct runtime_host *host,
                 const struct spec *spec, struct error *err);
    struct runtime_instance *(*start)(const struct runtime_ops *ops, struct runtime_host *host,
                                      const char *id, const struct spec *spec,
                                      const struct runtime_events *events, void *data,
                                      struct error *err);
    void (*stop)(struct runtime_instance *in); /* idempotent; legal while starting */
    /* Optional: takes over a sandbox that an earlier control plane started. As start(). */
    struct runtime_instance *(*adopt)(const struct runtime_ops *ops, struct runtime_host *host,
                                      const char *id, const struct spec *spec,
                                      const struct runtime_events *events, void *data,
                                      struct error *err);
    /* Optional: asks for another connection to the runner, which replaces the one before. */
    void (*reconnect)(struct runtime_instance *in);
    /* Optional: the generation that its runner gets, and that its stream numbers begin with, once
     * it has started. Absent: that of the daemon. */
    uint64_t (*generation)(const struct runtime_instance *in);
    /* Optional: what describe() says has changed. Costs nothing by itself: it is looked at some
     * time later. */
    void (*note)(struct runtime_instance *in);
    /* Optional, of one that was made ahead: it becomes a caller's, whose record describe() has by
     * now. Negative: cb is not called. Else cb comes once, later, unless stop() was called before.
     * With ERROR_CONFLICT, ERROR_NOT_FOUND or ERROR_FORBIDDEN it is another's, gone, or not to be
     * had, and so is the instance: no event comes any more. */
    int (*claim)(struct runtime_instance *in, void (*cb)(void *data, const struct error *err),
                 void *data, struct error *err);
    /* Beside it: from now on its events come with this data. */
    void (*rebind)(struct runtime_instance *in, void *data);
    /* Optional: ends a sandbox of an earlier control plane that no row describes. */
    void (*discard)(struct runtime_host *host, const char *id);
    /* Optional. cb is called once, with NULL when the instance died first. */
    void (*stats)(struct runtime_instance *in,
                  void (*cb)(void *data, const struct runtime_stats *stats), void *data);
    /* Optional: stops all of its processes where they are, or lets them go on. cb is called once,
     * with 0, -errno, or -ESRCH when the instance died first. */
    void (*freeze)(struct runtime_instance *in, bool on, void (*cb)(void *data, int result),
                   void *data);
    /* With has_addresses: from now on its commands reach by address what this spec says. Only its
     * members cidrs, lent and denied_hosts are read. cb is called once, with NULL when it
     * holds; connections that are not allowed any more have ended then. Negative: cb is not called.
     */
    int (*change_addresses)(struct runtime_instance *in, const struct spec *spec,
                            void (*cb)(void *data, const struct error *err), void *data,
                            struct error *err);
    /* Beside it: whether such a change is within what a sandbox may have and what the operator
     * allows all of them. The warden decides, and this says so before a person is asked. */
    int (*check_addresses)(const struct runtime_instance *in, const struct spec *spec,
                           struct error *err);
    /* Optional, all four or none. A snapshot's name is PLAN_SNAPSHOT_SIZE - 1 of a-z and 0-9.
     * cb comes once, later. */
    /* Keeps all of a sandbox, its processes and their memory included; it goes on. */
    void (*save)(struct runtime_instance *in, const char *name, runtime_snapshot_fn cb, void *data);
    /* To be called before a start() with the name in the spec, or go_back(). */
    void (*load)(struct runtime_host *host, const char *name, runtime_snapshot_fn cb, void *data);
    /* The sandbox becomes what was kept; its connection to the runner is lost meanwhile. */
    void (*go_back)(struct runtime_instance *in, const char *name, runtime_snapshot_fn cb,
                    void *data);
    /* Removes it; also what is not there. */
    void (*drop)(struct runtime_host *host, const char *name, runtime_snapshot_fn cb, void *data);
};

/* What runtimes stand on. Owned by the daemon. */
struct runtime_host {
    struct warden_client *warden;
    const struct net_config *network;     /* proto/net.h: the operator's ceiling of addresses */
    const struct machine_config *machine; /* proto/machine.h: of virtual machines; NULL: no file */
    struct cluster *cluster;              /* runtime/kube/cluster.h; NULL: none is configured */
    char *const *mounts_allow;            /* in the warden's order */
    bool process_enabled;                 /* the operator named the process runtime */
    const char *oci_runtime;              /* what "oci" means unless a request says */
    enum isolation min_isolation;
};

/* NULL-terminated. */
extern const struct runtime_ops *const runtimes[];
/* By name, or by one that means the same ("oci", "runsc"). */
const struct runtime_ops *runtime_find(const char *name);
/* The names that an operator may choose from, as "a|b|c". */
const char *runtime_choices(void);
/* Whether there are runtimes of a container engine of this name. */
bool runtime_is_engine(const char *name);
/* The runtime that "oci", or an engine, means with this `oci_runtime`; NULL for none. */
const struct runtime_ops *runtime_find_oci(const char *runtime, const char *oci_runtime);
/* As isolation levels are spelled: "none", "restricted", "namespaces", "user-space-kernel",
 * "virtual-machine". */
const char *isolation_name(enum isolation level);
int isolation_parse(const char *name); /* or -1 */
/* The weakest available runtime with at least this isolation, or NULL. */
const struct runtime_ops *runtime_find_isolated(struct runtime_host *host, enum isolation least);
