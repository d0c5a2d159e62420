/* SPDX-License-Identifier: Apache-2.0 */
/* The system call table as an OCI seccomp section.
 *
 * An OCI runtime hands this to libseccomp, which knows no order of rules: of two that match, which
 * one wins is not ours to say. So no two rules of a call overlap here. What the table says as
 * "refused for these values, else allowed" becomes a list of prefixes of the value that together
 * cover all others. Comparisons see the low 32 bits, as the kernel does for these arguments. */
#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "filter/filter-table.h"
#include "oci/seccomp.h"

#define LOW_MASK   0xffffffffu
#define VALUES_MAX 8

static bool is_conditional(const struct syscall_rule *r)
{
    return r->args[0].compare != COMPARE_NONE;
}

static bool is_catch_all(const struct syscall_rule *r)
{
    return !r->error && r->args[0].compare == COMPARE_MASKED_EQUAL && r->args[0].mask == 0;
}

static json_t *compare_argument(unsigned index, const char *op, uint64_t value, uint64_t value_two)
{
    return json_pack("{s:i, s:I, s:I, s:s}", "index", (int)index, "value", (json_int_t)value,
                     "valueTwo", (json_int_t)value_two, "op", op);
}

static json_t *compare_masked(unsigned index, uint32_t mask, uint32_t value)
{
    return compare_argument(index, "SCMP_CMP_MASKED_EQ", mask, value);
}

/* Both halves of a pointer are one comparison here. */
static json_t *compare_pointer(const struct syscall_arg *low, const struct syscall_arg *high,
                               bool equal)
{
    uint64_t value = (high->value << 32) | low->value;
    return compare_argument(low->index, equal ? "SCMP_CMP_EQ" : "SCMP_CMP_NE", value, 0);
}

static json_t *args_of(const struct syscall_rule *r)
{
    json_t *list = json_array();
    for (size_t i = 0; i < SYSCALL_ARGS_MAX && r->args[i].compare != COMPARE_NONE; i++) {
        const struct syscall_arg *a = &r->args[i];
        if (i + 1 < SYSCALL_ARGS_MAX && a[1].compare == COMPARE_HIGH_EQUAL &&
            a[1].index == a->index) {
            json_array_append_new(list, compare_pointer(a, a + 1, true));
            i++;
            continue;
        }
        uint32_t mask = a->compare == COMPARE_EQUAL ? LOW_MASK : (uint32_t)a->mask;
        json_array_append_new(list, compare_masked(a->index, mask, (uint32_t)a->value));
    }
    return list;
}

/* Takes args, which may be NULL. */
static void add_rule(json_t *out, const char *name, int error, json_t *args)
{
    json_t *rule = json_pack("{s:[s], s:s}", "names", name, "action",
                             error ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW");
    if (error)
        json_object_set_new(rule, "errnoRet", json_integer(error == SYSCALL_PRETEND ? 0 : error));
    if (args)
        json_object_set_new(rule, "args", args);
    json_array_append_new(out, rule);
}

static bool any_below(const uint32_t *values, size_t n, uint32_t prefix, unsigned bits)
{
    for (size_t i = 0; i < n; i++)
        if (bits == 0 || (values[i] >> (32 - bits)) == (prefix >> (32 - bits)))
            return true;
    return false;
}

/* One argument of a call, and the values of it that are refused. */
struct others {
    const char *name;
    json_t *when; /* comparisons that must hold as well, or NULL */
    unsigned index;
    uint32_t refused[VALUES_MAX];
    size_t n;
};

static bool has_value(const struct others *o, uint64_t value)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->refused[i] == (uint32_t)value)
            return true;
    return false;
}

static void others_refuse(struct others *o, uint64_t value)
{
    assert(o->n < VALUES_MAX);
    o->refused[o->n++] = (uint32_t)value;
}

/* Allows every prefix below which none of the values lies, the widest first. */
static void allow_others(json_t *out, const struct others *o, uint32_t prefix, unsigned bits)
{
    if (!any_below(o->refused, o->n, prefix, bits)) {
        uint32_t mask = bits == 0 ? 0 : LOW_MASK << (32 - bits);
        json_t *args = o->when ? json_copy(o->when) : json_array();
        json_array_append_new(args, compare_masked(o->index, mask, prefix));
        return add_rule(out, o->name, 0, args);
    }
    if (bits == 32)
        return;
    allow_others(out, o, prefix, bits + 1);
    allow_others(out, o, prefix | (1u << (31 - bits)), bits + 1);
}

