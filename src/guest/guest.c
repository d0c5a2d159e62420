/* SPDX-License-Identifier: Apache-2.0 */
/* See guest.h. */
#include "guest/guest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/landlock.h"
#include "guest/internal.h"
#include "warden/local/child.h"

/* The runner's, in the guest's own numbers, where 0 is more than it may be. The two users of tools
 * have the numbers that they have in the sandbox, because files of the host's directories come with
 * those (share.c). The guest has no users beside them. */
#define RUNNER_ID 100000

bool guest_is_here(int argc, char **argv)
{
    return getpid() == 1 && argc > 0 && strcmp(argv[0], "/init") == 0;
}

void guest_power_off(void)
{
    sync();
    reboot(RB_AUTOBOOT); /* the machine is one that does not start again */
    for (;;)
        pause();
}

void guest_send(const struct guest *g, struct guest_message *m)
{
    m->magic = GUEST_MAGIC;
    fd_write_all(g->ctl_fd, m, sizeof(*m));
}

static void send_started(const struct guest *g, const struct child_failure *f)
{
    struct guest_message m = {.news = GUEST_STARTED, .landlock_abi = (uint32_t)landlock_abi()};
    m.failure = *f;
    guest_send(g, &m);
}

void guest_give_up(struct guest *g, const char *step, int error)
{
    struct child_failure f = {.error = error, .wall = -1};
    snprintf(f.step, sizeof(f.step), "%s", step);
    send_started(g, &f);
    guest_power_off();
}

/* --- the order */

static bool receive_exactly(struct guest *g, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(g->ctl_fd, (char *)data + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* False: the connection ended before all of it was there. */
static bool receive_order(struct guest *g)
{
    struct guest_order *o = &g->order;
    if (!receive_exactly(g, o, sizeof(*o)))
        return false;
    if (o->magic != GUEST_MAGIC || o->n_filter == 0 || o->n_filter > GUEST_FILTER_MAX ||
        o->child.n_mounts > PLAN_MOUNTS_MAX || o->child.image_from_fd ||
        o->child.authority_from_fd || o->authority[sizeof(o->authority) - 1])
        guest_give_up(g, "read the guest's order", EPROTO);
    return receive_exactly(g, g->filter, o->n_filter * sizeof(g->filter[0]));
}

/* mas-vmm closed its end, or the machine is a copy, which has lost its connections. */
static void await_order(struct guest *g)
{
    struct guest_message ready = {.news = GUEST_READY, .landlock_abi = (uint32_t)landlock_abi()};
    for (;;) {
        guest_send(g, &ready);
        if (receive_order(g))
            return;
        if (!guest_vsock_accept_again(g))
            guest_power_off();
    }
}

/* A copy of a machine has the random numbers and the clock of the moment in which it was kept. */
static void renew_randomness(struct guest *g, uint8_t seed[GUEST_SEED_SIZE])
{
    struct { /* rand_pool_info, whose bytes have no size of their own */
        int entropy_count, buf_size;
        uint8_t seed[GUEST_SEED_SIZE];
    } pool = {.entropy_count = GUEST_SEED_SIZE * 8, .buf_size = GUEST_SEED_SIZE};
    static_assert(offsetof(typeof(pool), seed) == offsetof(struct rand_pool_info, buf),
                  "the kernel reads it as that");
    memcpy(pool.seed, seed, GUEST_SEED_SIZE);
    _cleanup_close_ int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) < 0 || ioctl(fd, RNDRESEEDCRNG) < 0)
        guest_give_up(g, "renew the guest's random numbers", errno);
    explicit_bzero(seed, GUEST_SEED_SIZE);
    explicit_bzero(&pool, sizeof(pool));
}

static void renew_clock(struct guest *g, int64_t realtime_ns)
{
    const struct timespec now = {realtime_ns / 1000000000, realtime_ns % 1000000000};
    if (clock_settime(CLOCK_REALTIME, &now) < 0)
        guest_give_up(g, "set the guest's clock", errno);
}

/* The random numbers come first: nothing that is new here may be drawn from the old ones. */
void guest_renew(struct guest *g, uint32_t connections)
{
    struct guest_renewal r;
    struct guest_message renewed = {.news = GUEST_RENEWED, .connection = connections};
    receive_exactly(g, &r, sizeof(r));
    if (r.magic != GUEST_MAGIC)
        guest_power_off();
    if (r.only_clock)
        return renew_clock(g, r.realtime_ns);
    renew_randomness(g, r.seed);
    renew_clock(g, r.realtime_ns);
    memcpy(g->order.mark, r.mark, sizeof(g->order.mark));
    int e = guest_renew_boot_id(g);
    if (e < 0)
        guest_give_up(g, "renew the guest's boot id", -e);
    guest_restart_lines(g);
    guest_send(g, &renewed);
}

/* --- the runner */

struct ends {
    int stream, channel, failure;
};

static int open_ends(struct guest *g, struct ends *ret, int *ret_failure)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    g->stream_fd = pair[0];
    ret->stream = pair[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    g->channel_fd = pair[0];
    ret->channel = pair[1];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    *ret_failure = pair[0];
    ret->failure = pair[1];
    return 0;
}

