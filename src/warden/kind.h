/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of cells, and what the warden asks of each.
 *
 * A cell is the warden's side of one sandbox. All cells go through the same states (state.h) and
 * all of their processes speak the same protocol with the warden (builder/child.h): a process says
 * that it is a blank, receives an order, carries it out, and closes its failure pipe. Everything in
 * which kinds differ is a member of struct cell_ops. Each kind has a folder, a row of this type in
 * it, and a member of enum cell_kind; cell_kinds[] leads from one to the other. Files outside of a
 * kind's folder neither name a kind nor compare with one (tests/unit/test-layers.py).
 *
 * Where the comment on a member does not say what NULL means, every row must have it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/plan.h"

struct cell;
struct error;
struct warden;
struct warden_options;

enum cell_kind {
    CELL_LOCAL,  /* namespaces of the warden's making; also for plans that no other row takes */
    CELL_PLAIN,  /* no walls: the process runtime's */
    CELL_OCI,    /* an OCI runtime's, with a launcher (oci.h) */
    CELL_FENCED, /* no namespaces, behind Landlock, with a keeper (fence.h) */
    CELL_ENGINE, /* a container engine's, with a broker (engine.h) */
    CELL_VM,     /* a virtual machine within the walls of a local one (vm.h) */
    _CELL_KIND_MAX,
};

/* The child's ends of what connects it with the warden, which closes its copies after the clone. */
struct cell_ends {
    int stream, channel, failure;
    bool in_group; /* the child was cloned into its control group and need not join it */
};

struct cell_ops {
    const char *name; /* of the runtime, in messages; NULL: the plan's backend has one */
    size_t size;      /* of a cell with this kind's own state, in which struct cell is first */

    /* The host: state that all cells of this kind share is in warden.hosts[], the kind's alone. All
     * may be NULL. */
    /* Takes what it needs from the host, which is out of sight later. */
    int (*open_host)(struct warden *w, struct error *err);
    /* There are a loop, ids and a template of children now, and no cells yet. */
    void (*start_host)(struct warden *w);
    /* All cells have ended and the warden is about to: whether that waits for this kind, until what
     * must not stay on the host is gone; or, if not must, what the next warden would remove. */
    bool (*is_ending)(const struct warden *w, bool must);
    /* Also after an open_host() that failed or was never called. */
    void (*close_host)(struct warden *w);
    /* Without a warden: removes what dead ones left on the host, and returns how much that was. */
    int (*sweep_host)(const struct warden_options *o);

    /* Plans. */
    bool needs_namespaces; /* there is no such cell on a host that allows none */
    bool has_authority;    /* takes PLAN_AUTHORITY */
    bool has_proxy;        /* takes PLAN_PROXY: its loopback is the sandbox's own */
    /* Whether a sandbox of this backend takes PLAN_ADDRESSES: it has a network namespace of its
     * own. NULL: none does. */
    bool (*has_addresses)(enum oci_backend b);
    /* Whether that network has to be there before the order, because a kernel of the sandbox's own
     * takes it over when it starts. NULL: it need not. */
    bool (*is_network_first)(enum oci_backend b);
    /* Whether the operator lets a sandbox of this kind have the plan's ranges, beside the ceiling
     * of all. NULL: always. Returns -errno with reply's message set. */
    int (*check_ranges)(const struct warden *w, const struct plan *p, struct plan_reply *reply);
    /* Its link is a tap, which the cell has as network_fd when it gets its order. */
    bool has_tap;
    /* Whether this plan asks for this kind. NULL: the kind of plans that no row takes. */
    bool (*takes)(const struct plan *p);
    /* Whether the host and the operator allow what this plan asks for; NULL: always. Returns -errno
     * with reply's message set. */
    int (*check)(const struct warden *w, const struct plan *p, struct plan_reply *reply);
    /* Whether something of a sandbox of this id, which has ended, is still being removed. NULL:
     * nothing ever is. */
    bool (*is_removing)(const struct warden *w, const char *id);

    /* Probes. */
    /* Bits for the features of every probe. NULL: none. */
    uint32_t (*features)(const struct warden *w);
    /* Fills in what such a sandbox would have here; reply's mechanisms of the control groups are
     * there already. NULL: nothing is known. */
    void (*probe)(const struct warden *w, enum oci_backend b, struct plan_reply *ret);
    /* True: the answer to the probe with this tag follows from the kind. NULL: it never does. */
    bool (*probe_later)(struct warden *w, enum oci_backend b, uint64_t tag);

