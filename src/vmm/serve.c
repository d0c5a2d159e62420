/* SPDX-License-Identifier: Apache-2.0 */
/* Carries the control plane's connections over the guest's data port. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "builder/child.h"
#include "link/mark.h"
#include "proto/channel.h"
#include "vmm/driver.h"
#include "vmm/vmm.h"

/* How long a guest may take to answer the beginning of a connection, and how often that is looked
 * at. */
#define ANSWER_MAX_MS  60000
#define ANSWER_LOOK_MS 1000

struct server {
    struct vm *vm;
    int stream_fd;                  /* the control plane's newest connection, or -1 */
    uint32_t connection;            /* how many there were */
    int64_t answer_by_ms;           /* while it is not in step: the end of our patience */
    pid_t warming;                  /* the connection is that of this process of ours, or 0 */
    bool running;                   /* we have said that the machine runs */
    bool in_step;                   /* the guest has repeated: */
    uint8_t nonce[GUEST_MARK_SIZE]; /* of this connection */
    struct pump in;                 /* to the guest */
    struct pump out;                /* from it */
};

/* What the old connection still had to say has no reader any more, and the guest drops what
 * comes before the mark. */
static int begin_connection(struct server *s, int fd)
{
    fd_close(&s->stream_fd);
    if (getrandom(s->nonce, sizeof(s->nonce), 0) != sizeof(s->nonce))
        return -EIO;
    s->stream_fd = fd;
    s->connection++;
    s->in_step = false;
    s->answer_by_ms = clock_mono_ms() + ANSWER_MAX_MS;
    s->in.len = 0;
    pump_put(&s->in, s->vm->mark, GUEST_MARK_SIZE);
    pump_put(&s->in, s->nonce, GUEST_MARK_SIZE);
    return fd_set_nonblock(fd, true);
}

/* True: the control plane can take no more for now. */
static bool deliver(struct server *s)
{
    if (!s->in_step) {
        bool found;
        size_t n = mark_find(pump_bytes(&s->out), s->out.len, s->nonce, &found);
        pump_skip(&s->out, n + (found ? GUEST_MARK_SIZE : 0));
        if (!found)
            return false;
        s->in_step = true;
        if (!s->warming && !s->running) {
            s->running = true;
            child_report_running();
        }
    }
    if (s->stream_fd < 0) {
        pump_skip(&s->out, s->out.len);
        return false;
    }
    if (s->out.len && pump_drain(&s->out, s->stream_fd, s->out.len) < 0)
        fd_close(&s->stream_fd);
    return s->out.len > 0;
}

/* The machine is another one, and nothing that waits here is for it or comes from it. */
static void begin_anew(struct server *s)
{
    fd_close(&s->stream_fd);
    pump_skip(&s->in, s->in.len);
    pump_skip(&s->out, s->out.len);
    s->in_step = false;
    s->connection = s->vm->connections;
    s->answer_by_ms = clock_mono_ms() + ANSWER_MAX_MS;
    fd_set_nonblock(s->vm->data_fd, true);
    if (s->vm->listener_fd >= 0)
        vm_start_lines(s->vm, fcntl(s->vm->listener_fd, F_DUPFD_CLOEXEC, 0));
}

/* Takes what comes with it. */
static int take_order(struct server *s, char byte, int fds[FD_PASS_MAX])
{
    struct vm *vm = s->vm;
    if (byte == CHANNEL_SAVE[0])
        return vm_save(vm, fd_steal(&fds[0]), fd_steal(&fds[1]), fd_steal(&fds[2]));
    if (byte == CHANNEL_RETURN[0]) {
        vm_go_back(vm, fd_steal(&fds[0]), fd_steal(&fds[1]), fd_steal(&fds[2]));
        begin_anew(s);
        return 0;
    }
    if (byte == CHANNEL_LISTENER[0] && vm->driver->vsock_socket) {
        vm_start_relay(vm, fd_steal(&fds[0]), vm->driver->vsock_socket);
        return 0;
    }
    if (byte == CHANNEL_LISTENER[0]) {
        fd_close(&vm->listener_fd);
        vm->listener_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
        vm_start_lines(vm, fd_steal(&fds[0]));
        return 0;
    }
    if (byte == CHANNEL_API[0])
        vm_start_relay(vm, fd_steal(&fds[0]), VM_API_SOCKET);
    else if (byte == CHANNEL_LOG[0])
        vm_give_outlet(&vm->log, fd_steal(&fds[0]));
    else if (byte == CHANNEL_METRICS[0])
        vm_give_outlet(&vm->metrics, fd_steal(&fds[0]));
    else
        return begin_connection(s, fd_steal(&fds[0]));
    return 0;
}

