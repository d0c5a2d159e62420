/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to a running runner.
 *
 * WAITING: the cell has a plan, but its process has not said that it is ready. FORMATTING: the disk
 * image is being made, by a process of its own, since that takes longer than the warden may wait.
 * STARTING: the order was sent. RUNNING: the failure pipe has ended without a failure, which means
 * that the runner was executed. The create is answered exactly once, on the way into RUNNING or
 * when the process has ended; a create whose control plane died has tag 0 and is answered to none.
 */
#include "warden/cell-internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/blank.h"
#include "warden/ceiling.h"
#include "warden/control.h"
#include "warden/local/image.h"
#include "warden/limits.h"
#include "warden/local/mount.h"
#include "warden/egress.h"

#define LEDGER_TURN_MS 1000 /* how old the figure of what is promised may be */

/* The one answer to a create. A good one carries the runner's connection. */
void cell_reply_to_create(struct cell *s, int error)
{
    struct plan_reply reply = {.tag = s->plan.tag, .wall = -1, .error = error};
    if (!s->plan.tag) /* cell_abandon_creates() */
        return;
    cell_describe(s, &reply);
    if (!error)
        return control_send(s->warden, &reply, fd_steal(&s->stream_fd));
    reply.wall = s->failure.wall;
    snprintf(reply.message, sizeof(reply.message), "%s: %s",
             s->failure.step[0] ? s->failure.step : "start the sandbox", error_errno_text(error));
    control_send(s->warden, &reply, -1);
}

bool cell_dials(const struct cell *s)
{
    return s->ops->dials && s->ops->dials(s);
}

/* A runner that dials has connected once more. Only the newest connection is of use: the runner
 * dials again when it has given the one before up. */
void cell_take_stream(struct cell *s, int fd)
{
    fd_close(&s->stream_fd);
    s->stream_fd = fd;
    if (s->connect_tag) {
        /* The answer to a PLAN_CONNECT that came while a runner that dials had no connection. */
        struct plan_reply reply = {.tag = s->connect_tag, .wall = -1};
        s->connect_tag = 0;
        cell_describe(s, &reply);
        control_send(s->warden, &reply, fd_steal(&s->stream_fd));
    }
}

static void on_channel(int fd, uint32_t events, void *data)
{
    struct cell *s = data;
    (void)fd;
    (void)events;
    s->ops->on_channel(s);
}

void cell_watch_channel(struct cell *s)
{
    watch_remove(s->channel_watch);
    s->channel_watch = watcher_add_fd(s->warden->watcher, s->channel_fd, EPOLLIN, on_channel, s);
}

static void fail_start(struct cell *s, int error, int wall, const char *step);

/* A network by address is attached when the runner runs, because its link is moved into the
 * runner's network namespace. No command can start before that: it needs the runner's connection,
 * which the control plane gets only when the cell is RUNNING. */
static bool await_network(struct cell *s)
{
    if (!(s->plan.flags & PLAN_ADDRESSES) || s->net_done)
        return false;
    int r = s->net_wait ? 0 : egress_attach(s);
    if (r < 0)
        fail_start(s, r, WALL_NETWORK, "a network by address");
    return true;
}

/* Comes twice for a cell with a network by address: when the runner runs, and from
 * cell_on_network() when mas-net has answered. */
static void enter_running(struct cell *s)
{
    if (cell_dials(s)) /* the first connection is there already, and what was said before it */
        s->ops->on_channel(s);
    if (await_network(s))
        return;
    int r = s->ops->announce && s->plan.tag ? s->ops->announce(s) : 0;
    if (r < 0)
        return fail_start(s, r, -1, "announce the sandbox");
    watch_remove(s->timer);
    s->timer = NULL;
    s->state = CELL_RUNNING;
    if (cell_dials(s))
        cell_watch_channel(s);
    if (!s->plan.tag) /* it was only to be seen whether it runs */
        cell_kill(s);
    cell_reply_to_create(s, 0);
    blanks_plan_refill(s->warden);
}

static int start_cell(struct cell *s);

/* Whether the cell waits for its network before it gets its order. */
static bool is_network_first(const struct cell *s)
{
    return s->plan.flags & PLAN_ADDRESSES && !s->net_done && s->ops->is_network_first &&
           s->ops->is_network_first((enum oci_backend)s->plan.backend);
}