static int map_ids(pid_t pid)
{
    static const char *const files[] = {"uid_map", "gid_map"};
    char path[48], map[96];
    int r = 0;
    snprintf(map, sizeof(map), "%d %d 1\n%d %d 1\n%d %d 1\n", SANDBOX_RUNNER_ID, RUNNER_ID,
             SANDBOX_TOOL_ID, SANDBOX_TOOL_ID, SANDBOX_NOBODY_ID, SANDBOX_NOBODY_ID);
    for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(*files); i++) {
        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
        r = fd_write_file_at(AT_FDCWD, path, map);
    }
    return r;
}

static void __attribute__((noreturn)) child(const struct guest *g, const struct ends *e)
{
    const struct sock_fprog filter = {.len = (unsigned short)g->order.n_filter,
                                      .filter = (struct sock_filter *)g->filter};
    const struct child_template t = {
        .seccomp = &filter,
        .landlock_abi = landlock_abi(),
        .user_limits = g->order.user_limits,
    };
    child_main(&t, NULL, e->stream, e->channel, e->failure);
}

static pid_t clone_child(struct guest *g, const struct ends *e)
{
    struct clone_args args = {
        .flags = CLONE_PIDFD | CLONE_NEWPID | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET |
                 CLONE_NEWIPC | CLONE_NEWUTS,
        .pidfd = (uint64_t)(uintptr_t)&g->runner_pidfd,
        .exit_signal = SIGCHLD,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        child(g, e);
    return pid < 0 ? -errno : pid;
}

/* The order in which the warden speaks with a child of its own (builder/child.h). */
static int instruct(struct guest *g)
{
    char byte;
    int r = map_ids(g->runner);
    if (r == 0 && fd_send_msg(g->channel_fd, "g", 1, NULL, 0) < 0)
        r = -errno;
    if (r == 0 && recv(g->channel_fd, &byte, 1, 0) == 1)
        r = (int)fd_send_msg(g->channel_fd, &g->order.child, sizeof(g->order.child), g->share_fds,
                             g->n_shares);
    int more[3];
    size_t n_more = 0;
    if (g->disk_fd >= 0)
        more[n_more++] = g->disk_fd;
    if (g->image_fd >= 0)
        more[n_more++] = g->image_fd;
    if (g->authority_fd >= 0)
        more[n_more++] = g->authority_fd;
    if (r >= 0 && n_more)
        r = (int)fd_send_msg(g->channel_fd, "t", 1, more, n_more);
    return r < 0 ? r : 0;
}

/* The child adds it to what its programs trust. */
static void open_authority(struct guest *g)
{
    const char *text = g->order.authority;
    g->authority_fd = text[0] ? fd_sealed_memory("authority", text, strlen(text)) : -1;
    if (text[0] && g->authority_fd < 0)
        guest_give_up(g, "keep a certificate authority", -g->authority_fd);
    g->order.child.authority_from_fd = g->authority_fd >= 0;
}

static void start_runner(struct guest *g)
{
    struct ends ends;
    struct child_failure f = {.wall = -1};
    int failure_fd;
    int r = open_ends(g, &ends, &failure_fd);
    if (r == 0 && (g->runner = clone_child(g, &ends)) < 0)
        r = g->runner;
    if (r < 0)
        guest_give_up(g, "make namespaces in the guest", -r);
    guest_give_network(g);
    close(ends.stream);
    close(ends.channel);
    close(ends.failure);
    r = instruct(g);
    ssize_t n = read(failure_fd, &f, sizeof(f));
    close(failure_fd);
    if (n != 0 || r < 0) {
        if (n != sizeof(f))
            guest_give_up(g, "start the runner in the guest", r < 0 ? -r : EIO);
        send_started(g, &f);
        guest_power_off();
    }
    send_started(g, &f);
}

static void open_serial_ports(struct guest *g)
{
    g->ctl_fd = guest_open_port(GUEST_CTL_PORT);
    g->data_fd = guest_open_port(GUEST_DATA_PORT);
    g->lines_fd = guest_open_port(GUEST_LINES_PORT);
    if (g->ctl_fd < 0 || g->data_fd < 0 || g->lines_fd < 0)
        guest_power_off();
}

void guest_main(void)
{
    static struct guest g = {
        .ctl_fd = -1, .data_fd = -1, .lines_fd = -1, .listeners = {-1, -1, -1}};
    guest_mount_kernel_views();
    guest_load_modules(GUEST_MODULES);
    bool vsock = guest_vsock_listen(&g);
    if (!vsock)
        open_serial_ports(&g);
    guest_open_shares(&g);
    guest_load_network();
    guest_enter_root(&g);
    await_order(&g);
    guest_vsock_settle(&g);
    guest_open_disk(&g, RUNNER_ID,
                    g.order.child.flags & PLAN_TOOL_NOBODY ? SANDBOX_NOBODY_ID : SANDBOX_TOOL_ID);
    guest_open_image(&g, RUNNER_ID);
    guest_mount_shares(&g);
    guest_open_drives(&g);
    open_authority(&g);
    renew_randomness(&g, g.order.seed);
    renew_clock(&g, g.order.realtime_ns);
    start_runner(&g);
    if (vsock)
        guest_vsock_start_clients(&g);
    else
        guest_start_lines(&g);
    struct guest_message ended = {.news = GUEST_ENDED, .wait_status = guest_serve(&g)};
    guest_send(&g, &ended);
    guest_power_off();
}