    /* The process. */
    bool has_group;        /* the cell has a control group of the warden's */
    bool has_device_group; /* in the devices controller, too, which an OCI runtime insists on */
    uint64_t clone_flags;  /* namespaces */
    /* Ids on the host for the sandbox, or -errno. NULL: it needs none. */
    int64_t (*take_ids)(struct cell *s);
    /* Makes the process and sets pid and pidfd; mostly cell_clone(). */
    int (*clone)(struct cell *s, struct cell_ends *ends);
    /* What cell_clone()'s child does; never returns. NULL: clone does not use it. */
    void (*main)(const struct cell *s, const struct cell_ends *ends);
    /* The process is watched now: gives it what it waits for. NULL: it waits for nothing. */
    int (*admit)(struct cell *s);

    /* Blanks. */
    /* How many processes are kept ready. NULL: none. */
    unsigned (*wanted_blanks)(const struct warden *w);
    bool arms;      /* blanks of this kind may get their order before there is a plan (blank.h) */
    uint32_t flags; /* enum plan_flags of every plan for this kind; for blanks that are armed */
    /* The process has become a blank. NULL: nothing follows from that. */
    void (*on_ready)(struct cell *s);
    /* A blank could not be made. NULL: nothing follows from that. */
    void (*on_blank_failed)(struct warden *w, int error, const char *why);

    /* The order. */
    /* Writes limits and fills in the order's; see limits_apply(). NULL: there are none. */
    int (*apply_limits)(struct cell *s, const struct plan *p, const struct limits *limits,
                        struct plan_reply *reply);
    /* Says what enforces the walls that are not limits, of a sandbox of this backend; for
     * limits_apply_groups(). */
    void (*describe_walls)(const struct warden *w, enum oci_backend b, uint8_t *mechanism);
    /* An overlay of this kind's is mounted without rights over the host, and so keeps its marks in
     * user attributes, which not every file system has. */
    bool has_user_overlay;
    /* Sends the order with the mounts' descriptors: mostly cell_send_child_order(). */
    int (*send_order)(struct cell *s);
    /* After it, and after the disk and the image: what else the process waits for. NULL: nothing.
     */
    int (*send_more)(struct cell *s);

    /* A running sandbox. */
    /* It is about to be given to its caller, with the id that it has from now on. -errno: it is
     * ended instead. NULL: nothing is to be done. */
    int (*announce)(struct cell *s);
    /* Whether its runner connects by itself, instead of being given connections. NULL: never. */
    bool (*dials)(const struct cell *s);
    /* The channel of a cell that dials is readable, or of one that owes an answer. */
    void (*on_channel)(struct cell *s);
    /* Ends it: mostly cell_kill_process(). */
    int (*kill)(struct cell *s);
    /* Both return -EINPROGRESS when the reply with this tag follows from the kind; mostly
     * cell_freeze_group() and cell_read_group_stats(). */
    int (*freeze)(struct cell *s, bool on, uint64_t tag);
    int (*read_stats)(struct cell *s, struct plan_reply *ret);
    /* PLAN_SAVE and PLAN_RETURN: -EINPROGRESS when the reply follows, or -errno with reply's
     * message set. NULL: it cannot be done with this kind. */
    int (*save)(struct cell *s, const struct plan *p, struct plan_reply *reply);
    int (*go_back)(struct cell *s, const struct plan *p, struct plan_reply *reply);
    /* PLAN_LOAD and PLAN_DROP, the same; of no cell. */
    int (*load)(struct warden *w, const struct plan *p, struct plan_reply *reply);
    int (*drop)(struct warden *w, const char *name);
    /* The control plane that waited for answers about no cell is gone. NULL: as above. */
    void (*abandon_host)(struct warden *w);
    const char *disk; /* what cell_read_group_stats() looks at, in the process's root; or NULL */
    /* Adds to what cell_describe() says. NULL: nothing. */
    void (*describe)(const struct cell *s, struct plan_reply *ret);
    /* The control plane that waited for answers is gone. NULL: it waits for none of this kind. */
    void (*abandon)(struct cell *s);

    /* The end. */
    /* The process is gone. True: the cell is not. NULL: it always is. */
    bool (*on_exit)(struct cell *s);
    /* Nothing of it runs: removes what is the kind's. Also of a process that could not be made.
     * NULL: nothing. */
    void (*end)(struct cell *s);
};

extern const struct cell_ops cell_local, cell_plain, cell_oci, cell_fenced, cell_engine, cell_vm;
extern const struct cell_ops *const cell_kinds[_CELL_KIND_MAX];

enum cell_kind cell_kind_of(const struct plan *p);