void cell_on_network(struct cell *s, int error, const char *why)
{
    bool first = is_network_first(s);
    /* The sandbox may have ended while mas-net worked. Its links are taken away by egress_detach(),
     * so nothing is owed here. */
    if (s->state != CELL_STARTING || s->killed)
        return;
    if (error)
        return fail_start(s, error, WALL_NETWORK, why);
    s->net_done = true;
    s->mechanism[WALL_NETWORK] = MECHANISM_NFTABLES;
    if (!first)
        return enter_running(s);
    int r = start_cell(s);
    if (r < 0)
        fail_start(s, r, -1, "start the sandbox");
}

void cell_take_over(struct cell *s)
{
    snprintf(s->id, sizeof(s->id), "%s", s->plan.id);
    s->state = CELL_RUNNING;
    map_put(s->warden->by_id, s->id, s);
}

/* The record comes from a process that may have been taken over: its length is fixed, and its text
 * is ended here. */
void cell_read_failure(struct cell *s)
{
    struct child_failure f;
    if (s->failure_fd < 0 || read(s->failure_fd, &f, sizeof(f)) != sizeof(f))
        return;
    f.step[sizeof(f.step) - 1] = 0;
    s->failure = f;
}

/* Data: a step failed, and the exit follows. End: the runner was executed. */
static void on_started_or_failed(int fd, uint32_t events, void *data)
{
    struct cell *s = data;
    (void)fd;
    (void)events;
    cell_read_failure(s);
    watch_remove(s->failure_watch);
    s->failure_watch = NULL;
    if (s->failure.error)
        return;
    fd_close(&s->failure_fd);
    s->runs = true;
    /* A cell that is being ended already is not announced; a fence's keeper takes time to end. */
    if (s->state == CELL_STARTING && !s->killed)
        enter_running(s);
}

/* The process is killed and not waited for here: its exit answers the create with this failure. */
static void on_create_timeout(void *data)
{
    struct cell *s = data;
    s->timer = NULL;
    s->failure = (struct child_failure){.error = ETIMEDOUT, .wall = -1, .step = "time limit"};
    cell_kill(s);
}

int cell_send_child_order(struct cell *s)
{
    return (int)fd_send_msg(s->channel_fd, &s->order, sizeof(s->order), s->trees.mounts,
                            s->order.n_mounts);
}

/* The trees are closed here once they were sent: the child has them, and a mount that the warden
 * still held could not be taken away with the sandbox. */
int cell_send_order(struct cell *s)
{
    struct warden *w = s->warden;
    const struct child_trees *t = &s->trees;
    int more[3];
    size_t n_more = 0;
    if (t->disk >= 0)
        more[n_more++] = t->disk;
    if (t->image >= 0)
        more[n_more++] = t->image;
    if (t->authority >= 0)
        more[n_more++] = t->authority;
    ssize_t n = s->ops->send_order(s);
    if (n >= 0 && n_more)
        n = fd_send_msg(s->channel_fd, "t", 1, more, n_more);
    if (n >= 0 && s->ops->send_more)
        n = s->ops->send_more(s);
    if (n < 0)
        return (int)n;
    child_trees_close(&s->trees);
    s->failure_watch = watcher_add_fd(w->watcher, s->failure_fd, EPOLLIN, on_started_or_failed, s);
    return s->failure_watch ? 0 : -errno;
}

/* Answers nothing by itself: the kill leads to cell_on_child_exit(), which gives everything back
 * and sends the one answer. So no failure can leave a half-made cell behind. */
static void fail_start(struct cell *s, int error, int wall, const char *step)
{
    if (!s->failure.error) { /* the first failure is the cause; later ones follow from it */
        s->failure = (struct child_failure){.error = error < 0 ? -error : error, .wall = wall};
        snprintf(s->failure.step, sizeof(s->failure.step), "%s", step);
    }
    cell_kill(s);
}

void cell_release_claim(struct cell *s)
{
    ledger_release(&s->warden->ledger, &s->disk_claim);
}