static int take_channel(struct server *s)
{
    int fds[FD_PASS_MAX];
    char byte;
    ssize_t n = fd_recv_msg(CHILD_CHANNEL_FD, &byte, 1, fds);
    if (n == 0)
        return -EPIPE; /* the warden is gone, and we go with it */
    int r = n == 1 && fds[0] >= 0 ? take_order(s, byte, fds) : 0;
    for (size_t i = 0; i < FD_PASS_MAX; i++)
        fd_close(&fds[i]);
    return r;
}

static int port_turn(struct server *s, short ready)
{
    if (ready & (POLLIN | POLLHUP) && pump_has_room(&s->out)) {
        ssize_t n = pump_fill(&s->out, s->vm->data_fd);
        if (n == 0 || (n < 0 && n != -EAGAIN))
            return n < 0 ? (int)n : -EPIPE;
    }
    if (s->in.len && ready & POLLOUT) {
        ssize_t n = pump_drain(&s->in, s->vm->data_fd, s->in.len);
        if (n < 0)
            return (int)n;
    }
    return 0;
}

static void stream_turn(struct server *s, short ready)
{
    if (!(ready & (POLLIN | POLLHUP)) || !pump_has_room(&s->in))
        return;
    ssize_t n = pump_fill(&s->in, s->stream_fd);
    if (n == 0 || (n < 0 && n != -EAGAIN))
        fd_close(&s->stream_fd);
}

static int control_turn(struct server *s)
{
    uint32_t closed;
    int r = guest_hear(s->vm, &closed);
    if (closed && closed == s->connection)
        fd_close(&s->stream_fd);
    return r;
}

static void wait_for_turn(struct server *s, bool stuck, struct pollfd *fds)
{
    struct vm *vm = s->vm;
    fds[0] = (struct pollfd){
        .fd = vm->data_fd,
        .events = (short)((pump_has_room(&s->out) ? POLLIN : 0) | (s->in.len ? POLLOUT : 0))};
    fds[1] = (struct pollfd){
        .fd = s->stream_fd,
        .events = (short)((pump_has_room(&s->in) ? POLLIN : 0) | (stuck ? POLLOUT : 0))};
    fds[2] = (struct pollfd){.fd = vm->ctl_fd, .events = POLLIN};
    fds[3] = (struct pollfd){.fd = CHILD_CHANNEL_FD, .events = POLLIN};
    fds[4] = (struct pollfd){.fd = vm->emulator_pidfd, .events = POLLIN};
    while (poll(fds, 5, s->in_step ? -1 : ANSWER_LOOK_MS) < 0 && errno == EINTR)
        ;
}

/* Before the machine runs it is the warden's patience that counts. */
static bool is_late(const struct server *s)
{
    return !s->in_step && s->running && clock_mono_ms() > s->answer_by_ms;
}

/* The guest's last bytes are in the port's socket when the guest is gone. */
static void deliver_rest(struct server *s)
{
    fd_set_nonblock(s->vm->data_fd, true);
    while (s->stream_fd >= 0 && pump_has_room(&s->out) && pump_fill(&s->out, s->vm->data_fd) > 0)
        deliver(s);
    if (s->stream_fd < 0)
        return;
    fd_set_nonblock(s->stream_fd, false);
    deliver(s);
}

/* Our own first, where that can be; then the control plane's. */
static int begin_first(struct server *s, int stream_fd)
{
    int fd = s->vm->start.child.origin == VM_COPIED ? -ENOTSUP : vm_warm(&s->warming);
    if (fd >= 0)
        return begin_connection(s, fd);
    s->warming = 0;
    return begin_connection(s, stream_fd);
}

static int end_warming(struct server *s, int stream_fd)
{
    waitpid(s->warming, NULL, 0);
    s->warming = 0;
    return begin_connection(s, stream_fd);
}

void vm_serve(struct vm *vm, int stream_fd)
{
    static struct server s;
    struct pollfd fds[5];
    bool stuck = false;
    s = (struct server){.vm = vm, .stream_fd = -1, .connection = vm->connections};
    fd_set_nonblock(vm->data_fd, true);
    int r = begin_first(&s, stream_fd);
    while (r == 0) {
        wait_for_turn(&s, stuck, fds);
        r = port_turn(&s, fds[0].revents);
        if (fds[1].fd >= 0)
            stream_turn(&s, fds[1].revents);
        stuck = deliver(&s);
        if (r == 0 && fds[2].revents)
            r = control_turn(&s);
        if (r == 0 && fds[3].revents)
            r = take_channel(&s);
        if (r == 0 && (fds[4].revents || is_late(&s)))
            r = -EPIPE;
        if (r == 0 && s.warming && s.stream_fd < 0)
            r = end_warming(&s, stream_fd);
    }
    vm->driver->stop(vm); /* or it could go on for ever to say its last words */
    if (s.in_step)
        deliver_rest(&s);
}
