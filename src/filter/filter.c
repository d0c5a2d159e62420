/* SPDX-License-Identifier: Apache-2.0 */
/* A table to BPF, for the machine's own calls and its 32-bit ones; x32 and other
 * architectures get ENOSYS, and so do calls newer than the names we know, because programs probe
 * for those.
 *
 * libseccomp gives the numbers, the code is our own, for three reasons. Installing the filter is on
 * the path of every create, and a search tree over ranges of numbers is half as long as the
 * library's (0.45 ms less). Its 32-bit x86 filter allows socketcall() for every address family as
 * soon as one family of socket() is allowed. And "allowed, except these ioctl commands" on the 32
 * bits the kernel looks at cannot be said in one of its filters. Only instructions that the kernel
 * can evaluate ahead are used before an argument is looked at, so that calls allowed as such cost a
 * bit test.
 *
 * The program is written from its end to its beginning, because jumps only go forward: what a jump
 * leads to is there already, and returns are shared by all jumps that reach them. The kernel
 * translates every instruction again for every sandbox. */
#include "filter/filter.h"

#include <assert.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/landlock.h"
#include "filter/filter-table.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half of an argument is first");

#define NUMBERS_MAX 1024 /* above any number that libseccomp knows */
#define JUMP_MAX    255
#define JUMP_SPARE  2   /* instructions between a leaf's choice and the jump */
#define LEAF_MAX    250 /* of all rules of one name: a jump goes over them */
#define LEAVES_MAX  128

/* What happens to a number: one of these, or FATE_RULES + the index of its first rule. */
enum fate { FATE_UNKNOWN, FATE_ALLOW, FATE_EPERM, FATE_ENOSYS, FATE_RULES };

struct range {
    unsigned first; /* up to the next range's */
    int fate;
};

/* Filled from the end of insns: a place is its distance from there, 1 for the last. */
struct code {
    struct sock_filter *insns;
    size_t n;
    const struct syscall_table *table;
    enum filter_part part;
    bool overflow;
    size_t leaves[LEAVES_MAX]; /* the nearest place of each fate; 0: none yet */
};

static void emit_instruction(struct code *c, uint16_t op, uint8_t jt, uint8_t jf, uint32_t k)
{
    if (c->n == BPF_MAXINSNS)
        c->overflow = true;
    else
        c->insns[BPF_MAXINSNS - ++c->n] = (struct sock_filter){op, jt, jf, k};
}

static void emit_return(struct code *c, int error)
{
    uint32_t refusal = SECCOMP_RET_ERRNO | (error == SYSCALL_PRETEND ? 0 : (uint32_t)error);
    emit_instruction(c, BPF_RET | BPF_K, 0, 0, error ? refusal : SECCOMP_RET_ALLOW);
}

static bool is_conditional(const struct syscall_rule *r)
{
    return r->args[0].compare != COMPARE_NONE;
}

/* One rule: its fate if all arguments match, else on to what follows. */
static void emit_rule(struct code *c, const struct syscall_rule *r)
{
    size_t next = c->n, n = 0;
    while (n < SYSCALL_ARGS_MAX && r->args[n].compare != COMPARE_NONE)
        n++;
    emit_return(c, r->error);
    while (n-- > 0) {
        const struct syscall_arg *a = &r->args[n];
        emit_instruction(c, BPF_JMP | BPF_JEQ | BPF_K, 0, (uint8_t)(c->n - next),
                         (uint32_t)a->value);
        if (a->compare == COMPARE_MASKED_EQUAL)
            emit_instruction(c, BPF_ALU | BPF_AND | BPF_K, 0, 0, (uint32_t)a->mask);
        emit_instruction(c, BPF_LD | BPF_W | BPF_ABS, 0, 0,
                         (uint32_t)(offsetof(struct seccomp_data, args) + 8 * a->index +
                                    (a->compare == COMPARE_HIGH_EQUAL ? 4 : 0)));
    }
}

