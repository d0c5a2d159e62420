/* SPDX-License-Identifier: Apache-2.0 */
/* See egress.h. */
#include "warden/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/map.h"
#include "builder/routes.h"
#include "warden/cell-internal.h"
#include "warden/control.h"
#include "warden/program.h"

#define AGAIN_MS     200 /* until a mas-net that died is started again; doubles */
#define AGAIN_MAX_MS 5000
#define STOP_MAX_MS  3000         /* for mas-net to remove what is on the host */
#define REMOVE_TAG   (1ull << 63) /* with the slot, of removals; no cell's serial is as large */

/* A slot is not given away before mas-net has answered about the removal of the last one's. */
enum slot_state {
    SLOT_FREE,
    SLOT_TAKEN,
    SLOT_LEFT,  /* its removal is yet to be sent, or was lost with a mas-net that ended */
    SLOT_GOING, /* its removal was sent */
};

struct egress {
    struct warden *warden;
    int program_fd, router_ns, host_ns; /* the latter two are network namespaces */
    char instance[NET_INSTANCE_SIZE];
    uint32_t n_slots, next_slot;
    uint8_t *slots;  /* enum slot_state */
    uint32_t n_left; /* of SLOT_LEFT */
    struct program_task task;
    bool ready;
    int64_t again_ms;
    struct watch *again;
    char why_not[200]; /* it cannot be used; "": it can, or is being started */
};

_Static_assert(sizeof(struct net_answer) <= PROGRAM_ANSWER_MAX, "a task's answer");

/* --- the process */

static void egress_fail_all(struct warden *w);
static void start_program(void *data);
static int send_request(struct egress *n, const struct net_request *q, const int *fds,
                        size_t n_fds);

static void net_exec(const struct warden *w, int channel_fd)
{
    const struct program_ends ends = {
        .stream = -1, .channel = channel_fd, .failure = -1, .view = -1, .log = true};
    if (program_arrange(&ends, w->egress->program_fd) < 0)
        _exit(125);
    program_exec("mas-net");
}

/* By the serial, which no other cell ever has: the answer may be about a cell that has ended since,
 * and whose id another one has by now. */
static struct cell *find_waiting(const struct warden *w, uint64_t tag)
{
    size_t cursor = 0;
    for (struct cell *s; (s = map_next(w->by_id, &cursor));)
        if (s->net_wait && s->serial == tag)
            return s;
    return NULL;
}

static void answer_replace(struct cell *s, const struct net_answer *a)
{
    struct plan_reply reply = {.tag = s->net_plan_tag, .wall = -1, .error = a->error};
    s->net_plan_tag = 0;
    memcpy(reply.id, s->id, sizeof(reply.id));
    if (a->error)
        snprintf(reply.message, sizeof(reply.message), "%s", a->message);
    control_send(s->warden, &reply, -1);
}

static int send_removal(struct egress *n, uint32_t slot)
{
    const struct net_request q = {
        .version = NET_VERSION, .op = NET_REMOVE, .tag = REMOVE_TAG | slot, .slot = slot};
    return send_request(n, &q, NULL, 0);
}

/* As many as the channel takes; its answers are the time for more. */
static void send_removals_left(struct egress *n)
{
    for (uint32_t slot = 0; n->n_left && slot < n->n_slots; slot++) {
        if (n->slots[slot] != SLOT_LEFT)
            continue;
        if (send_removal(n, slot) < 0)
            return;
        n->slots[slot] = SLOT_GOING;
        n->n_left--;
    }
}

/* Also where mas-net says that it failed: it does where nothing was there, as after a link that
 * could not be made, and it makes no link over what stayed. */
static void on_removal_answer(struct egress *n, uint64_t slot)
{
    if (slot < n->n_slots && n->slots[slot] == SLOT_GOING)
        n->slots[slot] = SLOT_FREE;
}

static void answer_cell(struct cell *s, const struct net_answer *a)
{
    s->net_wait = false;
    if (s->net_plan_tag)
        answer_replace(s, a);
    else
        cell_on_network(s, a->error, a->message);
}

