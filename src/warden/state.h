/* SPDX-License-Identifier: Apache-2.0 */
/* What the warden knows: shared by warden*.c (start, probes and end), control.c (plans and
 * replies), cell*.c and blank.c (lifecycle) and ceiling.c (what a plan may ask). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "proto/plan.h"
#include "warden/cgroup.h"
#include "warden/local/child.h"
#include "warden/local/disk.h"
#include "warden/janitor.h"
#include "warden/kind.h"
#include "warden/ledger.h"
#include "filter/filter.h"
#include "secret/seal.h"
#include "warden/sign.h"
#include "warden/local/userns.h"
#include "warden/warden.h"
#include "warden/watch.h"

struct map;

enum cell_state {
    CELL_BLANK,      /* never used; waits for its plan; in a list of blank.c's */
    CELL_WAITING,    /* has a plan, but is not quite a blank yet; in warden.by_id */
    CELL_FORMATTING, /* its disk image is being made; in warden.by_id */
    CELL_STARTING,   /* has its order; the create's reply is owed; in warden.by_id */
    CELL_RUNNING,    /* the runner runs; in warden.by_id */
    CELL_EXITED,     /* reaped; its EXITED event is owed to a control plane; in warden.exited */
};

/* State is changed by cell-start.c and cell-end.c; cell-spawn.c sets the first. Members that only
 * one kind has are in a struct of its own, which begins with this one (cell_ops.size). */
struct cell {
    struct warden *warden;
    const struct cell_ops *ops;
    enum cell_kind kind;
    struct list link;
    enum cell_state state;
    char id[PLAN_ID_SIZE];
    uint64_t serial;
    pid_t pid;
    int pidfd;            /* borrowed from child_watch */
    int channel_fd;       /* to the runner's descriptor 4 */
    int stream_fd;        /* the control plane's end of the runner connection, until handed out */
    uint64_t connect_tag; /* of a PLAN_CONNECT that waits for a runner that dials; 0: none */
    int failure_fd;
    struct watch *child_watch, *failure_watch, *channel_watch, *timer;
    bool ready;       /* the child has become a blank */
    bool armed;       /* and had its order before there was a plan (blank.h) */
    bool runs;        /* the runner was executed */
    struct plan plan; /* from CELL_WAITING on */
    struct limits limits;
    struct child_failure failure; /* error != 0: reported by the child */
    struct child_order order;
    struct child_trees trees; /* until the order is sent */
    struct disk_job *disk_job;
    struct ledger_entry disk_claim;
    struct cgroup cgroup;
    int network_fd;    /* of a sandbox whose network is not that of the cell's process, until its
                          link is in it; of a machine, its link, until the order is sent; or -1 */
    uint32_t net_slot; /* of its network by address, counted from 1; 0: it has none */
    bool net_wait;     /* mas-net owes an answer about it */
    bool net_done;     /* and has given it a way out */
    uint64_t net_plan_tag; /* of a PLAN_NETWORK that waits */
    int64_t id_block;
    uint8_t mechanism[16];
    bool frozen; /* was asked to be, at any time */
    bool paused; /* what it was asked for last */
    bool killed;
    int wait_status;
    uint64_t oom_kills;
};

/* Blanks of one kind. Only blank.c counts them. */
struct blanks {
    struct list plain, armed;
    unsigned n_plain, n_armed;
    bool used; /* a plan has asked for this kind */
};

struct warden {
    struct warden_options options;
    struct watcher *watcher;
    int control_fd;
    struct watch *control_watch;
    bool control_blocked; /* waiting for room to send */
    struct list outgoing; /* struct outgoing of control.c */
    unsigned n_outgoing;
    int host_ns_fd, own_ns_fd, proc_fd, state_fd;
    int store_fd; /* the state directory in the host view, for images */
    int allowed_fds[WARDEN_ALLOWED_MAX];
    unsigned n_allowed;
    int policy_dir_fd; /* where policy_name is, or -1 */
    char *policy_name;
    struct id_range ids;
    struct cgroup_root cgroups;
    struct sock_fprog seccomp;
    struct child_template child_template;
    struct disk_maker disks;
    struct ledger ledger;
    struct watch *ledger_timer; /* while there are images without blocks */
    struct janitor janitor;
    struct watch *janitor_watch;
    struct signer signer;
    uint8_t *seal_key;      /* SEAL_KEY_SIZE of key memory, or NULL without intercept_fd */
    int intercept_fd;       /* mas-intercept, or -1 */
    struct map *intercepts; /* struct intercept of intercept.c, by id */
    struct egress *egress;  /* by address; NULL: the operator allows none */
    bool was_root;
    char no_namespaces[192]; /* why this host has no namespaces; "" where it has them */
    bool blanks_known;       /* whether blanks can be made at all */
    bool has_toolnet;
    bool tmpfs_attributes;                        /* a tmpfs has user attributes: since Linux 6.6 */
    void (*on_upgrade)(void *data, uint64_t tag); /* NULL: nothing can be upgraded */
    void *upgrade_data;
    struct map *by_id;
    struct list exited;
    unsigned n_exited;
    struct blanks blanks[_CELL_KIND_MAX];
    void *hosts[_CELL_KIND_MAX]; /* see cell_ops.open_host */
    bool ending;                 /* no more blanks are made */
    bool arms;                   /* blanks are armed: with what `usual` asks for */
    struct plan usual;           /* the operator's defaults */
    struct limits usual_limits;
    uint64_t next_serial;
    struct watch *refill_timer;
};

/* All that is found by host paths, and the move into the template root (warden-open.c). */
int warden_open_host(struct warden *w, struct error *err);
/* Once; logged. */
void warden_set_no_namespaces(struct warden *w, const char *why);
/* What this host can enforce of a sandbox of this kind and backend, as PLAN_PROBE answers it. */
void warden_probe(const struct warden *w, enum cell_kind kind, enum oci_backend b,
                  struct plan_reply *ret);
/* For cell_ops.probe: what holds of the host for all kinds that have a file system of their own. */
void warden_describe_host(const struct warden *w, struct plan_reply *ret);
