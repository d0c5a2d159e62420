/* See cell.h and the states in state.h. Nothing here waits: a create goes on when the child closes
 * its failure pipe, an end when its pidfd becomes readable; cgroups are removed by the janitor. */
#include "warden/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "warden/armed.h"
#include "warden/blank.h"
#include "warden/ceiling.h"
#include "warden/control.h"
#include "warden/image.h"
#include "warden/limits.h"
#include "warden/mount.h"
#include "warden/oci-platform.h"
#include "warden/root.h"
#include "warden/state.h"

#define END_TURN_MS          50
#define END_MAX_MS           10000 /* for killed processes to be reaped at the warden's end */
#define END_REMOVALS_MS      3000  /* for engines to forget containers whose processes are gone */
#define REFILL_QUIET_MS      20    /* since the last create, so that a burst is not slowed by it */
#define REFILL_DELAY_MS      3     /* when few are left, the burst must pay for its own */
#define REFILL_AFTER_FAIL_MS 1000
#define START_BLANKS         4 /* that a start waits for */
#define SETTLE_MAX_MS        2000

struct cell *cell_find(const struct warden *w, const char *id)
{
    return map_find(w->by_id, id);
}

/* The process is reaped: gives back all but the record itself. */
static void release(struct cell *s)
{
    struct warden *w = s->warden;
    watch_remove(s->failure_watch);
    watch_remove(s->channel_watch);
    watch_remove(s->timer);
    s->failure_watch = s->channel_watch = s->timer = NULL;
    s->pidfd = -1;
    disk_job_cancel(s->disk_job);
    s->disk_job = NULL;
    fd_close(&s->failure_fd);
    fd_close(&s->stream_fd);
    fd_close(&s->channel_fd);
    child_trees_close(&s->trees);
    if (s->kind == CELL_FENCED)
        fence_end(w, s);
    id_block_release(&w->ids, s->id_block);
    fd_close(&s->id_lock_fd);
    janitor_remove(&w->janitor, &s->cgroup);
}

static void on_ready(int fd, uint32_t events, void *data);

static struct cell *new_blank(struct warden *w, enum cell_kind kind, struct plan_reply *reply)
{
    struct cell *s = blank_new(w, kind, cell_on_child_exit, reply);
    if (s)
        s->channel_watch = watcher_add_fd(w->watcher, s->channel_fd, EPOLLIN, on_ready, s);
    return s;
}

static unsigned count_blanks(const struct warden *w, enum cell_kind kind)
{
    return w->n_blanks[kind] + (kind == CELL_LOCAL ? w->n_armed : 0);
}

/* Launchers of OCI runtimes are kept only where they are used. */
static unsigned missing_blanks(const struct warden *w, enum cell_kind kind)
{
    unsigned wanted = kind == CELL_LOCAL ? w->options.blanks
                      : w->oci_used      ? w->options.oci_blanks
                                         : 0;
    unsigned have = count_blanks(w, kind);
    if (w->no_namespaces[0])
        return 0;
    return have < wanted ? wanted - have : 0;
}

static void read_failure(struct cell *s)
{
    struct child_failure f;
    if (s->failure_fd < 0 || read(s->failure_fd, &f, sizeof(f)) != sizeof(f))
        return;
    f.step[sizeof(f.step) - 1] = 0;
    s->failure = f;
}

/* When the very first blank fails for want of a right, all will. */
static void doubt_namespaces(struct warden *w, enum cell_kind kind, int error, const char *why)
{
    struct error err = {0};
    if (w->blanks_known || kind != CELL_LOCAL)
        return;
    root_refused(&err, error, why);
    if (err.code == ERROR_UNSUPPORTED)
        warden_set_no_namespaces(w, why);
}

static bool add_blank(struct warden *w, enum cell_kind kind)
{
    struct plan_reply reply = {0};
    struct cell *s = new_blank(w, kind, &reply);
    if (!s) {
        log_warn("cannot make a blank sandbox: %s", reply.message);
        doubt_namespaces(w, kind, reply.error, reply.message);
        return false;
    }
    list_append(&w->blanks[kind], &s->link);
    w->n_blanks[kind]++;
    return true;
}

static void plan_refill(struct warden *w, int delay_ms);

/* One at a time, so that a plan never waits for more than one. */
static void on_refill_timer(void *data)
{
    struct warden *w = data;
    w->refill_timer = NULL;
    enum cell_kind kind = missing_blanks(w, CELL_OCI) ? CELL_OCI : CELL_LOCAL;
    if (missing_blanks(w, kind) && add_blank(w, kind))
        plan_refill(w, REFILL_DELAY_MS);
}

