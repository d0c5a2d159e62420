/* SPDX-License-Identifier: Apache-2.0 */
/* The control port: a guest is hostile from its first byte, so each record is checked, and nothing
 * is waited for without also watching the emulator. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "builder/child.h"
#include "vmm/driver.h"
#include "vmm/vmm.h"

static void __attribute__((noreturn)) fail_with_message(struct vm *vm, const char *step)
{
    char said[100], text[160];
    emulator_read_message(vm, said, sizeof(said));
    snprintf(text, sizeof(text), "%s%s%s", step, said[0] ? ": " : "", said);
    child_must(-EIO, text, -1);
    _exit(125);
}

/* The warden ends us when this takes longer than a create may. */
static void wait_readable(struct vm *vm, const char *step)
{
    struct pollfd fds[] = {{.fd = vm->ctl_fd, .events = POLLIN},
                           {.fd = vm->emulator_pidfd, .events = POLLIN},
                           {.fd = CHILD_CHANNEL_FD}};
    while (poll(fds, 3, -1) < 0)
        if (errno != EINTR)
            child_must(-errno, step, -1);
    if (fds[2].revents & (POLLHUP | POLLERR))
        _exit(0); /* the warden is gone */
    if (!(fds[0].revents & POLLIN))
        fail_with_message(vm, step);
}

/* Of the first record it is all that two builds agree on, its size included. */
static void must_be_of_this_build(const struct guest_message *m)
{
    child_must(m->magic == GUEST_MAGIC ? 0 : -EPROTO,
               "the guest's initramfs is not of this build (or the guest sends nonsense): "
               "scripts/microvm/machine.sh makes it anew",
               -1);
}

static void receive_record(struct vm *vm, const char *step, struct guest_message *m)
{
    for (size_t done = 0; done < sizeof(*m);) {
        wait_readable(vm, step);
        ssize_t n = read(vm->ctl_fd, (char *)m + done, sizeof(*m) - done);
        if (n <= 0)
            fail_with_message(vm, step);
        done += (size_t)n;
        if (done >= sizeof(m->magic))
            must_be_of_this_build(m);
    }
}

static void receive_news(struct vm *vm, enum guest_news expected, const char *step,
                         struct guest_message *m)
{
    receive_record(vm, step, m);
    if (m->news != expected && m->news != GUEST_STARTED)
        child_must(-EPROTO, step, -1);
}

/* The guest's word for what went wrong in it, as far as it is one of ours. */
static void must_have_started(struct guest_message *m)
{
    struct child_failure *f = &m->failure;
    f->step[sizeof(f->step) - 1] = 0;
    /* The guest may be hostile: its text goes to logs and answers, where control characters do
     * harm. */
    for (char *c = f->step; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    if (f->error || m->news != GUEST_STARTED)
        child_must(f->error > 0 && f->error < 4096 ? -f->error : -EPROTO,
                   f->step[0] ? f->step : "start the guest",
                   f->wall >= 0 && f->wall < _WALL_MAX ? f->wall : -1);
}

static int fill_random(void *data, size_t size)
{
    return getrandom(data, size, 0) == (ssize_t)size ? 0 : -EIO;
}

/* Its last byte stays NUL. */
static int read_authority(const struct vm *vm, char ret[INTERCEPT_PEM_SIZE])
{
    if (vm->authority_fd < 0)
        return 0;
    return pread(vm->authority_fd, ret, INTERCEPT_PEM_SIZE - 1, 0) < 0 ? -errno : 0;
}

static int64_t realtime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void send_order(struct vm *vm)
{
    struct guest_order o = {
        .magic = GUEST_MAGIC,
        .n_filter = vm->start.n_filter,
        .user_limits = vm->start.user_limits,
        .child = vm->start.child,
    };
    int r = fill_random(vm->mark, sizeof(vm->mark));
    r = r < 0 ? r : fill_random(o.seed, sizeof(o.seed));
    r = r < 0 ? r : read_authority(vm, o.authority);
    memcpy(o.mark, vm->mark, sizeof(o.mark));
    o.realtime_ns = realtime_ns();
    r = r < 0 ? r : fd_write_all(vm->ctl_fd, &o, sizeof(o));
    r = r < 0 ? r
              : fd_write_all(vm->ctl_fd, vm->filter, vm->start.n_filter * sizeof(vm->filter[0]));
    explicit_bzero(o.seed, sizeof(o.seed));
    child_must(r, "give the guest its order", -1);
}

/* The port's socket takes a record whole or not at all. A guest that reads none has the time that
 * it has. */
void guest_set_clock(struct vm *vm)
{
    const struct guest_renewal r = {
        .magic = GUEST_MAGIC, .only_clock = 1, .realtime_ns = realtime_ns()};
    fd_write_all(vm->ctl_fd, &r, sizeof(r));
}

void guest_await_boot(struct vm *vm)
{
    struct guest_message m;
    receive_news(vm, GUEST_READY, "boot the guest", &m);
    if (m.news == GUEST_STARTED) /* it could not even begin */
        must_have_started(&m);
}

void guest_begin(struct vm *vm)
{
    struct guest_message m;
    send_order(vm);
    receive_news(vm, GUEST_STARTED, "start the runner in the guest", &m);
    must_have_started(&m);
    fd_set_nonblock(vm->ctl_fd, true);
    guest_set_clock(vm);
}

/* What the machine that this one is a copy of had yet to say of its connections comes first. */
void guest_renew(struct vm *vm)
{
    struct guest_message m;
    struct guest_renewal r = {.magic = GUEST_MAGIC};
    int e = fill_random(vm->mark, sizeof(vm->mark));
    e = e < 0 ? e : fill_random(r.seed, sizeof(r.seed));
    memcpy(r.mark, vm->mark, sizeof(r.mark));
    r.realtime_ns = realtime_ns();
    e = e < 0 ? e : fd_write_all(vm->ctl_fd, &r, sizeof(r));
    explicit_bzero(r.seed, sizeof(r.seed));
    child_must(e, "renew the guest", -1);
    do
        receive_record(vm, "renew the guest", &m);
    while (m.news == GUEST_CLOSED);
    if (m.news == GUEST_STARTED) /* or rather not */
        must_have_started(&m);
    child_must(m.news == GUEST_RENEWED ? 0 : -EPROTO, "renew the guest", -1);
    vm->connections = m.connection;
    fd_set_nonblock(vm->ctl_fd, true);
    guest_set_clock(vm);
}

int guest_hear(struct vm *vm, uint32_t *closed)
{
    static struct guest_message m;
    static size_t have;
    static int heard_fd = -1;
    *closed = 0;
    if (heard_fd != vm->ctl_fd) /* another machine: nothing of its news has come */
        have = 0;
    heard_fd = vm->ctl_fd;
    ssize_t n = read(vm->ctl_fd, (char *)&m + have, sizeof(m) - have);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    if (n == 0)
        return -EPIPE;
    have += (size_t)n;
    if (have < sizeof(m))
        return 0;
    have = 0;
    if (m.magic != GUEST_MAGIC)
        return -EPROTO;
    if (m.news == GUEST_CLOSED) {
        *closed = m.connection;
        return 0;
    }
    if (m.news != GUEST_ENDED)
        return -EPROTO;
    vm->ended = true;
    vm->wait_status = m.wait_status;
    return -EPIPE;
}