static void on_net_answer(struct program_task *t, const void *record)
{
    struct egress *n = container_of(t, struct egress, task);
    struct net_answer a = *(const struct net_answer *)record;
    a.message[sizeof(a.message) - 1] = 0;
    if (a.tag == 0) {
        n->ready = a.error == 0;
        snprintf(n->why_not, sizeof(n->why_not), "%s", a.error ? a.message : "");
        if (a.error)
            log_error("mas-net cannot start: %s", a.message);
    } else if (a.tag & REMOVE_TAG) {
        on_removal_answer(n, a.tag & ~REMOVE_TAG);
    } else {
        struct cell *s = find_waiting(n->warden, a.tag);
        if (s)
            answer_cell(s, &a);
    }
    if (n->ready)
        send_removals_left(n);
}

static void start_program_later(struct egress *n)
{
    n->again_ms = n->ready || !n->again_ms ? AGAIN_MS : 2 * n->again_ms;
    n->again_ms = n->again_ms > AGAIN_MAX_MS ? AGAIN_MAX_MS : n->again_ms;
    n->ready = false;
    n->again = watcher_add_timer(n->warden->watcher, (int)n->again_ms, start_program, n);
}

static void on_net_end(struct program_task *t, int wait_status)
{
    struct egress *n = container_of(t, struct egress, task);
    log_error("mas-net ended wait_status=%d", wait_status);
    start_program_later(n);
    /* Those that were sent may not have been read. */
    for (uint32_t slot = 0; slot < n->n_slots; slot++)
        if (n->slots[slot] == SLOT_GOING) {
            n->slots[slot] = SLOT_LEFT;
            n->n_left++;
        }
    egress_fail_all(n->warden);
}

static void start_program(void *data)
{
    struct egress *n = data;
    struct net_start start = {.version = NET_VERSION, .config = n->warden->options.network};
    n->again = NULL;
    memcpy(start.instance, n->instance, sizeof(start.instance));
    n->task = (struct program_task){.warden = n->warden,
                                    .answer_size = sizeof(struct net_answer),
                                    .on_answer = on_net_answer,
                                    .on_end = on_net_end,
                                    .channel_fd = -1};
    int r = program_task_start(&n->task, net_exec, &start, sizeof(start), n->router_ns);
    if (r == 0)
        return;
    /* The host may be short of processes or descriptors, and not for ever: until then
     * egress_check() answers that it is to be tried again, so there is no reason against it. */
    log_error("mas-net cannot be started: %s", strerror(-r));
    start_program_later(n);
}

/* --- start and end */

/* The namespace is the caller's for a moment, because one can only be made by entering it. */
static int make_router_ns(struct egress *n)
{
    n->host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (n->host_ns < 0 || unshare(CLONE_NEWNET) < 0)
        return -errno;
    n->router_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int error = n->router_ns < 0 ? -errno : 0;
    if (setns(n->host_ns, CLONE_NEWNET) < 0) {
        log_error("cannot leave the router's network: %s", strerror(errno));
        abort(); /* everything that follows would be in the wrong network */
    }
    return error;
}

static int name_instance(struct egress *n)
{
    uint8_t bytes[4];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return -EIO;
    snprintf(n->instance, sizeof(n->instance), "%02x%02x%02x%x", bytes[0], bytes[1], bytes[2],
             bytes[3] & 15);
    return 0;
}

static void set_why_not(struct egress *n, const char *why)
{
    snprintf(n->why_not, sizeof(n->why_not), "%s", why);
    log_warn("sandboxes have no network by address: %s", why);
}

void egress_start(struct warden *w)
{
    const struct net_config *c = &w->options.network;
    if (!c->n_ceiling)
        return;
    struct egress *n = w->egress = new0(struct egress);
    n->warden = w;
    n->router_ns = n->host_ns = -1;
    n->program_fd = w->options.net_fd < 0 ? -1 : fcntl(w->options.net_fd, F_DUPFD_CLOEXEC, 0);
    n->n_slots = net_config_slots(c);
    if (!w->was_root || w->ids.in_userns)
        return set_why_not(n, "that needs a daemon that root started");
    if (n->program_fd < 0)
        return set_why_not(n, "mas-net is not installed");
    if (!net_config_is_valid(c))
        return set_why_not(
            n,
            "network_pool or network_pool6 is not a network that sandboxes can get addresses from");
    int r = name_instance(n);
    if (r < 0)
        return set_why_not(n, strerror(-r));
    r = make_router_ns(n);
    if (r < 0)
        return set_why_not(n, strerror(-r));
    n->slots = xcalloc(n->n_slots, 1);
    start_program(n);
}

