/* SPDX-License-Identifier: Apache-2.0 */
/* The warden: builds, holds, limits and reaps local sandboxes.
 *
 * A process calls warden_new() while it is single-threaded and then lives in the warden's own mount
 * namespace: an almost empty, read-only template of a sandbox's root. Open what is needed from the
 * host before that, or let a child call warden_enter_host() first. From then on the process serves
 * plans (proto/plan.h) from one control plane at a time, and watches descriptors and children of
 * the daemon's in the same loop. When it dies, every sandbox dies with it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/machine.h"
#include "proto/order.h"
#include "proto/plan.h"
#include "warden/watch.h"

struct error;
struct warden;

#define WARDEN_PREFIX_MAX  24 /* cgroup_prefix; ids and instances follow it in names of 64 */
#define WARDEN_ALLOWED_MAX 64 /* host directories in mounts_allow */

/* What an operator may set (configuration keys in config/table.c) and is a number: the strings are
 * in struct warden_options, and what others use too. */
struct warden_config {
    uint32_t id_first, id_count; /* host uids and gids for sandboxes; as root only */
    uint32_t id_block;           /* ids a sandbox takes from that range, at least 3 */
    uint32_t blanks;             /* never-used sandboxes kept ready, each given out once; 0: none */
    uint32_t oci_blanks;         /* launchers of OCI runtimes, once one was used */
    uint32_t microvm_blanks;     /* virtual machines that have booted */
    uint64_t memory_reserve_bytes; /* of the memory limit, beside a disk on tmpfs */
    uint64_t disk_default_inodes;  /* where a plan does not limit them */
    uint64_t state_reserve_bytes;  /* of the state directory's file system, never promised */
    uint64_t tmpfs_max_bytes;      /* larger disks of a sandbox without memory limit are images */
    uint32_t disk_templates;       /* formatted images kept, one a size */
    struct user_limits user_limits;
    uint32_t engine_timeout_ms; /* of one request to an engine */
    uint32_t engine_connect_timeout_ms, engine_start_timeout_ms;
};

struct warden_options {
    struct warden_config config;
    const char *state_dir;     /* disk images; made 0700 when absent */
    const char *store_dir;     /* images/store of sandboxes is below it; NULL: below state_dir */
    char *const *mounts_allow; /* NULL-terminated host directories; plan_mount.allow_index */
    const char *fence_dir;     /* where sandboxes without namespaces have their files */
    const char *policy_file;   /* handed out open for reading (PLAN_POLICY); NULL: none */
    const char *cgroup_prefix; /* names of our cgroups start with it */
    uint32_t max_sandboxes;
    struct limits usual;         /* what most plans ask for (blank.h); all 0: not known */
    struct limits ceiling;       /* 0: no ceiling */
    uint64_t disk_default_bytes; /* where a plan does not limit the disk */
    uint32_t open_files_default;
    uint32_t create_timeout_ms; /* from plan to running runner */
    /* The process runtime: a runner without walls, as this user, when a plan asks for one. */
    bool process_enabled;
    uid_t process_uid;
    gid_t process_gid;
    /* Container engines' sockets; NULL: not used. */
    const char *podman_socket, *docker_socket;
    bool sign_audit;                   /* hold a key and sign checkpoints */
    const char *audit_checkpoint_file; /* these go there too; NULL: no */
    bool audit_checkpoint_syslog;
    int runner_fd;    /* mas-toolrunner, opened for reading; borrowed during warden_new() */
    int toolnet_fd;   /* mas-tool-net, or -1; borrowed during warden_new() */
    int engine_fd;    /* mas-engine, or -1; borrowed during warden_new() */
    int oci_fd;       /* mas-oci, likewise */
    int intercept_fd; /* mas-intercept, likewise */
    int vmm_fd;       /* mas-vmm, likewise */
    struct machine_config machine; /* what virtual machines are made of (vm.h) */
    int net_fd;                    /* mas-net, likewise */
    /* Networks by address; without a ceiling there are none. */
    struct net_config network;
};

/* Every limit at its default; the caller fills in paths and descriptors. */
void warden_options_init(struct warden_options *o);

/* Moves the calling process into its own mount namespace (and, unless it is root, into a user
 * namespace) and prepares everything a sandbox needs. NULL with err set; the process is then of no
 * further use and should exit. */
struct warden *warden_new(const struct warden_options *o, struct error *err);
/* Kills and removes all sandboxes, waiting for them. */
void warden_free(struct warden *w);

/* (Re)attaches a control plane: takes the warden's end of a SOCK_SEQPACKET socketpair and closes
 * the one before. Sandboxes stay; the new control plane finds them with PLAN_LIST. */
int warden_attach(struct warden *w, int control_sock);

/* The loop. fd is borrowed. */
struct watch *warden_watch(struct warden *w, int fd, uint32_t epoll_events, watch_fd_fn fn,
                           void *data);
/* The child is reaped before fn is called, once. */
struct watch *warden_watch_child(struct warden *w, pid_t pid, watch_child_fn fn, void *data);
struct watch *warden_watch_timer(struct warden *w, int delay_ms, watch_timer_fn fn, void *data);
int warden_loop(struct warden *w); /* until warden_quit() */
void warden_quit(struct warden *w);

/* Who is asked when a control plane wants another one of the installed program in its place
 * (PLAN_UPGRADE); it answers once with warden_reply_upgrade(), now or later. */
void warden_on_upgrade(struct warden *w, void (*fn)(void *data, uint64_t tag), void *data);
/* error: 0, or an errno with a text why not. */
void warden_reply_upgrade(struct warden *w, uint64_t tag, int error, const char *message);

/* For children the daemon forks from the warden (control plane, gateway): moves the calling process
 * back to a mount namespace that looks like the host's. */
int warden_enter_host(const struct warden *w);
/* False where the host allows no namespaces: then the warden sees what it saw before. */
bool warden_has_own_root(const struct warden *w);
/* What sandboxes have been promised (proto/promised.h), for those who share the file system; the
 * warden's own. */
int warden_promised_fd(const struct warden *w);
/* What they have claimed in turn (proto/claims.h), which is forgotten when the image keeper has
 * ended: it never outlives the control plane. */
int warden_claims_fd(const struct warden *w);
void warden_forget_claims(struct warden *w);
/* Did the caller become root of a user namespace? */
bool warden_in_userns(const struct warden *w);
/* Removes cgroups and images that dead instances left behind; no warden_new() needed. Returns how
 * many things were removed, or -errno. */
int warden_clean(const struct warden_options *o);