/* Also after a doubt: what was missing at the start may have come back. */
static void trust_namespaces(struct warden *w)
{
    w->blanks_known = true;
    if (warden_has_own_root(w))
        w->no_namespaces[0] = 0;
}

void cell_settle_blanks(struct warden *w)
{
    char byte;
    if (w->blanks_known || list_empty(&w->blanks[CELL_LOCAL]))
        return;
    struct cell *s = container_of(w->blanks[CELL_LOCAL].next, struct cell, link);
    struct pollfd p = {.fd = s->channel_fd, .events = POLLIN};
    w->blanks_known = poll(&p, 1, SETTLE_MAX_MS) != 1 || recv(p.fd, &byte, 1, MSG_PEEK) != 0;
    if (w->blanks_known)
        return;
    read_failure(s); /* its exit follows */
    _cleanup_free_ char *why = xasprintf("%s: %s", s->failure.step, strerror(s->failure.error));
    doubt_namespaces(w, s->kind, s->failure.error, why);
}

void cell_fill_blanks(struct warden *w)
{
    for (int i = 0; i < START_BLANKS && missing_blanks(w, CELL_LOCAL); i++)
        if (!add_blank(w, CELL_LOCAL))
            return;
    plan_refill(w, REFILL_DELAY_MS);
}

static void plan_refill(struct warden *w, int delay_ms)
{
    if (!missing_blanks(w, CELL_LOCAL) && !missing_blanks(w, CELL_OCI))
        return;
    watch_remove(w->refill_timer);
    w->refill_timer = watcher_add_timer(w->watcher, delay_ms, on_refill_timer, w);
}

void cell_plan_refill(struct warden *w)
{
    bool few = count_blanks(w, CELL_LOCAL) <= w->options.blanks / 4;
    plan_refill(w, few ? REFILL_DELAY_MS : REFILL_QUIET_MS);
}

/* One that is ready, or else the one that has been at it longest. */
static struct cell *take_blank(struct warden *w, enum cell_kind kind, struct plan_reply *reply)
{
    struct list *blanks = &w->blanks[kind];
    w->oci_used = w->oci_used || kind == CELL_OCI;
    if (list_empty(blanks))
        return new_blank(w, kind, reply);
    struct cell *taken = container_of(blanks->next, struct cell, link);
    list_for_each(s, blanks, struct cell, link)
    {
        if (!s->ready)
            continue;
        taken = s;
        break;
    }
    list_remove(&taken->link);
    w->n_blanks[kind]--;
    return taken;
}

/* Owes the create's reply until here. */
static void reply_to_create(struct cell *s, int error)
{
    struct plan_reply reply = {.tag = s->plan.tag, .wall = -1, .error = error};
    if (!s->plan.tag) /* cell_abandon_creates() */
        return;
    cell_describe(s, &reply);
    if (!error)
        return control_send(s->warden, &reply, fd_steal(&s->stream_fd));
    reply.wall = s->failure.wall;
    snprintf(reply.message, sizeof(reply.message), "%s: %s",
             s->failure.step[0] ? s->failure.step : "start the sandbox", strerror(error));
    control_send(s->warden, &reply, -1);
}

static bool dials(const struct cell *s)
{
    return s->kind == CELL_ENGINE ||
           (s->kind == CELL_OCI && oci_flavour((enum oci_backend)s->plan.backend)->dials);
}

static void answer_connect(struct cell *s)
{
    struct plan_reply reply = {.tag = s->connect_tag, .wall = -1};
    s->connect_tag = 0;
    cell_describe(s, &reply);
    control_send(s->warden, &reply, fd_steal(&s->stream_fd));
}

/* The newest connection is kept until somebody asks for it. */
void cell_take_stream(struct cell *s, int fd)
{
    fd_close(&s->stream_fd);
    s->stream_fd = fd;
    if (s->connect_tag)
        answer_connect(s);
}

