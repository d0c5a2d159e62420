/* seccomp-table.c to BPF. The filter covers the machine's own calls and its 32-bit ones; x32 and
 * any other architecture get ENOSYS. */
#include "warden/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "warden/seccomp-table.h"

static void cleanup_filter(scmp_filter_ctx *ctx)
{
    if (*ctx)
        seccomp_release(*ctx);
}
#define _cleanup_filter_ __attribute__((cleanup(cleanup_filter)))

/* Which 32-bit architecture the machine's kernel may also serve; 0: none we know. */
static uint32_t compat_arch(void)
{
    switch (seccomp_arch_native()) {
    case SCMP_ARCH_X86_64:
        return SCMP_ARCH_X86;
    case SCMP_ARCH_AARCH64:
        return SCMP_ARCH_ARM;
    default:
        return 0;
    }
}

static bool has_args(const struct syscall_rule *rule)
{
    return rule->args[0].compare != COMPARE_NONE;
}

static bool belongs_to_refuse(const struct syscall_rule *rule)
{
    return rule->error && has_args(rule);
}

static int add_rule(scmp_filter_ctx ctx, const struct syscall_rule *rule)
{
    struct scmp_arg_cmp args[SYSCALL_ARGS_MAX];
    unsigned n = 0;
    int nr = seccomp_syscall_resolve_name(rule->name);
    if (nr == __NR_SCMP_ERROR)
        return 0;
    for (; n < SYSCALL_ARGS_MAX && rule->args[n].compare != COMPARE_NONE; n++) {
        const struct syscall_arg *a = &rule->args[n];
        uint64_t mask = a->compare == COMPARE_EQUAL ? 0xffffffff : a->mask;
        args[n] = SCMP_CMP(a->index, SCMP_CMP_MASKED_EQ, mask, a->value);
    }
    uint32_t action = rule->error ? SCMP_ACT_ERRNO((uint32_t)rule->error) : SCMP_ACT_ALLOW;
    return seccomp_rule_add_array(ctx, action, nr, n, args);
}

static int add_allowed(scmp_filter_ctx ctx, bool is_x86_32)
{
    for (const char *const *name = syscalls_allowed; *name; name++) {
        const struct syscall_rule plain = {.name = *name};
        int r = add_rule(ctx, &plain);
        if (r < 0)
            return r;
    }
    /* A general ioctl allowance; the refuse program takes single commands out again. */
    int r = add_rule(ctx, &(const struct syscall_rule){.name = "ioctl"});
    for (size_t i = 0; r == 0 && i < n_syscall_rules; i++) {
        const struct syscall_rule *rule = &syscall_rules[i];
        /* 32-bit x86 has socketcall(), whose arguments are behind a pointer: the library would
         * allow it for every family. Such programs get no sockets but socketpair(). */
        if (belongs_to_refuse(rule) || (is_x86_32 && !strcmp(rule->name, "socket")))
            continue;
        r = add_rule(ctx, rule);
    }
    return r;
}

static int add_refused(scmp_filter_ctx ctx)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < n_syscall_rules; i++)
        if (belongs_to_refuse(&syscall_rules[i]))
            r = add_rule(ctx, &syscall_rules[i]);
    return r;
}

static scmp_filter_ctx filter_new(uint32_t default_action)
{
    scmp_filter_ctx ctx = seccomp_init(default_action);
    if (ctx && (seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS)) < 0 ||
                seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2) < 0)) {
        seccomp_release(ctx);
        return NULL;
    }
    return ctx;
}

static int export_program(scmp_filter_ctx ctx, struct sock_fprog *ret)
{
    _cleanup_close_ int fd = memfd_create("seccomp", MFD_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return -errno;
    int r = seccomp_export_bpf(ctx, fd);
    if (r < 0)
        return r;
    if (fstat(fd, &st) < 0)
        return -errno;
    size_t count = (size_t)st.st_size / sizeof(struct sock_filter);
    if (count == 0 || count > BPF_MAXINSNS)
        return -E2BIG;
    struct sock_filter *code = xcalloc(count, sizeof(*code));
    if (pread(fd, code, (size_t)st.st_size, 0) != st.st_size) {
        free(code);
        return -EIO;
    }
    *ret = (struct sock_fprog){.len = (unsigned short)count, .filter = code};
    return 0;
}

static int compile_allow(struct sock_fprog *ret)
{
    _cleanup_filter_ scmp_filter_ctx ctx = filter_new(SCMP_ACT_ERRNO(EPERM));
    if (!ctx)
        return -ENOMEM;
    int r = add_allowed(ctx, false);
    if (r < 0)
        return r;
    uint32_t compat = compat_arch();
    scmp_filter_ctx second = compat ? filter_new(SCMP_ACT_ERRNO(EPERM)) : NULL;
    if (second) {
        r = seccomp_arch_remove(second, seccomp_arch_native());
        r = r < 0 ? r : seccomp_arch_add(second, compat);
        r = r < 0 ? r : add_allowed(second, compat == SCMP_ARCH_X86);
        r = r < 0 ? r : seccomp_merge(ctx, second); /* takes second */
        if (r < 0) {
            seccomp_release(second);
            return r;
        }
    }
    return export_program(ctx, ret);
}

static int compile_refuse(struct sock_fprog *ret)
{
    _cleanup_filter_ scmp_filter_ctx ctx = filter_new(SCMP_ACT_ALLOW);
    if (!ctx)
        return -ENOMEM;
    int r = compat_arch() ? seccomp_arch_add(ctx, compat_arch()) : 0;
    r = r < 0 ? r : add_refused(ctx);
    return r < 0 ? r : export_program(ctx, ret);
}

int seccomp_programs_init(struct seccomp_programs *p, struct error *err)
{
    *p = (struct seccomp_programs){0};
    int r = compile_allow(&p->allow);
    r = r < 0 ? r : compile_refuse(&p->refuse);
    if (r < 0) {
        seccomp_programs_done(p);
        return error_set(err, ERROR_UNAVAILABLE, -r, "compile the system call filter");
    }
    return 0;
}

void seccomp_programs_done(struct seccomp_programs *p)
{
    free(p->allow.filter);
    free(p->refuse.filter);
    *p = (struct seccomp_programs){0};
}

int seccomp_programs_apply(const struct seccomp_programs *p)
{
    /* The allowing one last: it is what lets seccomp() itself through. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p->refuse) < 0)
        return -errno;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p->allow) < 0)
        return -errno;
    return 0;
}
