/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the instructions that processes carry out in user space, by stepping through each of their
 * threads with ptrace(). It needs no counters of the processor, which virtual machines often lack,
 * and nothing of the processes: they keep their filters, users and roots. Each instruction costs
 * two switches between processes, so what is counted runs some hundred times slower. To keep that
 * in bounds, all of them share one processor and come before ordinary processes there.
 *
 *   steps COUNTS WHERE PID...
 *
 * COUNTS is made: a number of 64 bits per PID, in their order, which another process may read at
 * any time. WHERE gets a line "PID ADDRESS COUNT" per address that was seen, on SIGTERM; "-" is for
 * none. It ends on SIGTERM, or with the last of the processes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 256
#define PLACES      (1u << 20) /* addresses that fit, a power of two */

struct thread {
    pid_t tid;
    int process;      /* its place among the PIDs */
    uint64_t address; /* of its last step */
};

struct place {
    uint64_t address, count;
    int process;
};

static struct thread threads[THREADS_MAX];
static size_t n_threads;
static volatile uint64_t *counts;
static struct place *places; /* NULL: nobody asked for them */
static volatile sig_atomic_t ended;

static void on_signal(int signo)
{
    ended |= signo == SIGTERM;
}

static struct thread *thread_find(pid_t tid)
{
    for (size_t i = 0; i < n_threads; i++)
        if (threads[i].tid == tid)
            return &threads[i];
    return NULL;
}

static void thread_add(pid_t tid, int process)
{
    if (n_threads == THREADS_MAX)
        errx(1, "more than %d threads", THREADS_MAX);
    threads[n_threads++] = (struct thread){.tid = tid, .process = process};
}

static void go_first(pid_t tid)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    struct sched_param param = {.sched_priority = 1};
    if (sched_setaffinity(tid, sizeof(one), &one) < 0 ||
        sched_setscheduler(tid, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) < 0)
        warn("priority of %d", (int)tid);
}

/* Threads that are made later are followed, processes are not. */
static void process_seize(pid_t pid, int process)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    if (!d)
        err(1, "%s", path);
    for (struct dirent *e; (e = readdir(d));) {
        pid_t tid = (pid_t)atoi(e->d_name);
        if (tid <= 0)
            continue;
        if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACECLONE) < 0 ||
            ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
            err(1, "ptrace %d", (int)tid);
        thread_add(tid, process);
        go_first(tid);
    }
    closedir(d);
}

static void count_place(const struct thread *t)
{
    size_t i = (t->address * 0x9e3779b97f4a7c15u) >> 44;
    while (places[i % PLACES].count &&
           (places[i % PLACES].address != t->address || places[i % PLACES].process != t->process))
        i++;
    struct place *p = &places[i % PLACES];
    p->address = t->address;
    p->process = t->process;
    p->count++;
}

/* A string instruction that repeats itself stops once per repetition, and counts once. */
static void count_step(struct thread *t)
{
    uint64_t address = (uint64_t)ptrace(PTRACE_PEEKUSER, t->tid,
                                        (void *)offsetof(struct user_regs_struct, rip), NULL);
    if (address == t->address)
        return;
    t->address = address;
    counts[t->process]++;
    if (places)
        count_place(t);
}

/* What a stop is about decides how the thread goes on: a step is counted, a new thread is taken in,
 * a signal is passed on. */
static void on_stop(struct thread *t, int status)
{
    int signo = WSTOPSIG(status), event = status >> 16;
    unsigned long made;
    if (event == PTRACE_EVENT_CLONE) {
        if (ptrace(PTRACE_GETEVENTMSG, t->tid, NULL, &made) == 0 && !thread_find((pid_t)made))
            thread_add((pid_t)made, t->process);
        signo = 0;
    } else if (event == PTRACE_EVENT_STOP) {
        signo = 0;
    } else if (signo == SIGTRAP) {
        count_step(t);
        signo = 0;
    }
    ptrace(PTRACE_SINGLESTEP, t->tid, NULL, (void *)(intptr_t)signo);
}

static void places_write(const char *path, char *const *pids)
{
    FILE *f = fopen(path, "w");
    if (!f)
        err(1, "%s", path);
    for (size_t i = 0; i < PLACES; i++)
        if (places[i].count)
            fprintf(f, "%s %llx %llu\n", pids[places[i].process],
                    (unsigned long long)places[i].address, (unsigned long long)places[i].count);
    fclose(f);
}

static void follow(void)
{
    size_t alive = n_threads;
    while (alive && !ended) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0 && errno == EINTR)
            continue;
        if (tid < 0)
            break;
        struct thread *t = thread_find(tid);
        if (!WIFSTOPPED(status)) {
            alive -= t != NULL;
        } else if (t) {
            on_stop(t, status);
        } else { /* its maker's stop, which says whose it is, comes later */
            thread_add(tid, 0);
            alive++;
            ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 4)
        errx(2, "usage: steps COUNTS WHERE PID...");
    size_t size = (size_t)(argc - 3) * sizeof(*counts);
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
        err(1, "%s", argv[1]);
    counts = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        err(1, "mmap");
    if (strcmp(argv[2], "-") != 0 && !(places = calloc(PLACES, sizeof(*places))))
        err(1, "calloc");
    /* A SIGTERM that comes right before waitpid() is noticed at the next alarm. */
    struct sigaction act = {.sa_handler = on_signal};
    struct itimerval often = {{0, 100000}, {0, 100000}};
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    go_first(0);
    for (int i = 3; i < argc; i++)
        process_seize((pid_t)atoi(argv[i]), i - 3);
    setitimer(ITIMER_REAL, &often, NULL);
    puts("ready");
    fflush(stdout);
    follow();
    if (places)
        places_write(argv[2], argv + 3);
    return 0;
}