/* All rules of one name. If they only say what is refused, the rest is allowed. */
static void emit_rules(struct code *c, const char *name)
{
    bool allows = false;
    const struct syscall_rule *rules = c->table->rules;
    for (size_t i = 0; i < c->table->n_rules; i++)
        allows = allows || (strcmp(rules[i].name, name) == 0 && !rules[i].error);
    emit_return(c, allows ? EPERM : 0);
    for (size_t i = c->table->n_rules; i-- > 0;)
        if (strcmp(rules[i].name, name) == 0)
            emit_rule(c, &rules[i]);
}

/* Where the next jump finds the fate. */
static size_t place_leaf(struct code *c, int fate)
{
    size_t at = c->leaves[fate];
    if (at == 0 || c->n - at > JUMP_MAX - JUMP_SPARE) {
        size_t before = c->n;
        if (fate >= FATE_RULES)
            emit_rules(c, c->table->rules[fate - FATE_RULES].name);
        else
            emit_return(c, fate == FATE_ALLOW ? 0 : fate == FATE_EPERM ? EPERM : ENOSYS);
        c->leaves[fate] = c->n;
        c->overflow = c->overflow || c->n - before > LEAF_MAX;
    }
    return c->leaves[fate];
}

/* A binary search. Jumps reach 255 instructions; a longer way takes a second jump. Returns where it
 * begins. */
static size_t emit_tree(struct code *c, const struct range *ranges, size_t n)
{
    size_t middle = n / 2;
    if (n == 1)
        return place_leaf(c, ranges[0].fate);
    size_t right = middle + 1 < n ? emit_tree(c, ranges + middle, n - middle) : 0;
    size_t left = middle > 1 ? emit_tree(c, ranges, middle) : 0;
    right = right ? right : place_leaf(c, ranges[middle].fate);
    left = left ? left : place_leaf(c, ranges[0].fate);
    if (c->n - right > JUMP_MAX) {
        emit_instruction(c, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(c->n - right));
        right = c->n;
    }
    emit_instruction(c, BPF_JMP | BPF_JGE | BPF_K, (uint8_t)(c->n - right), (uint8_t)(c->n - left),
                     ranges[middle].first);
    return c->n;
}

static int number_of(uint32_t arch, const char *name)
{
    int nr = seccomp_syscall_resolve_name_arch(arch, name);
    return nr < 0 || nr >= NUMBERS_MAX ? -1 : nr; /* negative: not a call of this architecture */
}

static unsigned fill_fates(const struct syscall_table *t, uint32_t arch, int fates[NUMBERS_MAX])
{
    unsigned last = 0;
    for (int nr = 0; nr < NUMBERS_MAX; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(arch, nr);
        fates[nr] = name ? FATE_EPERM : FATE_UNKNOWN;
        if (name)
            last = (unsigned)nr;
        free(name);
    }
    for (size_t i = 0; i < SYSCALL_LISTS_MAX && t->allowed[i]; i++) {
        for (const char *const *name = t->allowed[i]; *name; name++) {
            int nr = number_of(arch, *name);
            if (nr >= 0)
                fates[nr] = FATE_ALLOW;
        }
    }
    for (size_t i = t->n_rules; i-- > 0;) { /* backwards: the first rule of a name stays */
        const struct syscall_rule *r = &t->rules[i];
        int nr = number_of(arch, r->name);
        if (nr >= 0)
            fates[nr] =
                !is_conditional(r) && r->error == ENOSYS ? FATE_ENOSYS : FATE_RULES + (int)i;
    }
    return last;
}

/* Building is done with the machine's own calls, so those of the other architecture are all in the
 * shared part. */
static void take_part(enum filter_part part, uint32_t arch, int fates[NUMBERS_MAX])
{
    bool building[NUMBERS_MAX] = {false};
    for (const char *const *name = filter_building; *name; name++) {
        int nr = arch == seccomp_arch_native() ? number_of(arch, *name) : -1;
        if (nr >= 0)
            building[nr] = true;
    }
    for (int nr = 0; nr < NUMBERS_MAX; nr++)
        if (building[nr] == (part == FILTER_SHARED))
            fates[nr] = FATE_ALLOW;
}

