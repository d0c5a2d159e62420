/* SPDX-License-Identifier: Apache-2.0 */
/* The runner and other processes, rights, terminals. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int attack_ptrace(char **args)
{
    pid_t pid = atoi(args[0]);
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
        return -errno;
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}

static int attack_ptrace_attach(char **args)
{
    pid_t pid = atoi(args[0]);
    if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) < 0)
        return -errno;
    waitpid(pid, NULL, 0);
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}

static int attack_vm_read(char **args)
{
    char here[64];
    struct iovec local = {here, sizeof(here)};
    struct iovec remote = {(void *)strtoul(args[1], NULL, 0), sizeof(here)};
    return attack_result(process_vm_readv(atoi(args[0]), &local, 1, &remote, 1, 0));
}

static int attack_kill(char **args)
{
    return attack_result(kill(atoi(args[0]), atoi(args[1])));
}

static int attack_pidfd_kill(char **args)
{
    int fd = (int)syscall(SYS_pidfd_open, atoi(args[0]), 0);
    if (fd < 0)
        return -errno;
    return attack_result(syscall(SYS_pidfd_send_signal, fd, atoi(args[1]), NULL, 0));
}

static int attack_pidfd_getfd(char **args)
{
    int fd = (int)syscall(SYS_pidfd_open, atoi(args[0]), 0);
    if (fd < 0)
        return -errno;
    return attack_result(syscall(SYS_pidfd_getfd, fd, atoi(args[1]), 0));
}

static int attack_prlimit(char **args)
{
    struct rlimit none = {1000, 1000};
    return attack_result(prlimit(atoi(args[0]), RLIMIT_NOFILE, &none, NULL));
}

/* Descriptors beyond standard input, output and error. */
static int attack_leaked_fds(char **args)
{
    (void)args;
    for (int fd = 3; fd < 65536; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            printf("descriptor %d\n", fd);
            return 0;
        }
    }
    return -EBADF;
}

/* A child that the runner did not start, but is told about. */
static int attack_clone_parent(char **args)
{
    for (int i = 0; i < atoi(args[0]); i++) {
        long pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
        if (pid < 0)
            return -errno;
        if (pid == 0)
            _exit(77);
    }
    return 0;
}

/* Makes the runner the tracer, which is told of every signal from then on as of an end. */
static int attack_trace_me(char **args)
{
    (void)args;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
        return -errno;
    return attack_result(raise(SIGCONT));
}

static void *__attribute__((noreturn)) wait_for_ever(void *thread_id)
{
    __atomic_store_n((pid_t *)thread_id, (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    for (;;)
        pause();
}

/* Its death is kept from the runner by a tracer that has left group, session and mark, and waits
 * for nothing. */
static int attack_hide_death(char **args)
{
    static pid_t traced;
    pthread_t thread;
    char worked = 0;
    int told[2];
    const struct rlimit unmarked = {1, 1};
    (void)args;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (pipe(told) < 0 || pthread_create(&thread, NULL, wait_for_ever, &traced) != 0)
        return -errno;
    while (!__atomic_load_n(&traced, __ATOMIC_SEQ_CST))
        usleep(1000);
    if (fork() == 0) {
        setsid();
        setrlimit(RLIMIT_LOCKS, &unmarked);
        worked = ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) == 0 &&
                 ptrace(PTRACE_SEIZE, traced, NULL, NULL) == 0;
        if (write(told[1], &worked, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(told[0], &worked, 1) != 1 || !worked)
        return -EPERM;
    printf("hidden\n");
    fflush(stdout);
    for (;;)
        pause();
}

static int attack_setuid(char **args)
{
    uid_t id = (uid_t)strtoul(args[0], NULL, 0);
    return attack_result(setresuid(id, id, id));
}

static int attack_setgid(char **args)
{
    gid_t id = (gid_t)strtoul(args[0], NULL, 0);
    return attack_result(setresgid(id, id, id));
}

static int attack_setgroups(char **args)
{
    gid_t id = (gid_t)strtoul(args[0], NULL, 0);
    return attack_result(syscall(SYS_setgroups, 1, &id));
}

/* Meant to be started from a set-user-ID file. */
static int attack_euid_root(char **args)
{
    (void)args;
    return geteuid() == 0 ? 0 : -EPERM;
}

static int attack_has_capability(char **args)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &header, data) < 0)
        return -errno;
    (void)args;
    return data[0].effective || data[1].effective || data[0].permitted ? 0 : -EPERM;
}