/* It ends by itself when its channel does, after it has removed what is on the host. */
static void end_program(struct egress *n)
{
    if (n->task.pid <= 0)
        return;
    fd_close(&n->task.channel_fd);
    for (int waited = 0; waited < STOP_MAX_MS; waited += 10) {
        if (waitpid(n->task.pid, NULL, WNOHANG) != 0)
            break;
        usleep(10000);
    }
    kill(n->task.pid, SIGKILL);
}

void egress_stop(struct warden *w)
{
    struct egress *n = w->egress;
    if (!n)
        return;
    watch_remove(n->again);
    watch_remove(n->task.channel);
    n->task.channel = NULL;
    watch_remove(n->task.child);
    n->task.child = NULL;
    end_program(n);
    fd_close(&n->program_fd);
    fd_close(&n->router_ns);
    fd_close(&n->host_ns);
    free(n->slots);
    free(n);
    w->egress = NULL;
}

/* --- cells */

static int egress_refuse(struct plan_reply *reply, int error, const char *why)
{
    reply->wall = WALL_NETWORK;
    snprintf(reply->message, sizeof(reply->message), "%s", why);
    return error;
}

static int check_ranges(const struct warden *w, const struct cell_ops *ops, const struct plan *p,
                        struct plan_reply *reply)
{
    int r = ops->check_ranges ? ops->check_ranges(w, p, reply) : 0;
    r = r < 0 ? r
              : net_ceiling_check(&w->options.network, p->ranges, p->n_ranges, reply->message,
                                  sizeof(reply->message));
    if (r < 0)
        reply->wall = WALL_NETWORK;
    return r;
}

int egress_check(const struct warden *w, const struct plan *p, struct plan_reply *reply)
{
    const struct egress *n = w->egress;
    const struct cell_ops *ops = cell_kinds[cell_kind_of(p)];
    if (!n || (w->options.network.machines_only && !ops->has_tap))
        return egress_refuse(reply, -EPERM,
                             "a network by address: the operator's network_cidrs is empty");
    if (!cell_has_addresses(p))
        return egress_refuse(reply, -EOPNOTSUPP,
                             "sandboxes of this kind have no network by address");
    if (n->why_not[0])
        return egress_refuse(reply, -EOPNOTSUPP, n->why_not);
    if (n->task.pid <= 0)
        return egress_refuse(reply, -EAGAIN, "mas-net is being started again");
    return check_ranges(w, ops, p, reply);
}

/* Not one that was free a moment ago: what is still on its way to the last sandbox of an address is
 * not to arrive at another. 0: none is left. */
static uint32_t take_slot(struct egress *n)
{
    for (uint32_t i = 0; i < n->n_slots; i++) {
        uint32_t slot = (n->next_slot + i) % n->n_slots;
        if (n->slots[slot] != SLOT_FREE)
            continue;
        n->slots[slot] = SLOT_TAKEN;
        n->next_slot = slot + 1;
        return slot + 1;
    }
    return 0;
}

static void fill_request(const struct cell *s, enum net_op op, const struct plan *p,
                         struct net_request *q)
{
    *q = (struct net_request){
        .version = NET_VERSION, .op = op, .tag = s->serial, .slot = s->net_slot - 1};
    q->n_ranges = p->n_ranges;
    memcpy(q->ranges, p->ranges, p->n_ranges * sizeof(p->ranges[0]));
}

/* A socket that acts in the cell's network, wherever its holder is. That network has to lead
 * nowhere yet, whatever another process said: a link that a sandbox is to have never goes to a
 * network of the host that has a route (there may be several), nor to that of another
 * sandbox with a network by address. That of a sandbox without one has no route either, and is not
 * told apart here: a container's network is as the engine's broker or the OCI runtime handed it
 * over, and these see all containers of theirs. */
static int open_route_socket(const struct egress *n, int ns)
{
    if (setns(ns, CLONE_NEWNET) < 0)
        return -errno;
    int error = routes_check_none(n->warden->proc_fd, "self");
    int fd = error < 0 ? -1 : socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (error == 0 && fd < 0)
        error = -errno;
    if (setns(n->host_ns, CLONE_NEWNET) < 0) {
        log_error("cannot leave a sandbox's network: %s", strerror(errno));
        abort();
    }
    return error < 0 ? error : fd;
}

