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
#include "base/fd.h"
#include "proto/message.h"
#include "toolrunner/builtin.h"
#include "toolrunner/raw-call.h"
#include "toolrunner/spawn-child.h"
#include "toolrunner/start.h"

#define CHILD_STACK_SIZE 65536
#define LEAVE_FLAGS      (CLONE_VM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)

static pid_t spawn_waiting(struct spawn_plan *p)
{
    static char stack[CHILD_STACK_SIZE] __attribute__((aligned(16)));
    size_t argc = strv_length(p->msg->argv);
    _cleanup_free_ char **argv = xcalloc(argc + SPAWN_ARGV_FREE + 1, sizeof(*argv));
    memcpy(argv + SPAWN_ARGV_FREE, p->msg->argv, argc * sizeof(*argv));
    _cleanup_free_ char *path = xcalloc(1, p->path_size);
    p->argv = argv;
    p->path = path;
    p->start = NULL;
    p->stage = "approved content";
    p->n_pins = pins_parse(p->msg->pins, argc, p->pins);
    if (p->n_pins < 0)
        return p->n_pins;
    p->stage = "fork";
    pid_t pid = clone(spawn_child_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, p);
    if (pid < 0)
        return -errno;
    if (!p->error)
        return pid;
    waitpid(pid, NULL, 0);
    return -p->error;
}

/* What the child does is raw calls only, and no wait for something of ours. */
static bool plan_is_plain(const struct spawn_plan *p)
{
    return RAW_CALLS && !p->terminal && !(p->msg->flags & (SPAWN_NARROW | SPAWN_PINNED)) &&
           !p->identity->shared_uid;
}

static pid_t spawn_leaving(struct spawn_plan *p, struct start_slot *slot, struct spawn_plan *copy)
{
    int *word = start_slot_word(slot);
    p->stage = copy->stage = "fork";
    pid_t pid =
        clone(spawn_child_main, start_slot_stack(slot), LEAVE_FLAGS, copy, word, NULL, word);
    if (pid >= 0)
        return pid;
    int error = errno;
    start_slot_give(slot);
    return -error;
}

static pid_t spawn_program(struct spawn_plan *p)
{
    struct spawn_plan *copy;
    p->path_size = strlen(spawn_env_path(p->msg->env)) + strlen(p->msg->argv[0]) + 3;
    struct start_slot *slot =
        p->start && plan_is_plain(p) ? start_slot_take(p->start, p, &copy) : NULL;
    return slot ? spawn_leaving(p, slot, copy) : spawn_waiting(p);
}

/* What a builtin's child tells when a step failed. stage points to a literal, which is at the same
 * place in both copies. */
struct failure {
    int error;
    const char *stage;
};

static void __attribute__((noreturn)) builtin_main(struct spawn_plan *p, int report_fd)
{
    int r = spawn_child_prepare(p);
    if (r < 0) {
        struct failure f = {-r, p->stage};
        fd_write_all(report_fd, &f, sizeof(f));
        _exit(SPAWN_CHILD_FAILED);
    }
    /* The report's end is the word that all went well; the connection and all else goes with it. */
    fd_close_from(3);
    _exit(p->builtin->run((int)strv_length(p->msg->argv), p->msg->argv));
}

static pid_t spawn_builtin(struct spawn_plan *p)
{
    int report[2];
    p->stage = "fork";
    if (pipe2(report, O_CLOEXEC) < 0)
        return -errno;
    _cleanup_close_ int report_read = report[0], report_write = report[1];
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        builtin_main(p, report_write);
    fd_close(&report_write);
    struct failure f;
    ssize_t n;
    do
        n = read(report_read, &f, sizeof(f));
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(f))
        return pid;
    p->stage = f.stage;
    waitpid(pid, NULL, 0);
    return -f.error;
}

pid_t spawn_start(struct spawn_plan *p)
{
    p->error = 0;
    return p->builtin ? spawn_builtin(p) : spawn_program(p);
}