/* Numbers that mean nothing join the refusals before them, which makes fewer ranges. */
static size_t fill_ranges(const struct code *c, uint32_t arch, struct range ranges[NUMBERS_MAX + 1])
{
    int fates[NUMBERS_MAX];
    unsigned last = fill_fates(c->table, arch, fates);
    size_t n = 0;
    if (c->part != FILTER_WHOLE)
        take_part(c->part, arch, fates);
    for (unsigned nr = 0; nr <= last; nr++) {
        int v = fates[nr];
        int before = n ? ranges[n - 1].fate : FATE_ENOSYS;
        if (v == FATE_UNKNOWN)
            v = before == FATE_EPERM ? FATE_EPERM : FATE_ENOSYS;
        if (n == 0 || v != before)
            ranges[n++] = (struct range){nr, v};
    }
    ranges[n++] = (struct range){last + 1, c->part == FILTER_OWN ? FATE_ALLOW : FATE_ENOSYS};
    return n;
}

static size_t emit_arch(struct code *c, uint32_t arch)
{
    struct range ranges[NUMBERS_MAX + 1];
    size_t n = fill_ranges(c, arch, ranges);
    size_t begin = emit_tree(c, ranges, n);
    if (begin != c->n) /* a single leaf */
        emit_instruction(c, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(c->n - begin));
    emit_instruction(c, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr));
    return c->n;
}

/* The audit architecture value is libseccomp's token. */
static void emit_all(struct code *c, uint32_t native, uint32_t compat)
{
    size_t other = compat ? emit_arch(c, compat) : 0;
    emit_arch(c, native);
    emit_return(c, c->part == FILTER_OWN ? 0 : ENOSYS);
    if (compat) {
        emit_instruction(c, BPF_JMP | BPF_JA, 0, 0, (uint32_t)(c->n - other));
        emit_instruction(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, compat);
    }
    emit_instruction(c, BPF_JMP | BPF_JEQ | BPF_K, compat ? 3 : 1, 0, native);
    emit_instruction(c, BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, arch));
}

const struct syscall_table *filter_for_sandboxes(void)
{
    return landlock_needs_filter(landlock_abi()) ? &filter_sandbox_nesting : &filter_sandbox;
}

const struct syscall_table *filter_for_guests(void)
{
    return &filter_sandbox_nesting;
}

int filter_compile_part(const struct syscall_table *t, enum filter_part part,
                        struct sock_fprog *ret, struct error *err)
{
    uint32_t native = seccomp_arch_native();
    uint32_t compat = !t->compat || part == FILTER_OWN ? 0
                      : native == SCMP_ARCH_X86_64     ? SCMP_ARCH_X86
                      : native == SCMP_ARCH_AARCH64    ? SCMP_ARCH_ARM
                                                       : 0;
    struct code c = {.insns = xcalloc(BPF_MAXINSNS, sizeof(*c.insns)), .table = t, .part = part};
    assert(FATE_RULES + t->n_rules <= LEAVES_MAX);
    emit_all(&c, native, compat);
    if (c.overflow) {
        free(c.insns);
        return error_set(err, ERROR_INTERNAL, E2BIG, "compile the system call filter");
    }
    memmove(c.insns, c.insns + BPF_MAXINSNS - c.n, c.n * sizeof(*c.insns));
    *ret = (struct sock_fprog){.len = (unsigned short)c.n, .filter = c.insns};
    return 0;
}

int filter_compile(const struct syscall_table *t, struct sock_fprog *ret, struct error *err)
{
    return filter_compile_part(t, FILTER_WHOLE, ret, err);
}

void filter_done(struct sock_fprog *p)
{
    free(p->filter);
    *p = (struct sock_fprog){0};
}

static void release_program(struct sock_fprog *p)
{
    filter_done(p);
}

int filter_enter(const struct syscall_table *t, struct error *err)
{
    __attribute__((cleanup(release_program))) struct sock_fprog program = {0};
    int r = filter_compile(t, &program, err);
    if (r < 0)
        return r;
    r = filter_install(&program);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "put on the system call filter") : 0;
}
