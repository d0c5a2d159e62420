/* Starts commands. Everything from child_prepare() down to child_exec() may run in a child that
 * shares the runner's memory: system calls only, no allocation, no stdio, no locks. */
#include "toolrunner/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/landlock.h"
#include "proto/message.h"
#include "toolrunner/builtin.h"
#include "toolrunner/descendants.h"
#include "toolrunner/landlock.h"
#include "toolrunner/truncate-filter.h"

#define CHILD_STACK_SIZE 65536
#define CHILD_EXIT_CODE  127 /* of a child that failed before the program; nobody is shown it */
#define PATH_DEFAULT     "/usr/local/bin:/usr/bin:/bin"
#define PATH_SHELL       "/bin/sh" /* runs scripts without #!, as execvp() does */

static int step_session(struct spawn_plan *p)
{
    (void)p;
    sigset_t none;
    sigemptyset(&none);
    return setsid() < 0 || sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int step_stdio(struct spawn_plan *p)
{
    for (int i = 0; i < 3; i++) {
        if (dup2(p->fds[i], i) < 0)
            return -errno;
    }
    if (p->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        return -errno;
    return 0;
}

static int step_limits(struct spawn_plan *p)
{
    struct rlimit as = {p->msg->limit_as_bytes, p->msg->limit_as_bytes};
    struct rlimit cpu = {p->msg->limit_cpu_s, (rlim_t)p->msg->limit_cpu_s + 1};
    if (as.rlim_cur && setrlimit(RLIMIT_AS, &as) < 0)
        return -errno;
    if (cpu.rlim_cur && setrlimit(RLIMIT_CPU, &cpu) < 0)
        return -errno;
    return descendants_mark(p->mark);
}

/* Raw calls: the C library's wrappers would talk to other threads, of which there are none. Other
 * groups were given up by the runner itself. */
static int step_user(struct spawn_plan *p)
{
    const struct spawn_identity *id = p->identity;
    if (id->switch_user && (syscall(SYS_setresgid, id->gid, id->gid, id->gid) < 0 ||
                            syscall(SYS_setresuid, id->uid, id->uid, id->uid) < 0))
        return -errno;
    if (!id->die_with_us)
        return 0;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    return getppid() == id->runner_pid ? 0 : -ESRCH;
}

static int step_rules(struct spawn_plan *p)
{
    if (p->identity->rules_fd < 0 || (p->builtin && p->builtin->sees_processes))
        return 0;
    return landlock_restrict(p->identity->rules_fd);
}

static int step_narrow(struct spawn_plan *p)
{
    bool narrow = p->msg->flags & SPAWN_NARROW;
    if (!narrow && !p->identity->shared_uid)
        return 0;
    return landlock_enter(p->identity->landlock_abi, narrow, p->msg);
}

/* Builtins open for writing what they empty, and use openat2. */
static int step_truncate(struct spawn_plan *p)
{
    bool narrow = p->msg->flags & SPAWN_NARROW;
    if (!narrow || p->builtin || p->identity->landlock_abi >= LANDLOCK_ABI_TRUNCATE)
        return 0;
    return truncate_filter_enter();
}

static int step_chdir(struct spawn_plan *p)
{
    const char *dir = *p->msg->cwd ? p->msg->cwd : p->identity->workdir;
    return dir && chdir(dir) < 0 ? -errno : 0;
}

/* A script becomes its sealed copy; the program itself is found and sealed when it is executed. */
static int step_pins(struct spawn_plan *p)
{
    for (int i = 0; i < p->n_pins; i++) {
        size_t arg = p->pins[i].arg;
        if (arg == 0)
            continue;
        int r = pin_seal(p->msg->argv[arg], &p->pins[i], p->pinned[i]);
        if (r < 0)
            return r;
        p->argv[2 + arg] = p->pinned[i];
    }
    return 0;
}

static const struct step {
    const char *stage;
    int (*run)(struct spawn_plan *p);
} steps[] = {
    {"session", step_session},   {"stdio", step_stdio}, {"limits", step_limits},
    {"user", step_user},         {"rules", step_rules}, {"narrow", step_narrow},
    {"truncate", step_truncate}, {"chdir", step_chdir}, {"approved content", step_pins},
};

static int child_prepare(struct spawn_plan *p)
{
    for (size_t i = 0; i < ELEMENTS(steps); i++) {
        p->stage = steps[i].stage;
        int r = steps[i].run(p);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Where the program is pinned, what runs is the sealed copy of what path names. */
static int pin_program(struct spawn_plan *p, const char **path)
{
    for (int i = 0; i < p->n_pins; i++) {
        if (p->pins[i].arg != 0)
            continue;
        int r = pin_seal(*path, &p->pins[i], p->pinned[i]);
        if (r < 0)
            return r;
        *path = p->pinned[i];
    }
    return 0;
}

static int exec_path(struct spawn_plan *p, const char *path)
{
    char **argv = p->argv + 2;
    int r = pin_program(p, &path);
    if (r < 0)
        return r;
    execve(path, argv, p->msg->env);
    if (errno != ENOEXEC)
        return -errno;
    char *name = argv[0];
    p->argv[1] = (char *)PATH_SHELL;
    argv[0] = (char *)path;
    execve(PATH_SHELL, p->argv + 1, p->msg->env);
    argv[0] = name;
    return -ENOEXEC;
}

static int exec_direct(struct spawn_plan *p, const char *path)
{
    int r = exec_path(p, path);
    bool directory = r == -EACCES && open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) >= 0;
    return directory ? -EISDIR : r;
}

static const char *env_find_path(char *const *env)
{
    for (; *env; env++) {
        if (!strncmp(*env, "PATH=", 5))
            return *env + 5;
    }
    return PATH_DEFAULT;
}

static bool exec_search_goes_on(int error)
{
    return error == -ENOENT || error == -ENOTDIR || error == -EACCES || error == -ESTALE ||
           error == -ENODEV || error == -ETIMEDOUT;
}

/* As execvpe(): a directory that does not have it is passed over, a file that may not be run is
 * remembered, anything else ends the search. */
static int exec_search(struct spawn_plan *p, const char *name)
{
    bool denied = false;
    size_t name_len = strlen(name);
    for (const char *dir = env_find_path(p->msg->env);;) {
        size_t len = strcspn(dir, ":");
        if (len + name_len + 3 <= p->path_size) {
            memcpy(p->path, len ? dir : ".", len ? len : 1);
            size_t at = len ? len : 1;
            p->path[at] = '/';
            memcpy(p->path + at + 1, name, name_len + 1);
            int r = exec_path(p, p->path);
            if (!exec_search_goes_on(r))
                return r;
            denied |= r == -EACCES;
        }
        if (!dir[len])
            return denied ? -EACCES : -ENOENT;
        dir += len + 1;
    }
}

static int child_exec(struct spawn_plan *p)
{
    const char *name = p->msg->argv[0];
    p->stage = "exec";
    if (!*name)
        return -ENOENT;
    return strchr(name, '/') ? exec_direct(p, name) : exec_search(p, name);
}

static int child_main(void *arg)
{
    struct spawn_plan *p = arg;
    int r = child_prepare(p);
    p->error = r < 0 ? -r : -child_exec(p);
    if (p->error == EBADMSG)
        p->stage = "approved content";
    _exit(CHILD_EXIT_CODE);
}

static pid_t spawn_program(struct spawn_plan *p)
{
    static char stack[CHILD_STACK_SIZE] __attribute__((aligned(16)));
    size_t argc = strv_length(p->msg->argv);
    _cleanup_free_ char **argv = xcalloc(argc + 3, sizeof(*argv));
    memcpy(argv + 2, p->msg->argv, argc * sizeof(*argv));
    p->path_size = strlen(env_find_path(p->msg->env)) + strlen(p->msg->argv[0]) + 3;
    _cleanup_free_ char *path = xcalloc(1, p->path_size);
    p->argv = argv;
    p->path = path;
    p->stage = "approved content";
    p->n_pins = pins_parse(p->msg->pins, argc, p->pins);
    if (p->n_pins < 0)
        return p->n_pins;
    p->stage = "fork";
    pid_t pid = clone(child_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, p);
    if (pid < 0)
        return -errno;
    if (!p->error)
        return pid;
    waitpid(pid, NULL, 0);
    return -p->error;
}

/* What a builtin's child tells when a step failed. stage points to a literal, which is at the same
 * place in both copies. */
struct failure {
    int error;
    const char *stage;
};

static void __attribute__((noreturn)) builtin_main(struct spawn_plan *p, int report_fd)
{
    int r = child_prepare(p);
    if (r < 0) {
        struct failure f = {-r, p->stage};
        fd_write_all(report_fd, &f, sizeof(f));
        _exit(CHILD_EXIT_CODE);
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