static void on_ledger_timer(void *data)
{
    struct warden *w = data;
    w->ledger_timer = ledger_refresh(&w->ledger) == 0
                          ? NULL
                          : watcher_add_timer(w->watcher, LEDGER_TURN_MS, on_ledger_timer, w);
}

/* On a file system that cannot allocate ahead, the image gets its blocks as the sandbox writes.
 * What it was promised and has not got yet stays claimed, and is looked at again every second. */
static void follow_image(struct cell *s, int image_fd)
{
    struct warden *w = s->warden;
    ledger_follow(&w->ledger, &s->disk_claim, image_fd);
    if (!w->ledger_timer)
        w->ledger_timer = watcher_add_timer(w->watcher, LEDGER_TURN_MS, on_ledger_timer, w);
}

static void on_disk(int mount_fd, int image_fd, const char *step, void *data)
{
    struct cell *s = data;
    s->disk_job = NULL;
    if (image_fd >= 0)
        follow_image(s, image_fd);
    else /* the image's blocks are its own now, or there is none */
        cell_release_claim(s);
    if (mount_fd < 0)
        return fail_start(s, mount_fd, WALL_DISK, step);
    /* The disk's own limit can be set only now, because its loop device did not exist when the
     * group was made. */
    s->trees.disk = mount_fd;
    int r = s->mechanism[WALL_IO] == MECHANISM_NONE
                ? 0
                : cgroup_limit_disk(&s->cgroup, mount_fd, &s->limits);
    if (r < 0)
        fail_start(s, r, WALL_IO, "limit the disk image");
    else if ((r = cell_send_order(s)) < 0)
        fail_start(s, r, -1, "send the order");
    else
        s->state = CELL_STARTING;
}

/* With a disk image to make, the order waits for it. The space is claimed before the image is made:
 * two images that are made at once must not both count the same free blocks as theirs. */
static int start_cell(struct cell *s)
{
    struct warden *w = s->warden;
    if (!s->order.disk_from_fd) {
        s->state = CELL_STARTING;
        return cell_send_order(s);
    }
    struct disk_request request = {
        .bytes = s->order.disk_bytes,
        .inodes = s->order.disk_inodes,
        .serial = s->serial,
        .runner_id = id_block_host_id(&w->ids, s->id_block, SANDBOX_RUNNER_ID),
        .tool_id = id_block_host_id(&w->ids, s->id_block,
                                    s->order.flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID
                                                                      : SANDBOX_TOOL_ID),
    };
    request.claim = ledger_claim(&w->ledger, &s->disk_claim, disk_image_bytes(request.bytes));
    s->state = CELL_FORMATTING;
    s->disk_job = disk_job_start(&w->disks, w->watcher, &request, on_disk, s);
    return s->disk_job ? 0 : -errno;
}

void cell_fill_order(struct cell *s)
{
    const struct plan *p = &s->plan;
    struct child_order *o = &s->order;
    uint32_t files = s->limits.open_files;
    o->flags = p->flags;
    o->n_mounts = p->n_mounts;
    o->image_from_fd = s->trees.image >= 0;
    o->authority_from_fd = s->trees.authority >= 0;
    o->backend = p->backend;
    o->open_files = files ? files : s->warden->options.open_files_default;
    snprintf(o->hostname, sizeof(o->hostname), "%s", p->hostname[0] ? p->hostname : CELL_HOSTNAME);
    snprintf(o->workdir, sizeof(o->workdir), "%s", p->workdir[0] ? p->workdir : "/workspace");
    for (uint32_t i = 0; i < p->n_mounts; i++)
        memcpy(o->mounts[i].target, p->mounts[i].target, sizeof(o->mounts[i].target));
}

/* Where ids cannot be mapped the directory's permission bits decide, as for any stranger. */
static void map_mount_owners(struct cell *s)
{
    const struct warden *w = s->warden;
    uint32_t inside = s->order.flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID;
    uint32_t tool_id = id_block_host_id(&w->ids, s->id_block, inside);
    for (uint32_t i = 0; w->was_root && i < s->order.n_mounts; i++) {
        int r = mount_map_owner(s->trees.mounts[i], w->proc_fd, tool_id);
        if (r < 0)
            log_debug("mount is not mapped id=%s error=%s", s->id, strerror(-r));
    }
}

