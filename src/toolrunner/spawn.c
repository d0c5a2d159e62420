/* SPDX-License-Identifier: Apache-2.0 */
/* Starts commands: the runner's side (spawn.h). */
#include "toolrunner/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "proto/message.h"
#include "toolrunner/builtin.h"
#include "toolrunner/raw-call.h"
#include "toolrunner/spawn-child.h"
#include "toolrunner/start.h"

#define CHILD_STACK_SIZE 65536
#define LEAVE_FLAGS      (CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)
#define SUID_DUMPABLE    "/proc/sys/fs/suid_dumpable"

/* A start that is waited for. A child that has to be continued more often than WAIT_STOPS_MAX is
 * being stopped on purpose, by a command of the same user. */
#define WAIT_TURN_NS   (20 * 1000 * 1000ll)
#define WAIT_MAX_NS    (5 * 1000 * 1000 * 1000ll)
#define WAIT_STOPS_MAX 5
#define WAIT_DEATH_NS  (1000 * 1000 * 1000ll)

static enum { MEMORY_UNKNOWN, MEMORY_SHARED, MEMORY_COPIED } memory;

/* A kernel without that setting never opens such memory. Nothing is allocated: a zygote calls this,
 * and the secret of its heap would be that of every sandbox. */
void spawn_look_at_host(void)
{
    char value = 0;
    _cleanup_close_ int fd = open(SUID_DUMPABLE, O_RDONLY | O_CLOEXEC);
    bool closed = fd < 0 ? errno == ENOENT : read(fd, &value, 1) == 1 && value == '0';
    memory = closed ? MEMORY_SHARED : MEMORY_COPIED;
}

/* --- programs that are waited for */

static int plan_fill(struct spawn_plan *p, size_t argc)
{
    p->argv = xcalloc(argc + SPAWN_ARGV_FREE + 1, sizeof(*p->argv));
    memcpy(p->argv + SPAWN_ARGV_FREE, p->msg->argv, argc * sizeof(*p->argv));
    p->path = xcalloc(1, p->path_size);
    p->stage = "approved content";
    p->n_pins = pins_parse(p->msg->pins, argc, p->pins);
    return p->n_pins < 0 ? p->n_pins : 0;
}

/* Until the child has left our memory. False when it had to be killed for that; *ret_stuck when not
 * even that has helped so far. */
static bool await_leaving(struct start *s, pid_t pid, bool *ret_stuck)
{
    int64_t end = clock_mono_ns() + WAIT_MAX_NS;
    for (int stops = 0; !start_wait(s, clock_mono_ns() + WAIT_TURN_NS);) {
        siginfo_t info = {0};
        bool stopped =
            waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid == pid;
        if (clock_mono_ns() >= end || (stopped && ++stops > WAIT_STOPS_MAX)) {
            kill(pid, SIGKILL);
            *ret_stuck = !start_wait(s, clock_mono_ns() + WAIT_DEATH_NS);
            start_forget(s);
            return false;
        }
        if (stopped)
            kill(pid, SIGCONT);
    }
    return true;
}

/* The pipe's other end is closed when the child has left our memory: by execve() or by its end. */
static pid_t clone_and_wait(struct spawn_plan *p, char **stack)
{
    int pipe[2];
    struct start s;
    bool stuck = false;
    p->stage = "fork";
    if (pipe2(pipe, O_CLOEXEC) < 0)
        return -errno;
    pid_t pid = clone(spawn_child_main, *stack + CHILD_STACK_SIZE, CLONE_VM | SIGCHLD, p);
    int error = errno;
    close(pipe[1]);
    fd_set_nonblock(pipe[0], true);
    start_await_report(&s, pipe[0]);
    if (pid < 0) {
        start_forget(&s);
        return -error;
    }
    if (!await_leaving(&s, pid, &stuck))
        p->error = ETIMEDOUT;
    if (stuck) /* the kernel may still write to it */
        *stack = NULL;
    if (!p->error)
        return pid;
    waitpid(pid, NULL, WNOHANG); /* or the loop reaps it */
    return -p->error;
}

