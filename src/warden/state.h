/* What the warden knows: shared by warden*.c (start, probes and end), control.c (plans and
 * replies), cell.c (lifecycle) and ceiling.c (what a plan may ask). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "proto/plan.h"
#include "warden/cgroup.h"
#include "warden/local/child.h"
#include "warden/local/disk.h"
#include "warden/engine/engine.h"
#include "warden/fence/fence.h"
#include "warden/janitor.h"
#include "warden/ledger.h"
#include "warden/oci/version.h"
#include "warden/oci/oci.h"
#include "filter/filter.h"
#include "warden/sign.h"
#include "warden/local/userns.h"
#include "warden/warden.h"
#include "warden/watch.h"
#include "warden/local/zygote.h"

struct map;

#define WARDEN_ALLOWED_MAX 64 /* host directories in mounts_allow */

enum cell_state {
    CELL_BLANK,      /* never used; waits for its plan; in warden.blanks or warden.armed */
    CELL_WAITING,    /* has a plan, but is not quite a blank yet; in warden.by_id */
    CELL_FORMATTING, /* its disk image is being made; in warden.by_id */
    CELL_STARTING,   /* has its order; the create's reply is owed; in warden.by_id */
    CELL_RUNNING,    /* the runner runs; in warden.by_id */
    CELL_EXITED,     /* reaped; its EXITED event is owed to a control plane; in warden.exited */
};

enum cell_kind {
    CELL_LOCAL,  /* namespaces of the warden's making */
    CELL_PLAIN,  /* no walls: the process runtime's */
    CELL_OCI,    /* an OCI runtime's, with a launcher (oci.h) */
    CELL_FENCED, /* no namespaces, behind Landlock, with a keeper (fence.h) */
    CELL_ENGINE, /* a container engine's, with a broker (engine.h) */
    _CELL_KIND_MAX,
};

/* State is changed by cell-start.c and cell-end.c; blank.c sets the first. */
struct cell {
    struct warden *warden;
    struct list link;
    enum cell_state state;
    char id[PLAN_ID_SIZE];
    uint64_t serial;
    pid_t pid;
    int pidfd;            /* borrowed from child_watch */
    int channel_fd;       /* to the runner's descriptor 4 */
    int stream_fd;        /* the control plane's end of the runner connection, until handed out */
    uint64_t connect_tag; /* whose PLAN_CONNECT waits for a runner that dials; 0: nobody's */
    int failure_fd;
    struct watch *child_watch, *failure_watch, *channel_watch, *timer;
    enum cell_kind kind;
    bool from_zygote; /* cloned there */
    bool ready;       /* the child has become a blank */
    bool armed;       /* and had its order before there was a plan (armed.h) */
    bool runs;        /* the runner was executed */
    struct plan plan; /* from CELL_WAITING on */
    struct limits limits;
    struct child_failure failure; /* error != 0: reported by the child */
    struct child_order order;
    struct child_trees trees; /* until the order is sent */
    struct disk_job *disk_job;
    uint64_t claimed_bytes; /* of the warden's ledger */
    struct cgroup cgroup;
    int64_t id_block;
    int id_lock_fd; /* of a fenced one: its ids are no other daemon's */
    uint8_t mechanism[16];
    uint8_t engine_must[16]; /* walls without which there is no sandbox */
    struct engine_mark engine_mark;
    uint64_t engine_asked[8]; /* tags of plans that the broker owes an answer to */
    bool engine_recorded;     /* its engine may know of it */
    bool engine_ended;        /* its container is known to be gone */
    bool frozen;              /* was asked to be, at any time */
    bool paused;              /* what it was asked for last */
    bool killed;
    int wait_status;
    uint64_t oom_kills;
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
    struct fence_host fence;
    struct oci_programs oci;
    struct oci_version oci_versions[_OCI_BACKEND_MAX];
    struct watch *version_timer, *trial_timer;
    int run_fd;            /* the host's /run, or -1 */
    unsigned oci_platform; /* of a runtime that has a choice: 1 and its index, once known */
    dev_t kvm_device;      /* 0: the host has none */
    struct engines engines;
    int engine_fd; /* the program mas-engine, or -1 */
    struct janitor janitor;
    struct watch *janitor_watch;
    struct zygote zygote;
    struct signer signer;
    bool was_root;
    char no_namespaces[192]; /* why there are none here; "": there are */
    bool blanks_known;       /* whether blanks can be made at all */
    bool has_toolnet;
    bool tmpfs_attributes; /* a tmpfs has user attributes: since Linux 6.6 */
    struct map *by_id;
    struct list blanks[_CELL_KIND_MAX], armed, exited;
    unsigned n_blanks[_CELL_KIND_MAX], n_armed, n_exited;
    bool arms;         /* blanks are armed: with what `usual` asks for */
    struct plan usual; /* the operator's defaults */
    struct limits usual_limits;
    bool oci_used; /* since then, launchers are kept ready */
    uint64_t next_serial;
    struct watch *refill_timer;
    bool refill_few; /* it was set because few are left */
};

/* All that is found by host paths, and the move into the template root (warden-open.c). */
int warden_open_host(struct warden *w, struct error *err);
/* Once; logged. */
void warden_set_no_namespaces(struct warden *w, const char *why);