static int send_request(struct egress *n, const struct net_request *q, const int *fds, size_t n_fds)
{
    ssize_t r =
        n->task.pid > 0 ? fd_send_msg(n->task.channel_fd, q, sizeof(*q), fds, n_fds) : -ESRCH;
    return r < 0 ? (int)r : 0;
}

/* A descriptor of /dev/net/tun that acts in the router's network, wherever its holder is. */
static int open_tap(const struct egress *n)
{
    const struct warden *w = n->warden;
    if (setns(w->host_ns_fd, CLONE_NEWNS) < 0)
        return -errno;
    int fd = setns(n->router_ns, CLONE_NEWNET) < 0
                 ? -1
                 : open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int error = fd < 0 ? -errno : 0;
    if (setns(n->host_ns, CLONE_NEWNET) < 0 || setns(w->own_ns_fd, CLONE_NEWNS) < 0) {
        log_error("cannot leave the router's network: %s", strerror(errno));
        abort();
    }
    return error < 0 ? error : fd;
}

static int open_network(struct cell *s)
{
    char path[64];
    if (s->network_fd >= 0)
        return fd_steal(&s->network_fd);
    snprintf(path, sizeof(path), "%d/ns/net", (int)s->pid);
    int fd = openat(s->warden->proc_fd, path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Also where the warden's own network has no route. */
static bool is_hosts(const struct egress *n, int ns)
{
    struct stat host, its;
    return fstat(n->host_ns, &host) < 0 || fstat(ns, &its) < 0 ||
           (host.st_ino == its.st_ino && host.st_dev == its.st_dev);
}

static int ask_for_link(struct cell *s, enum net_op op, const int *fds, size_t n_fds)
{
    struct egress *n = s->warden->egress;
    struct net_request q;
    s->net_slot = take_slot(n);
    if (!s->net_slot)
        return -EUSERS;
    fill_request(s, op, &s->plan, &q);
    int r = send_request(n, &q, fds, n_fds);
    s->net_wait = r == 0;
    return r;
}

int egress_attach(struct cell *s)
{
    struct egress *n = s->warden->egress;
    if (s->ops->has_tap) {
        s->network_fd = open_tap(n);
        return s->network_fd < 0 ? s->network_fd : ask_for_link(s, NET_ADD_TAP, &s->network_fd, 1);
    }
    _cleanup_close_ int ns = open_network(s);
    if (ns < 0 || is_hosts(n, ns))
        return ns < 0 ? ns : -EPERM;
    _cleanup_close_ int route = open_route_socket(n, ns);
    if (route < 0)
        return route;
    return ask_for_link(s, NET_ADD, (int[]){ns, route}, 2);
}

void egress_detach(struct cell *s)
{
    struct egress *n = s->warden->egress;
    if (!n || !s->net_slot)
        return;
    bool sent = send_removal(n, s->net_slot - 1) == 0;
    n->slots[s->net_slot - 1] = sent ? SLOT_GOING : SLOT_LEFT;
    n->n_left += !sent;
    s->net_slot = 0;
    s->net_wait = false;
}

int egress_replace(struct cell *s, const struct plan *p, struct plan_reply *reply)
{
    struct net_request q;
    if (!s->net_slot || s->state != CELL_RUNNING)
        return egress_refuse(reply, -EOPNOTSUPP, "this sandbox has no network by address");
    if (s->net_wait)
        return egress_refuse(reply, -EBUSY, "its network is being changed");
    int r = check_ranges(s->warden, s->ops, p, reply);
    if (r < 0)
        return r;
    fill_request(s, NET_REPLACE, p, &q);
    if (send_request(s->warden->egress, &q, NULL, 0) < 0) {
        snprintf(reply->message, sizeof(reply->message), "mas-net is being started again");
        return -EHOSTDOWN;
    }
    s->net_wait = true;
    s->net_plan_tag = p->tag;
    return 0;
}

/* Those who wait for a mas-net that died wait in vain. */
static void egress_fail_all(struct warden *w)
{
    const struct net_answer gone = {.error = EHOSTDOWN, .message = "mas-net ended"};
    size_t cursor = 0;
    for (struct cell *s; (s = map_next(w->by_id, &cursor));) {
        if (s->net_wait)
            answer_cell(s, &gone);
    }
}