static pid_t spawn_waiting(struct spawn_plan *p)
{
    static char *stack;
    size_t argc = strv_length(p->msg->argv);
    int r = plan_fill(p, argc);
    if (r == 0 && !stack)
        stack = xcalloc(1, CHILD_STACK_SIZE);
    if (r == 0)
        r = clone_and_wait(p, &stack);
    free(p->argv);
    free(p->path);
    return r;
}

/* --- programs that are not */

/* What the child does is raw calls only, and no wait for something of ours. */
static bool plan_is_plain(const struct spawn_plan *p)
{
    return RAW_CALLS && !p->wait && !p->terminal &&
           !(p->msg->flags & (SPAWN_NARROW | SPAWN_PINNED)) && !p->proxy_port &&
           !p->identity->shared_uid;
}

#ifndef __GLIBC__
/* What musl's clone() is made of. From version 1.2.5 on, clone() itself refuses a word for the
 * kernel to clear, which a thread of musl's would need for itself; our child is none. */
int __clone(int (*fn)(void *), void *stack, int flags, void *data, ...);
#endif

/* The pid, or -errno. */
static pid_t clone_with_word(struct start_slot *slot, struct spawn_plan *copy)
{
    int *word = start_slot_word(slot);
    void *stack = start_slot_stack(slot);
#ifndef __GLIBC__
    return __clone(spawn_child_main, stack, LEAVE_FLAGS, copy, word, NULL, word);
#else
    pid_t pid = clone(spawn_child_main, stack, LEAVE_FLAGS, copy, word, NULL, word);
    return pid < 0 ? -errno : pid;
#endif
}

/* --- copies */

static void __attribute__((noreturn)) forked_main(struct spawn_plan *p)
{
    if (!p->builtin && plan_fill(p, strv_length(p->msg->argv)) == 0)
        spawn_child_main(p);
    int r = p->builtin ? spawn_child_prepare(p) : p->n_pins;
    if (r < 0) {
        start_tell_failure(p->report_fd, -r, p->stage);
        _exit(SPAWN_CHILD_FAILED);
    }
    /* The report's end is the word that all went well. */
    fd_close_from(3);
    _exit(p->builtin->run((int)strv_length(p->msg->argv), p->msg->argv));
}

static pid_t spawn_forked(struct spawn_plan *p)
{
    int report[2];
    p->stage = "fork";
    if (pipe2(report, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int report_read = report[0], report_write = report[1];
    p->forked = true;
    p->report_fd = report_write;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        forked_main(p);
    fd_set_nonblock(report_read, true);
    start_await_report(p->start, fd_steal(&report_read));
    return pid;
}

/* There are three ways, from the cheapest on. A plain program shares the runner's memory until
 * execve() and is not waited for: its plan is copied into a slot. One that needs more than raw
 * calls shares the memory too, but the runner waits until it has left it. Where the host would
 * let a process that has changed its user look into shared memory (fs.suid_dumpable), the memory
 * is copied by fork(). */
static pid_t spawn_program(struct spawn_plan *p)
{
    struct spawn_plan *copy;
    p->path_size = strlen(spawn_env_path(p->msg->env)) + strlen(p->msg->argv[0]) + 3;
    if (memory != MEMORY_SHARED && p->identity->switch_user)
        return spawn_forked(p);
    struct start_slot *slot = plan_is_plain(p) ? start_slot_take(p->start, p, &copy) : NULL;
    if (!slot)
        return spawn_waiting(p);
    copy->leaves = true;
    p->stage = copy->stage = "fork";
    pid_t pid = clone_with_word(slot, copy);
    if (pid < 0)
        start_slot_give(slot);
    return pid;
}

pid_t spawn_start(struct spawn_plan *p)
{
    p->error = 0;
    return p->builtin ? spawn_forked(p) : spawn_program(p);
}