/* Of a value that rules refuse together with values of a second argument: all other values of that.
 * Rule r is the first of its name with this value. */
static void allow_other_seconds(json_t *out, const struct syscall_rule *r)
{
    const struct syscall_rule *end = filter_sandbox.rules + filter_sandbox.n_rules;
    struct others o = {.name = r->name, .index = r->args[1].index};
    for (const struct syscall_rule *i = r; i < end; i++)
        if (strcmp(i->name, r->name) == 0 && i->error && i->args[0].value == r->args[0].value)
            others_refuse(&o, i->args[1].value);
    o.when =
        json_pack("[o]", compare_masked(r->args[0].index, LOW_MASK, (uint32_t)r->args[0].value));
    allow_others(out, &o, 0, 0);
    json_decref(o.when);
}

/* The earlier rule of the same name and first value that allows more narrowly, or NULL. */
static const struct syscall_rule *find_narrower_rule(const struct syscall_rule *r)
{
    for (const struct syscall_rule *e = filter_sandbox.rules; e < r; e++)
        if (strcmp(e->name, r->name) == 0 && !e->error && e->args[1].compare != COMPARE_NONE &&
            e->args[0].index == r->args[0].index && e->args[0].value == r->args[0].value)
            return e;
    return NULL;
}

static void add_refusal(json_t *out, const struct syscall_rule *r)
{
    const struct syscall_rule *except = find_narrower_rule(r);
    json_t *args = args_of(r);
    if (except)
        json_array_append_new(args, compare_pointer(&except->args[1], &except->args[2], false));
    add_rule(out, r->name, r->error, args);
}

/* What no rule of the name decides: is it allowed? */
static bool allows_the_rest(const struct syscall_rule *r)
{
    bool allows = false;
    for (const struct syscall_rule *i = r; i < filter_sandbox.rules + filter_sandbox.n_rules; i++) {
        if (strcmp(i->name, r->name) != 0)
            continue;
        if (is_catch_all(i))
            return true;
        allows = allows || !i->error;
    }
    return !allows;
}

/* All rules of the name that rule r is the first of. */
static void add_rules_of(json_t *out, const struct syscall_rule *r, bool exact)
{
    const struct syscall_rule *end = filter_sandbox.rules + filter_sandbox.n_rules;
    struct others others = {.name = r->name, .index = r->args[0].index};
    bool rest = allows_the_rest(r);
    if (!exact && rest)
        return add_rule(out, r->name, 0, NULL);
    for (const struct syscall_rule *i = r; i < end; i++) {
        if (strcmp(i->name, r->name) != 0 || is_catch_all(i))
            continue;
        if (!i->error)
            add_rule(out, i->name, 0, args_of(i));
        else if (i->error != EPERM) /* which is what happens anyway */
            add_refusal(out, i);
        if (!i->error || has_value(&others, i->args[0].value))
            continue;
        others_refuse(&others, i->args[0].value);
        if (rest && i->args[1].compare == COMPARE_EQUAL)
            allow_other_seconds(out, i);
    }
    if (rest)
        allow_others(out, &others, 0, 0);
}

static bool is_first_of_name(const struct syscall_rule *r)
{
    for (const struct syscall_rule *e = filter_sandbox.rules; e < r; e++)
        if (strcmp(e->name, r->name) == 0)
            return false;
    return true;
}

static json_t *format_architectures(void)
{
#if defined(__x86_64__)
    return json_pack("[s, s]", "SCMP_ARCH_X86_64", "SCMP_ARCH_X86");
#elif defined(__aarch64__)
    return json_pack("[s, s]", "SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM");
#else
#error "no system call table for this machine"
#endif
}

json_t *oci_seccomp_new(bool exact)
{
    json_t *calls = json_pack("[{s:o, s:s}]", "names", json_from_words(filter_sandbox.allowed[0]),
                              "action", "SCMP_ACT_ALLOW");
    for (size_t i = 0; i < filter_sandbox.n_rules; i++) {
        const struct syscall_rule *r = &filter_sandbox.rules[i];
        if (!is_conditional(r))
            add_rule(calls, r->name, r->error, NULL);
        else if (is_first_of_name(r))
            add_rules_of(calls, r, exact);
    }
    return json_pack("{s:s, s:i, s:o, s:o}", "defaultAction", "SCMP_ACT_ERRNO", "defaultErrnoRet",
                     EPERM, "architectures", format_architectures(), "syscalls", calls);
}
