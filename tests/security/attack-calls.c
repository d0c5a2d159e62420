/* SPDX-License-Identifier: Apache-2.0 */
/* System calls by number, in each way the processor has to make them: an argument is a number,
 * s:text, or b:text in a buffer of zeros that 32-bit calls can reach. */
#include "attack.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/un.h>
#include <unistd.h>

#define BUFFER_SIZE 4096
#ifndef MAP_32BIT
#define MAP_32BIT 0 /* only x86 has a 32-bit way in */
#endif

static long call_argument(const char *text)
{
    if (strncmp(text, "s:", 2) == 0)
        return (long)(uintptr_t)(text + 2);
    if (strncmp(text, "b:", 2) == 0) {
        /* Below 4 GiB, so that 32-bit calls can reach it. */
        char *low = mmap(NULL, BUFFER_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
        if (low == MAP_FAILED)
            exit(2);
        snprintf(low, BUFFER_SIZE, "%s", text + 2);
        return (long)(uintptr_t)low;
    }
    return (long)strtoul(text, NULL, 0);
}

static void call_arguments(char **args, long out[6])
{
    memset(out, 0, 6 * sizeof(*out));
    for (int i = 0; i < 6 && args[i]; i++)
        out[i] = call_argument(args[i]);
}

static int attack_sys(char **args)
{
    long a[6];
    call_arguments(args + 1, a);
    return attack_result(syscall(strtol(args[0], NULL, 0), a[0], a[1], a[2], a[3], a[4], a[5]));
}

#ifdef __x86_64__
static int attack_x32(char **args)
{
    long a[6];
    call_arguments(args + 1, a);
    return attack_result(
        syscall(0x40000000 | strtol(args[0], NULL, 0), a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* A 64-bit program may use the 32-bit way in; the kernel then takes 32-bit numbers. */
static long call_i386(long nr, long a, long b, long c, long d, long e)
{
    long r;
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(nr), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)r;
}

static int attack_i386(char **args)
{
    long a[6];
    call_arguments(args + 1, a);
    long r = call_i386(strtol(args[0], NULL, 0), a[0], a[1], a[2], a[3], a[4]);
    return r < 0 && r > -4096 ? (int)r : 0;
}

/* socketcall(): the arguments are behind a pointer, where no filter sees them. */
static int attack_socketcall(char **args)
{
    uint32_t *low = (uint32_t *)(uintptr_t)call_argument("b:");
    low[0] = (uint32_t)strtoul(args[1], NULL, 0);
    low[1] = (uint32_t)strtoul(args[2], NULL, 0);
    low[2] = (uint32_t)strtoul(args[3], NULL, 0);
    low[3] = (uint32_t)(uintptr_t)(low + 8);
    long r = call_i386(102, strtol(args[0], NULL, 0), (long)(uintptr_t)low, 0, 0, 0);
    return r < 0 ? (int)r : 0;
}
#endif

const struct attack attacks_on_calls[] = {
    {"sys", "NUMBER ARG...", attack_sys},
#ifdef __x86_64__
    {"x32", "NUMBER ARG...", attack_x32},
    {"i386", "NUMBER ARG...", attack_i386},
    {"socketcall", "CALL A B C", attack_socketcall},
#endif
    {NULL, NULL, NULL},
};