static int attack_raise_capability(char **args)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    unsigned mask = 1u << atoi(args[0]);
    struct __user_cap_data_struct data[2] = {{mask, mask, mask}};
    return attack_result(syscall(SYS_capset, &header, data));
}

static int attack_realtime(char **args)
{
    struct sched_param p = {.sched_priority = 1};
    (void)args;
    return attack_result(sched_setscheduler(0, SCHED_FIFO, &p));
}

static int attack_nice(char **args)
{
    return attack_result(setpriority(PRIO_PROCESS, 0, atoi(args[0])));
}

static int attack_raise_rlimit(char **args)
{
    struct rlimit l;
    int resource = atoi(args[0]);
    if (getrlimit(resource, &l) < 0)
        return -errno;
    l.rlim_max = l.rlim_max == RLIM_INFINITY ? RLIM_INFINITY : l.rlim_max + 1;
    l.rlim_cur = l.rlim_max;
    return attack_result(setrlimit(resource, &l));
}

/* What the limit is in the end, whatever the call said: one byte or less is none. */
static int attack_core(char **args)
{
    struct rlimit l = {1 << 20, 1 << 20};
    char line[256];
    unsigned long soft = 0;
    (void)args;
    if (setrlimit(RLIMIT_CORE, &l) < 0)
        return -errno;
    FILE *f = fopen("/proc/self/limits", "re");
    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "Max core file size %lu", &soft);
    if (f)
        fclose(f);
    return soft > 1 ? 0 : -EPERM;
}

static int attack_tty_ioctl(char **args)
{
    char byte = 'x';
    int fd = open("/dev/tty", O_RDWR);
    if (fd < 0)
        return -errno;
    return attack_result(syscall(SYS_ioctl, fd, strtoul(args[0], NULL, 0), &byte));
}

static int ioctl_own_terminal(const char *path, unsigned long request)
{
    char byte = 'x';
    if (setsid() < 0)
        return -errno;
    int slave = open(path, O_RDWR);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
        return -errno;
    return attack_result(syscall(SYS_ioctl, slave, request, &byte));
}

/* A terminal of our own, on which the request needs no right but the call itself. */
static int attack_pty_ioctl(char **args)
{
    char path[32];
    int n, zero = 0, status;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &zero) < 0 || ioctl(master, TIOCGPTN, &n) < 0)
        return -errno;
    snprintf(path, sizeof(path), "/dev/pts/%d", n);
    pid_t pid = fork(); /* this process may lead a session already */
    if (pid == 0)
        _exit(-ioctl_own_terminal(path, strtoul(args[0], NULL, 0)));
    return waitpid(pid, &status, 0) < 0 ? -errno : -WEXITSTATUS(status);
}

const struct attack attacks_on_processes[] = {
    {"ptrace", "PID", attack_ptrace},
    {"ptrace-attach", "PID", attack_ptrace_attach},
    {"vm-read", "PID ADDRESS", attack_vm_read},
    {"kill", "PID SIGNAL", attack_kill},
    {"pidfd-kill", "PID SIGNAL", attack_pidfd_kill},
    {"pidfd-getfd", "PID FD", attack_pidfd_getfd},
    {"prlimit", "PID", attack_prlimit},
    {"leaked-fds", "", attack_leaked_fds},
    {"clone-parent", "COUNT", attack_clone_parent},
    {"trace-me", "", attack_trace_me},
    {"hide-death", "", attack_hide_death},
    {"setuid", "UID", attack_setuid},
    {"setgid", "GID", attack_setgid},
    {"setgroups", "GID", attack_setgroups},
    {"euid-root", "", attack_euid_root},
    {"has-capability", "", attack_has_capability},
    {"raise-capability", "NUMBER", attack_raise_capability},
    {"realtime", "", attack_realtime},
    {"nice", "VALUE", attack_nice},
    {"raise-rlimit", "NUMBER", attack_raise_rlimit},
    {"core", "", attack_core},
    {"tty-ioctl", "REQUEST", attack_tty_ioctl},
    {"pty-ioctl", "REQUEST", attack_pty_ioctl},
    {NULL, NULL, NULL},
};
