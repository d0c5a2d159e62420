/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a system call in another process, as code would that had taken it over:
 *
 *   take-over PID NUMBER [ARGUMENT...]
 *
 * An argument is a number, "text:..." or "hex:..."; of the last two the process gets the address.
 * Prints what the call answered, an error as -errno, and exits 0. The process then goes on where it
 * was. A process that the call makes is killed before its first instruction.
 *
 * The first thread is stopped, usually inside of a call of its own, so that there is a call
 * instruction right before its next one. That is run once more with other registers, and then the
 * registers are put back; the kernel restarts the interrupted call by them. */
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 6
#define TEXTS_BYTES   1024
#define BELOW_STACK   4096 /* past the part below the stack pointer that code may use */
#define SYSCALL_CODE  0x050f
#define TRIES         2000
#define TURN_US       5000
#define TRACED        (PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE)

#ifdef __x86_64__

static void fail(const char *what)
{
    fprintf(stderr, "take-over: %s: %s\n", what, strerror(errno));
    exit(2);
}

static size_t take_hex(const char *hex, unsigned char *to, size_t size)
{
    size_t n = 0;
    for (unsigned byte; n < size && sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
        to[n] = (unsigned char)byte;
    return n;
}

/* The value of one argument; texts are collected, to be at address base in the process. */
static unsigned long long take_argument(const char *word, unsigned long long base,
                                        unsigned char *texts, size_t *used)
{
    size_t at = *used, left = TEXTS_BYTES - at, n;
    if (strncmp(word, "text:", 5) == 0) {
        n = strlen(word + 5) + 1;
        if (n > left)
            exit(2);
        memcpy(texts + at, word + 5, n);
    } else if (strncmp(word, "hex:", 4) == 0) {
        n = take_hex(word + 4, texts + at, left);
    } else {
        return strtoull(word, NULL, 0);
    }
    *used = (at + n + 15) & ~(size_t)15;
    return base + at;
}

static int wait_for_stop(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) {
        fprintf(stderr, "take-over: the process ended\n");
        exit(3);
    }
    return status;
}

static void kill_made(pid_t pid)
{
    unsigned long made = 0;
    if (ptrace(PTRACE_GETEVENTMSG, pid, NULL, &made) < 0 || !made)
        return;
    kill((pid_t)made, SIGKILL);
    waitpid((pid_t)made, NULL, __WALL);
}

/* Until the one instruction is done. What else stops the process is let pass. */
static void step_over(pid_t pid)
{
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0)
            fail("step");
        int status = wait_for_stop(pid), event = status >> 16;
        if (event && event != PTRACE_EVENT_STOP)
            kill_made(pid);
        else if (!event && WSTOPSIG(status) == SIGTRAP)
            return;
    }
}

static void set_registers(pid_t pid, struct user_regs_struct *r)
{
    struct iovec v = {r, sizeof(*r)};
    if (ptrace(PTRACE_SETREGSET, pid, (void *)NT_PRSTATUS, &v) < 0)
        fail("set registers");
}

static void get_registers(pid_t pid, struct user_regs_struct *r)
{
    struct iovec v = {r, sizeof(*r)};
    if (ptrace(PTRACE_GETREGSET, pid, (void *)NT_PRSTATUS, &v) < 0)
        fail("get registers");
}

static long long call_in(pid_t pid, char **words, int n)
{
    static unsigned char texts[TEXTS_BYTES];
    unsigned long long values[1 + ARGUMENTS_MAX] = {0};
    struct user_regs_struct before, r;
    size_t used = 0;
    get_registers(pid, &before);
    unsigned long long base = (before.rsp - BELOW_STACK) & ~15ull;
    for (int i = 0; i < n; i++)
        values[i] = take_argument(words[i], base, texts, &used);
    const struct iovec from = {texts, sizeof(texts)}, to = {(void *)base, sizeof(texts)};
    if (used && process_vm_writev(pid, &from, 1, &to, 1, 0) != (ssize_t)sizeof(texts))
        fail("write texts");
    r = before;
    r.rip -= 2;
    r.orig_rax = -1ull; /* nothing is to be restarted yet */
    r.rax = values[0];
    r.rdi = values[1], r.rsi = values[2], r.rdx = values[3];
    r.r10 = values[4], r.r8 = values[5], r.r9 = values[6];
    set_registers(pid, &r);
    step_over(pid);
    get_registers(pid, &r);
    set_registers(pid, &before);
    return (long long)r.rax;
}

/* Stops the process right behind a call instruction; where it computes, later. */
static void stop_in_call(pid_t pid)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_SEIZE, pid, NULL, (void *)TRACED) < 0)
        fail("stop the process");
    for (int tries = 0; tries < TRIES; tries++) {
        if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
            fail("stop the process");
        wait_for_stop(pid);
        get_registers(pid, &r);
        errno = 0;
        long code = ptrace(PTRACE_PEEKTEXT, pid, (void *)(r.rip - 2), NULL);
        if (!errno && (code & 0xffff) == SYSCALL_CODE)
            return;
        ptrace(PTRACE_CONT, pid, NULL, NULL);
        usleep(TURN_US);
    }
    fail("the process is in no system call");
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 3 + ARGUMENTS_MAX) {
        fprintf(stderr, "usage: take-over PID NUMBER [ARGUMENT...]\n");
        return 2;
    }
    pid_t pid = (pid_t)atoi(argv[1]);
    stop_in_call(pid);
    printf("%lld\n", call_in(pid, argv + 2, argc - 2));
    ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}

#else

int main(void)
{
    fprintf(stderr, "take-over: not on this machine\n");
    return 77;
}

#endif
