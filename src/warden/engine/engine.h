/* Sandboxes that a container engine (podman, docker) holds, and what the warden and its broker say
 * to each other about them.
 *
 * Theory of operation. An engine's socket is as good as root, so neither the control plane nor the
 * warden's own memory touches it: for each sandbox the warden executes a broker (src/engine, the
 * program mas-engine), gives it one order made from the plan, and gets connections of the runner
 * back. The broker asks the engine for a container, looks with its own eyes whether the kernel
 * really holds what was asked, and watches the container's first process by pidfd, so that an
 * engine may hang, die or restart without anybody losing track of a sandbox.
 *
 * A container outlives broker and warden. What is needed to find it again is a record in a
 * directory of the sandbox's own below the warden's state: made before the engine hears of the
 * sandbox, removed after the engine has forgotten it. A broker that dies is replaced by one that
 * adopts the container; whatever ends a sandbox, a broker that removes it comes last, and again
 * until the engine lets it. A container without a record is swept by the next probe.
 *
 * Channel: SOCK_SEQPACKET, descriptor 4 of the broker. It says "r", gets struct engine_order with
 * the mounts' descriptors and, if disk_from_fd, one byte with the disk's; then requests, which it
 * answers with messages of the same tag. Failures of a create go over the pipe of child.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/plan.h"
#include "warden/local/child.h"

struct cell;
struct error;
struct warden;

#define ENGINE_VIEW_FD        6 /* a copy of the template root, detached */
#define ENGINE_PATH_SIZE      200
#define ENGINE_SOCKET_SIZE    108
#define ENGINE_INSTANCE_SIZE  33
#define ENGINE_CONTAINER_SIZE 72
#define ENGINE_DIR_NAME       "engine"

/* Below a sandbox's directory. */
#define ENGINE_LINK   "link" /* the runner's socket and filter; bound to OCI_LINK_INSIDE */
#define ENGINE_FILTER "filter"

enum engine_task {
    ENGINE_CREATE,
    ENGINE_ADOPT,  /* a container that runs already */
    ENGINE_REMOVE, /* whatever there is of it */
    ENGINE_PROBE,  /* what the engine is and can; containers of nobody are removed */
    _ENGINE_TASK_MAX,
};

/* What must outlive everybody. */
struct engine_mark {
    int32_t pid; /* the container's first process, 0: not known; with its start time */
    int32_t reserved;
    uint64_t started;
    char container[ENGINE_CONTAINER_SIZE]; /* its id with the engine, which no rename changes; "" */
};

struct engine_order {
    uint32_t task;
    uint32_t backend, inner; /* enum oci_backend */
    uint32_t timeout_ms;     /* of one request to the engine */
    uint32_t connect_timeout_ms;
    uint32_t start_timeout_ms; /* for the runner to dial */
    char socket[ENGINE_SOCKET_SIZE];
    char instance[ENGINE_INSTANCE_SIZE]; /* of this state directory */
    char dir[ENGINE_PATH_SIZE];          /* the sandbox's, as the host sees it; probe: of all */
    char id[PLAN_ID_SIZE];
    char image[PLAN_IMAGE_SIZE];
    char image_path[ENGINE_PATH_SIZE];      /* its files */
    uint32_t runner_id, tool_id, nobody_id; /* on the host */
    uint32_t inotify_instances, inotify_watches, fanotify_groups, fanotify_marks;
    uint8_t must[16]; /* walls that were asked for: without them there is no sandbox */
    struct engine_mark mark;
    struct child_order child;
};

enum engine_message_kind {
    ENGINE_READY = 1, /* verified: mechanism, mark */
    ENGINE_LINKED,    /* the runner's connection comes with it */
    ENGINE_ENDED,     /* the container's first process is gone: wait_status, oom_kills */
    ENGINE_CLEARED,   /* of a removal: nothing is mounted for the container any more */
    ENGINE_DONE,      /* answer to a request: error, or numbers */
    ENGINE_REPORT, /* of a probe: error with text why, or text the version, mechanism, features */
};

struct engine_message {
    uint32_t kind;
    int32_t error;
    uint64_t tag;
    struct engine_mark mark;
    int32_t wait_status;
    uint32_t features; /* FEATURE_FREEZER; FEATURE_OCI() of runtimes that the engine knows */
    uint8_t mechanism[16];
    uint64_t memory_bytes, memory_peak_bytes, cpu_us, processes, oom_kills, disk_used_bytes;
    char text[160];
};

enum engine_request_kind { ENGINE_ASK_STATS = 1, ENGINE_ASK_FREEZE, ENGINE_ASK_THAW };

struct engine_request {
    uint32_t kind;
    uint32_t reserved;
    uint64_t tag;
};

/* --- the warden's side: engine-cell.c */

struct engine_probe {
    struct warden *warden;
    enum oci_backend backend;
    bool enabled;
    char socket[ENGINE_SOCKET_SIZE];
    struct engine_message report; /* the newest */
    bool probed;
    uint64_t waiting_tag; /* of a PLAN_PROBE that came before the first report; 0: none */
    struct watch *waiting;
    pid_t pid;
    int channel_fd;
    struct watch *child, *channel, *timer;
};

struct engines {
    int dir_fd; /* ENGINE_DIR_NAME below the state directory; -1: no engine is enabled */
    char dir[ENGINE_PATH_SIZE];
    char instance[ENGINE_INSTANCE_SIZE];
    struct engine_probe probe[_OCI_BACKEND_MAX];
    struct map *removals; /* struct removal of engine-remove.c by id */
};

/* In warden_new(), while the host is visible. */
int engines_open(struct warden *w, struct error *err);
/* Once there is a loop: takes up what earlier wardens left, and asks engines who they are. */
void engines_start(struct warden *w);
void engines_close(struct warden *w);
/* A record for the cell's sandbox, before its engine hears of it. */
int engine_record_new(struct cell *s);

/* The broker, in the child: never returns. */
void engine_exec(const struct warden *w, int channel_fd, int failure_fd) __attribute__((noreturn));
/* The cell's order, with mounts; 0 or -errno. */
int engine_send_order(struct cell *s);
/* Everything the broker has said by now. */
void engine_on_messages(struct cell *s);
int engine_ask(struct cell *s, enum engine_request_kind kind, uint64_t tag);
/* The broker is gone. True: the cell goes on (another one adopts it), or ends when its container
 * has; false: it ends now. */
bool engine_on_broker_exit(struct cell *s);
/* Starts removing what there is of a sandbox; s is ended (cell_end()) once nothing of it runs. */
void engine_remove(struct warden *w, const char *id, struct cell *s);
bool engine_is_removing(const struct warden *w, const char *id);
/* Whether there may still be mounts for a container that is being removed. */
bool engine_has_places(const struct warden *w);
/* True: the reply follows, with the first report or soon. */
bool engine_probe_wait(struct warden *w, enum oci_backend b, uint64_t tag);
/* The newest report of an engine. */
void engine_describe(const struct warden *w, enum oci_backend b, struct plan_reply *ret);