/* A runner has dialled. */
static void on_link(int fd, uint32_t events, void *data)
{
    struct cell *s = data;
    int fds[FD_PASS_MAX];
    char byte = OCI_LINK_FIRST;
    (void)events;
    if (s->kind == CELL_ENGINE)
        return engine_on_messages(s);
    ssize_t n = fd_recv_msg(fd, &byte, 1, fds);
    if (n == -EAGAIN)
        return;
    for (size_t i = 1; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    if (n != 1 || fds[0] < 0) { /* its exit follows */
        watch_remove(s->channel_watch);
        s->channel_watch = NULL;
        return;
    }
    if (byte > OCI_LINK_FIRST)
        oci_platform_learn(s->warden, (unsigned)(byte - OCI_LINK_FIRST));
    cell_take_stream(s, fds[0]);
}

void cell_watch_channel(struct cell *s)
{
    watch_remove(s->channel_watch);
    s->channel_watch = watcher_add_fd(s->warden->watcher, s->channel_fd, EPOLLIN, on_link, s);
}

static void enter_running(struct cell *s)
{
    watch_remove(s->timer);
    s->timer = NULL;
    s->state = CELL_RUNNING;
    if (dials(s)) { /* the first connection is there already */
        on_link(s->channel_fd, 0, s);
        cell_watch_channel(s);
    }
    if (!s->plan.tag) /* it was only to be seen whether it runs */
        cell_kill(s);
    reply_to_create(s, 0);
    cell_plan_refill(s->warden);
}

/* Data: a step failed, and the exit follows. End: the runner was executed. */
static void on_failure_pipe(int fd, uint32_t events, void *data)
{
    struct cell *s = data;
    (void)fd;
    (void)events;
    read_failure(s);
    watch_remove(s->failure_watch);
    s->failure_watch = NULL;
    if (s->failure.error)
        return;
    fd_close(&s->failure_fd);
    s->runs = true;
    /* One that is being ended already, which takes a keeper its time, runs for nobody. */
    if (s->state == CELL_STARTING && !s->killed)
        enter_running(s);
}

static void on_create_timeout(void *data)
{
    struct cell *s = data;
    s->timer = NULL;
    s->failure = (struct child_failure){.error = ETIMEDOUT, .wall = -1, .step = "time limit"};
    cell_kill(s);
}

static int send_order(struct cell *s)
{
    struct warden *w = s->warden;
    const struct child_trees *t = &s->trees;
    int more[2];
    size_t n_more = 0;
    if (t->disk >= 0)
        more[n_more++] = t->disk;
    if (t->image >= 0)
        more[n_more++] = t->image;
    ssize_t n = s->kind == CELL_ENGINE ? engine_send_order(s)
                                       : fd_send_msg(s->channel_fd, &s->order, sizeof(s->order),
                                                     t->mounts, s->order.n_mounts);
    if (n >= 0 && n_more)
        n = fd_send_msg(s->channel_fd, "t", 1, more, n_more);
    if (n < 0)
        return (int)n;
    child_trees_close(&s->trees);
    s->failure_watch = watcher_add_fd(w->watcher, s->failure_fd, EPOLLIN, on_failure_pipe, s);
    return s->failure_watch ? 0 : -errno;
}

static void fail_start(struct cell *s, int error, int wall, const char *step)
{
    if (!s->failure.error) {
        s->failure = (struct child_failure){.error = error < 0 ? -error : error, .wall = wall};
        snprintf(s->failure.step, sizeof(s->failure.step), "%s", step);
    }
    cell_kill(s);
}

static void on_disk(int mount_fd, const char *step, void *data)
{
    struct cell *s = data;
    s->disk_job = NULL;
    if (mount_fd < 0)
        return fail_start(s, mount_fd, WALL_DISK, step);
    s->trees.disk = mount_fd;
    int r = s->mechanism[WALL_IO] == MECHANISM_NONE
                ? 0
                : cgroup_limit_disk(&s->cgroup, mount_fd, s->limits.io_bytes_per_s);
    if (r < 0)
        fail_start(s, r, WALL_IO, "limit the disk image");
    else if ((r = send_order(s)) < 0)
        fail_start(s, r, -1, "send the order");
    else
        s->state = CELL_STARTING;
}

/* With an image to make, the order waits for it. */
static int start(struct cell *s)
{
    struct warden *w = s->warden;
    if (!s->order.disk_from_fd) {
        s->state = CELL_STARTING;
        return send_order(s);
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
    s->state = CELL_FORMATTING;
    s->disk_job = disk_job_start(&w->disks, w->watcher, &request, on_disk, s);
    return s->disk_job ? 0 : -errno;
}

static void fill_order(struct cell *s)
{
    const struct plan *p = &s->plan;
    struct child_order *o = &s->order;
    uint32_t files = s->limits.open_files;
    o->flags = p->flags;
    o->n_mounts = p->n_mounts;
    o->image_from_fd = s->trees.image >= 0;
    o->backend = p->backend;
    o->platform = s->warden->oci_platform;
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

/* Where they cannot be, all of the image is nobody's, and what others may do decides. */
static void map_image_owners(struct cell *s)
{
    const struct warden *w = s->warden;
    if (!w->was_root || s->trees.image < 0)
        return;
    int r = image_map_owners(s->trees.image, w->proc_fd, &w->ids, s->id_block);
    if (r < 0)
        log_warn("image is not mapped id=%s error=%s", s->id, strerror(-r));
}

/* Has all but a caller. What cannot be armed is of no use to other plans either, because its limits
 * are written. */
static void arm(struct cell *s)
{
    struct warden *w = s->warden;
    struct plan_reply reply = {.wall = -1};
    s->plan = w->usual;
    fill_order(s);
    int r = limits_apply(s, &w->usual, &w->usual_limits, &reply);
    bool done = r >= 0 && s->mechanism[WALL_DISK] == MECHANISM_TMPFS && send_order(s) >= 0;
    if (done)
        return armed_add(s);
    log_info("blanks are not armed here: %s", r < 0 ? reply.message : "their disk is an image");
    w->arms = false;
    cell_kill(s);
    armed_remove(s);
    cell_plan_refill(w);
}

/* The order was carried out already, or is being. */
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
static void begin(struct cell *s)
{
    struct plan_reply reply = {.tag = s->plan.tag, .wall = -1};
    int r;
    if (s->armed) {
        r = start_armed(s, &s->plan, &reply);
        return r < 0 ? refuse_start(s, &reply, r) : (void)0;
    }
    fill_order(s);
    map_mount_owners(s);
    map_image_owners(s);
    r = limits_apply(s, &s->plan, &s->limits, &reply);
    if (r < 0)
        return refuse_start(s, &reply, r);
    r = start(s);
    if (r < 0)
        fail_start(s, r, -1, "start the sandbox");
}

static void on_ready(int fd, uint32_t events, void *data)
{
    struct cell *s = data;
    char byte;
    (void)events;
    watch_remove(s->channel_watch);
    s->channel_watch = NULL;
    if (recv(fd, &byte, 1, MSG_DONTWAIT) != 1)
        return; /* its exit follows */
    s->ready = true;
    if (s->kind == CELL_LOCAL)
        trust_namespaces(s->warden);
    if (s->state == CELL_WAITING)
        begin(s);
    else if (armed_wants(s))
        arm(s);
}

static enum cell_kind kind_of(const struct plan *p)
{
    if (p->flags & PLAN_LANDLOCK)
        return CELL_FENCED;
    if (oci_backend_is_engine(p->backend))
        return CELL_ENGINE;
    return p->backend ? CELL_OCI : CELL_LOCAL;
}

int cell_create(struct warden *w, const struct plan *p, const struct plan_limits *limits,
                struct child_trees *trees, struct plan_reply *reply)
{
    struct cell *s = armed_take(w, p, limits);
    s = s ? s : take_blank(w, kind_of(p), reply);
    if (!s) {
        child_trees_close(trees);
        if (w->no_namespaces[0] && kind_of(p) != CELL_FENCED)
            return ceiling_refuse_namespaces(w, p, reply);
        return reply->error ? -reply->error : -EIO;
    }
    s->trees = *trees;
    snprintf(s->id, sizeof(s->id), "%s", p->id);
    s->plan = *p;
    s->limits = *limits;
    s->state = CELL_WAITING;
    map_put(w->by_id, s->id, s);
    s->timer =
        watcher_add_timer(w->watcher, (int)w->options.create_timeout_ms, on_create_timeout, s);
    if (s->ready)
        begin(s);
    return 0;
}

/* No order: the child starts the runner by itself. */
int cell_create_plain(struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    struct cell *s = blank_new(w, CELL_PLAIN, cell_on_child_exit, reply);
    if (!s)
        return reply->error ? -reply->error : -EIO;
    snprintf(s->id, sizeof(s->id), "%s", p->id);
    s->plan = *p;
    s->state = CELL_STARTING;
    map_put(w->by_id, s->id, s);
    s->timer =
        watcher_add_timer(w->watcher, (int)w->options.create_timeout_ms, on_create_timeout, s);
    s->failure_watch = watcher_add_fd(w->watcher, s->failure_fd, EPOLLIN, on_failure_pipe, s);
    if (!s->failure_watch)
        fail_start(s, errno, -1, "watch the child");
    return 0;
}

int cell_kill(struct cell *s)
{
    s->killed = true;
    cgroup_freeze(&s->cgroup, false); /* version 1 does not let a frozen process die */
    if (s->kind == CELL_FENCED)
        return fence_kill_cell(s);
    return s->pidfd >= 0 && pidfd_send_signal(s->pidfd, SIGKILL, NULL, 0) < 0 && errno != ESRCH
               ? -errno
               : 0;
}

void cell_abandon_creates(struct warden *w)
{
    size_t cursor = 0;
    for (struct cell *s; (s = map_next(w->by_id, &cursor));) {
        s->connect_tag = 0;
        memset(s->engine_asked, 0, sizeof(s->engine_asked));
        if (s->state == CELL_RUNNING)
            continue;
        s->plan.tag = 0;
        cell_kill(s);
    }
}

int cell_connect(struct cell *s, uint64_t tag)
{
    int pair[2];
    if (s->killed)
        return -ENOENT;
    if (s->state != CELL_RUNNING)
        return -EBUSY;
    if (dials(s) && s->stream_fd >= 0)
        return fd_steal(&s->stream_fd);
    if (dials(s)) {
        s->connect_tag = tag;
        return -EINPROGRESS;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    ssize_t n = fd_send_msg(s->channel_fd, "c", 1, &pair[1], 1);
    close(pair[1]);
    if (n >= 0)
        return pair[0];
    close(pair[0]);
    return (int)n;
}

int cell_freeze(struct cell *s, bool on, uint64_t tag)
{
    if (s->state != CELL_RUNNING)
        return -EBUSY;
    if (s->kind != CELL_ENGINE)
        return cgroup_freeze(&s->cgroup, on);
    int r = engine_ask(s, on ? ENGINE_ASK_FREEZE : ENGINE_ASK_THAW, tag);
    return r < 0 ? r : -EINPROGRESS;
}

void cell_describe(const struct cell *s, struct plan_reply *ret)
{
    memcpy(ret->id, s->id, sizeof(ret->id));
    ret->pid = s->kind == CELL_ENGINE ? s->engine_mark.pid : s->pid;
    memcpy(ret->mechanism, s->mechanism, sizeof(ret->mechanism));
    ret->landlock_abi = s->kind == CELL_LOCAL || s->kind == CELL_FENCED
                            ? (uint32_t)s->warden->child_template.landlock_abi
                            : 0;
    if (s->kind == CELL_FENCED)
        fence_box_path(s, ret->box, sizeof(ret->box));
}

int cell_read_stats(struct cell *s, struct plan_reply *ret)
{
    char path[64];
    struct statfs fs;
    if (s->kind == CELL_ENGINE && s->state == CELL_RUNNING) {
        int r = engine_ask(s, ENGINE_ASK_STATS, ret->tag);
        return r < 0 ? r : -EINPROGRESS;
    }
    cgroup_read_stats(&s->cgroup, ret);
    if (s->state != CELL_RUNNING || s->kind == CELL_FENCED)
        return 0;
    /* /workspace may be a mount of the caller's, /var/tmp is always a part of the disk. A link in
     * its place, which a sandbox may have made where the root is its own, would mean our own root.
     */
    const char *disk = s->kind == CELL_OCI ? OCI_DISK : "/var/tmp";
    snprintf(path, sizeof(path), "%d/root", (int)s->pid);
    _cleanup_close_ int root = openat(s->warden->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int fd = root < 0 ? -1 : mount_open_beneath(root, disk + 1);
    if (fd >= 0 && fstatfs(fd, &fs) == 0)
        ret->disk_used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
    return 0;
}

static void send_exited(struct cell *s)
{
    struct plan_reply event = {.event = EVENT_EXITED,
                               .wall = -1,
                               .wait_status = s->wait_status,
                               .oom_kills = s->oom_kills};
    cell_describe(s, &event);
    control_send(s->warden, &event, -1);
}

void cell_flush_exited(struct warden *w)
{
    list_for_each_safe(s, &w->exited, struct cell, link)
    {
        if (!control_is_attached(w))
            return;
        list_remove(&s->link);
        w->n_exited--;
        send_exited(s);
        free(s);
    }
}

/* Nobody will dial any more. */
static void refuse_connect(struct cell *s)
{
    struct plan_reply reply = {.tag = s->connect_tag, .wall = -1, .error = ECHILD};
    if (!s->connect_tag)
        return;
    s->connect_tag = 0;
    memcpy(reply.id, s->id, sizeof(reply.id));
    snprintf(reply.message, sizeof(reply.message), "the sandbox is gone");
    control_send(s->warden, &reply, -1);
}

static void end_running(struct cell *s)
{
    struct warden *w = s->warden;
    refuse_connect(s);
    map_remove(w->by_id, s->id);
    if (!s->plan.tag) /* nobody's */
        return free(s);
    s->state = CELL_EXITED;
    /* Kept until a control plane has heard of it, as many as could ever live at once. */
    if (w->n_exited == w->options.max_sandboxes) {
        struct cell *oldest = container_of(w->exited.next, struct cell, link);
        list_remove(&oldest->link);
        w->n_exited--;
        free(oldest);
    }
    list_append(&w->exited, &s->link);
    w->n_exited++;
    cell_flush_exited(w);
}

static void end_blank(struct cell *s)
{
    struct warden *w = s->warden;
    armed_remove(s);
    if (!s->killed) {
        _cleanup_free_ char *why = xasprintf("%s: %s", s->failure.step, strerror(s->failure.error));
        log_warn("a blank sandbox failed: %s", why);
        doubt_namespaces(w, s->kind, s->failure.error, why);
        plan_refill(w, REFILL_AFTER_FAIL_MS);
    }
    free(s);
}

struct cell *cell_new(struct warden *w, int kind)
{
    struct cell *s = new0(struct cell);
    s->warden = w;
    s->kind = (enum cell_kind)kind;
    s->serial = w->next_serial++;
    s->pidfd = s->channel_fd = s->stream_fd = s->failure_fd = s->id_lock_fd = -1;
    s->id_block = -1;
    s->failure.wall = -1;
    list_init(&s->link);
    child_trees_init(&s->trees);
    return s;
}

void cell_take_over(struct cell *s)
{
    snprintf(s->id, sizeof(s->id), "%s", s->plan.id);
    s->state = CELL_RUNNING;
    map_put(s->warden->by_id, s->id, s);
}

void cell_end(struct cell *s)
{
    release(s);
    end_running(s);
}

void cell_on_child_exit(pid_t pid, int wait_status, void *data)
{
    struct cell *s = data;
    (void)pid;
    s->child_watch = NULL;
    if (!s->failure.error)
        read_failure(s);
    if (s->kind == CELL_ENGINE) {
        s->pidfd = -1;
        if (s->channel_watch)
            engine_on_messages(s);
        watch_remove(s->channel_watch);
        s->channel_watch = NULL;
        if (engine_on_broker_exit(s))
            return;
    }
    s->wait_status = wait_status;
    s->oom_kills = s->state == CELL_RUNNING ? cgroup_oom_kills(&s->cgroup) : 0;
    release(s);
    switch (s->state) {
    case CELL_BLANK:
        return end_blank(s);
    case CELL_WAITING:
    case CELL_FORMATTING:
    case CELL_STARTING:
        if (dials(s) && s->order.platform && s->failure.error)
            oci_platform_forget(s->warden);
        reply_to_create(s, s->failure.error ? s->failure.error : s->killed ? ECANCELED : ECHILD);
        map_remove(s->warden->by_id, s->id);
        return free(s);
    case CELL_RUNNING:
        return end_running(s);
    case CELL_EXITED:
        break;
    }
}

void cell_end_all(struct warden *w)
{
    size_t cursor = 0;
    w->options.blanks = w->options.oci_blanks = 0;
    control_detach(w);
    for (struct cell *s; (s = map_next(w->by_id, &cursor));)
        cell_kill(s);
    list_for_each(s, &w->blanks[CELL_LOCAL], struct cell, link) cell_kill(s);
    list_for_each(s, &w->blanks[CELL_OCI], struct cell, link) cell_kill(s);
    list_for_each(s, &w->armed, struct cell, link) cell_kill(s);
    int64_t end = clock_mono_ms() + END_MAX_MS;
    while ((map_count(w->by_id) || !list_empty(&w->blanks[CELL_LOCAL]) ||
            !list_empty(&w->blanks[CELL_OCI]) || !list_empty(&w->armed)) &&
           clock_mono_ms() < end)
        watcher_once(w->watcher, END_TURN_MS);
    end = clock_mono_ms() + END_REMOVALS_MS; /* what is left is the next warden's */
    while (w->engines.removals && map_count(w->engines.removals) && clock_mono_ms() < end)
        watcher_once(w->watcher, END_TURN_MS);
    list_for_each_safe(s, &w->exited, struct cell, link)
    {
        list_remove(&s->link);
        free(s);
    }
    w->n_exited = 0;
}
