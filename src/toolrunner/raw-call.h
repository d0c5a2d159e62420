/* SPDX-License-Identifier: Apache-2.0 */
/* System calls without the C library: -errno is the result and not a variable, so that a child that
 * shares our memory, and with it our thread's variables, may make them while we go on.
 *
 * On a processor without the few lines of assembly they go through syscall(), which is good enough
 * for a child that we wait for (spawn.h); RAW_CALLS says which it is. */
#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of functions that run in such a child: a sanitizer's checks keep notes of their thread. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))

#if defined(__x86_64__) && defined(__LP64__)
#define RAW_CALLS 1
IN_CHILD static inline long raw_call5(long number, long a, long b, long c, long d, long e)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__) && defined(__LP64__)
#define RAW_CALLS 1
IN_CHILD static inline long raw_call5(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory", "cc");
    return x0;
}
#else
#define RAW_CALLS 0
static inline long raw_call5(long number, long a, long b, long c, long d, long e)
{
    long result = syscall(number, a, b, c, d, e);
    return result < 0 ? -errno : result;
}
#endif

#define RAW_PICK(_1, _2, _3, _4, _5, _6, name, ...) name
#define RAW_1(n)                                    raw_call5(n, 0, 0, 0, 0, 0)
#define RAW_2(n, a)                                 raw_call5(n, (long)(a), 0, 0, 0, 0)
#define RAW_3(n, a, b)                              raw_call5(n, (long)(a), (long)(b), 0, 0, 0)
#define RAW_4(n, a, b, c)                           raw_call5(n, (long)(a), (long)(b), (long)(c), 0, 0)
#define RAW_5(n, a, b, c, d)                        raw_call5(n, (long)(a), (long)(b), (long)(c), (long)(d), 0)
#define RAW_6(n, a, b, c, d, e)                     raw_call5(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))
/* raw_call(SYS_x, up to five arguments) */
#define raw_call(...)                                                                              \
    RAW_PICK(__VA_ARGS__, RAW_6, RAW_5, RAW_4, RAW_3, RAW_2, RAW_1, none)(__VA_ARGS__)
