/* SPDX-License-Identifier: Apache-2.0 */
/* What a system call filter answers, without making the call. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* As the kernel does it, for the instructions that filters are made of. */
static inline uint32_t bpf_run(const struct sock_fprog *p, const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (size_t pc = 0; pc < p->len; pc++) {
        const struct sock_filter *f = &p->filter[pc];
        bool yes;
        switch (f->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            memcpy(&a, (const char *)data + f->k, sizeof(a));
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= f->k;
            continue;
        case BPF_JMP | BPF_JA:
            pc += f->k;
            continue;
        case BPF_RET | BPF_K:
            return f->k;
        case BPF_JMP | BPF_JEQ | BPF_K:
            yes = a == f->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            yes = a >= f->k;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            yes = a > f->k;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            yes = a & f->k;
            break;
        default:
            return 0xdead0000u | f->code;
        }
        pc += yes ? f->jt : f->jf;
    }
    return 0xdeadbeef;
}