/* Where they cannot be mapped, the image's files appear with the owner nobody, and the permissions
 * for others decide. */
static void map_image_owners(struct cell *s)
{
    const struct warden *w = s->warden;
    if (!w->was_root || s->trees.image < 0)
        return;
    int r = image_map_owners(s->trees.image, w->proc_fd, &w->ids, s->id_block);
    if (r < 0)
        log_warn("image is not mapped id=%s error=%s", s->id, strerror(-r));
}

/* The order of an armed blank was sent before there was a plan, and may be carried out by now
 * (runs). What the plan demands of each wall is compared with what this blank has. */
static int start_armed(struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    int r = limits_check(s, p, reply);
    if (r < 0)
        return r;
    s->state = CELL_STARTING;
    if (s->runs)
        enter_running(s);
    return 0;
}

/* The create is answered here, so the exit of the process must not answer it again: in the state of
 * a blank it answers nothing. The cell is not used for another plan, because its limits may have
 * been written in part. */
static void refuse_start(struct cell *s, struct plan_reply *reply, int error)
{
    reply->error = error < 0 ? -error : error;
    memcpy(reply->id, s->id, sizeof(reply->id));
    control_send(s->warden, reply, -1);
    map_remove(s->warden->by_id, s->id);
    s->state = CELL_BLANK; /* goes away as if it had never been anything else */
    cell_kill(s);
}

/* The cell is a blank now: limits, mounts, disk, order. */
static void cell_begin(struct cell *s)
{
    struct plan_reply reply = {.tag = s->plan.tag, .wall = -1};
    int r;
    if (s->armed) {
        r = start_armed(s, &s->plan, &reply);
        return r < 0 ? refuse_start(s, &reply, r) : (void)0;
    }
    cell_fill_order(s);
    map_mount_owners(s);
    map_image_owners(s);
    r = limits_apply(s, &s->plan, &s->limits, &reply);
    if (r < 0)
        return refuse_start(s, &reply, r);
    if (is_network_first(s)) {
        s->state = CELL_STARTING;
        r = egress_attach(s);
        return r < 0 ? fail_start(s, r, WALL_NETWORK, "a network by address") : (void)0;
    }
    r = start_cell(s);
    if (r < 0)
        fail_start(s, r, -1, "start the sandbox");
}

/* The child says "r" when it is as far as a blank gets by itself. A plan may have taken the cell
 * before that (CELL_WAITING); it begins now. */
void cell_on_ready(int fd, uint32_t events, void *data)
{
    struct cell *s = data;
    char byte;
    (void)events;
    watch_remove(s->channel_watch);
    s->channel_watch = NULL;
    if (recv(fd, &byte, 1, MSG_DONTWAIT) != 1)
        return; /* its exit follows */
    s->ready = true;
    if (s->ops->on_ready)
        s->ops->on_ready(s);
    if (s->state == CELL_WAITING)
        cell_begin(s);
    else
        blank_on_ready(s);
}

/* A blank is taken rather than a process made, where there is one: cloning with namespaces is most
 * of the cost of a sandbox. */
int cell_create(struct warden *w, const struct plan *p, const struct limits *limits,
                struct child_trees *trees, struct plan_reply *reply)
{
    struct cell *s = blank_take(w, p, limits, reply);
    if (!s) {
        child_trees_close(trees);
        if (w->no_namespaces[0] && cell_kinds[cell_kind_of(p)]->needs_namespaces)
            return ceiling_refuse_namespaces(w, p, reply);
        return reply->error ? -reply->error : -EIO;
    }
    /* The create owns the trees from here on, and closes them however it ends. */
    s->trees = *trees;
    snprintf(s->id, sizeof(s->id), "%s", p->id);
    s->plan = *p;
    s->limits = *limits;
    s->state = CELL_WAITING;
    map_put(w->by_id, s->id, s);
    s->timer =
        watcher_add_timer(w->watcher, (int)w->options.create_timeout_ms, on_create_timeout, s);
    /* Otherwise the process is still being made, and cell_on_ready() begins. Either way the time
     * limit runs from the create, and not from when a process happened to be ready. */
    if (s->ready)
        cell_begin(s);
    return 0;
}
