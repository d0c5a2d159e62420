/* SPDX-License-Identifier: Apache-2.0 */
/* The system call filter: each refused call is really made, in a child with the filter and, where
 * it is safe, in one without, so that a wrong test shows. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "tests/unit/bpf-run.h"
#include "tests/unit/tap.h"
#include "filter/filter-table.h"
#include "filter/filter.h"

#define X32_BIT 0x40000000

/* The whole, and the two parts that must be the same together. */
static struct sock_fprog program, shared, own;

enum install { OPEN, WHOLE, PARTS };

typedef long (*attempt_fn)(void);

/* The errno an attempt ends with in a child, 0 for success. */
static int outcome(attempt_fn attempt, enum install install)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (install != OPEN && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
            _exit(200);
        if (install == WHOLE && filter_install(&program) < 0)
            _exit(200);
        if (install == PARTS && (filter_install(&shared) < 0 || filter_install(&own) < 0))
            _exit(200);
        errno = 0;
        _exit(attempt() < 0 ? errno : 0);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 201;
}

static long try_unshare_user(void)
{
    return unshare(CLONE_NEWUSER);
}
static long try_unshare_files(void)
{
    return unshare(CLONE_FILES);
}
/* An empty mount namespace, on kernels that have that. */
static long try_unshare_new_flag(void)
{
    return unshare(0x00100000);
}
static long try_clone_user(void)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return pid;
}
static long try_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid;
}
static long try_clone3(void)
{
    return syscall(SYS_clone3, NULL, 0);
}
static long try_raw(void)
{
    return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}
static long try_raw_flags(void)
{
    return socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
}
static long try_packet(void)
{
    return socket(AF_PACKET, SOCK_DGRAM, 0);
}
static long try_vsock(void)
{
    return socket(AF_VSOCK, SOCK_STREAM, 0);
}
static long try_alg(void)
{
    return socket(AF_ALG, SOCK_SEQPACKET, 0);
}
static long try_netfilter(void)
{
    return socket(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
}
static long try_route(void)
{
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
}
static long try_tcp(void)
{
    return socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, 0);
}
static long try_unix(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET, 0);
}
static long try_high_family(void)
{
    return syscall(SYS_socket, 0xffffffff00000000ul | AF_PACKET, SOCK_DGRAM, 0);
}
static long try_sti(void)
{
    return ioctl(0, TIOCSTI, "x");
}
static long try_sti_high(void)
{
    return syscall(SYS_ioctl, 0, 0x100000000ul | TIOCSTI, "x");
}
static long try_winsize(void)
{
    struct winsize w;
    return ioctl(-1, TIOCGWINSZ, &w);
}
static long try_keyctl(void)
{
    return syscall(SYS_keyctl, 0, -3, 0);
}
static long try_uring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL);
}
static long try_bpf(void)
{
    return syscall(SYS_bpf, 0, NULL, 0);
}
static long try_mount(void)
{
    return syscall(SYS_mount, "a", "/", "tmpfs", 0, NULL);
}
static long try_handle(void)
{
    return syscall(SYS_open_by_handle_at, -1, NULL, 0);
}
static long try_settime(void)
{
    return syscall(SYS_clock_settime, -1, NULL);
}
static long try_personality(void)
{
    return syscall(SYS_personality, 0x0400000 /* READ_IMPLIES_EXEC */);
}
static long try_personality_query(void)
{
    return syscall(SYS_personality, 0xffffffff) < 0 ? -1 : 0;
}
static long try_newest(void)
{
    return syscall(1000);
}
/* 0 only if the limit is as it was although lowering it "worked". */
static long try_core_limit(void)
{
    struct rlimit before, zero = {0, 0}, after;
    if (getrlimit(RLIMIT_CORE, &before) < 0 || setrlimit(RLIMIT_CORE, &zero) < 0 ||
        getrlimit(RLIMIT_CORE, &after) < 0)
        return -1;
    errno = ERANGE;
    return after.rlim_cur == before.rlim_cur ? 0 : -1;
}
static long try_open_files_limit(void)
{
    struct rlimit l;
    return getrlimit(RLIMIT_NOFILE, &l) < 0 ? -1 : setrlimit(RLIMIT_NOFILE, &l);
}

static long try_set_core(void)
{
    struct rlimit l = {4096, 4096};
    return setrlimit(RLIMIT_CORE, &l);
}

/* Programs that let everything pass; the kernel copies them at the call. */
static struct sock_filter pass[] = {{BPF_RET | BPF_K, 0, 0, 0x7fff0000u}};
static struct sock_fprog pass_program = {1, pass};

static long try_option(int option)
{
    return setsockopt(socket(AF_INET, SOCK_DGRAM, 0), SOL_SOCKET, option, &pass_program,
                      sizeof(pass_program));
}
static long try_attach_filter(void)
{
    return try_option(SO_ATTACH_FILTER);
}
/* EBADF without the filter: there is no such program. */
static long try_attach_bpf(void)
{
    int none = -1;
    return setsockopt(socket(AF_INET, SOCK_DGRAM, 0), SOL_SOCKET, SO_ATTACH_BPF, &none,
                      sizeof(none));
}
static long try_attach_reuseport_cbpf(void)
{
    return try_option(SO_ATTACH_REUSEPORT_CBPF);
}
static long try_attach_reuseport_ebpf(void)
{
    return try_option(SO_ATTACH_REUSEPORT_EBPF);
}
static long try_attach_high(void)
{
    return syscall(SYS_setsockopt, socket(AF_INET, SOCK_DGRAM, 0), 0x100000000ul | SOL_SOCKET,
                   0x100000000ul | SO_ATTACH_FILTER, &pass_program, sizeof(pass_program));
}
static long try_attach_pair(void)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        return 0;
    return setsockopt(pair[0], SOL_SOCKET, SO_ATTACH_FILTER, &pass_program, sizeof(pass_program));
}
/* Without the filter it depends on the kernel whether there is TLS, and needs a connection. */
static long try_kernel_tls(void)
{
    return setsockopt(socket(AF_INET, SOCK_STREAM, 0), IPPROTO_TCP, TCP_ULP, "tls", 3);
}
static long try_nodelay(void)
{
    int on = 1;
    return setsockopt(socket(AF_INET, SOCK_STREAM, 0), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}
/* The number of SO_ATTACH_FILTER at another level. */
static long try_v6only(void)
{
    int on = 1;
    return setsockopt(socket(AF_INET6, SOCK_STREAM, 0), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
}
static long try_reuse_address(void)
{
    int on = 1;
    return setsockopt(socket(AF_INET, SOCK_STREAM, 0), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}
static long try_detach_filter(void)
{
    return try_option(SO_DETACH_FILTER);
}
static long try_nest_seccomp(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &pass_program);
}
static long try_nest_prctl(void)
{
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &pass_program);
}
/* How programs look for filters: EFAULT says that there are any. */
static long try_nest_probe(void)
{
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
}
static long try_seccomp_query(void)
{
    uint32_t action = SECCOMP_RET_ALLOW;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
}
static long try_name(void)
{
    return prctl(PR_SET_NAME, "other", 0, 0, 0);
}

#ifdef __x86_64__
static long compat(long nr, long a, long b)
{
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(nr), "b"(a), "c"(b) : "memory", "r8", "r9");
    if (r < 0) {
        errno = (int)-r;
        return -1;
    }
    return r;
}
static long try_x32_getpid(void)
{
    return syscall(X32_BIT | SYS_getpid);
}
static long try_compat_getpid(void)
{
    return compat(20, 0, 0);
}
static long try_compat_socketcall(void)
{
    static uint32_t args[3] = {AF_UNIX, SOCK_STREAM, 0};
    return compat(102, 1, (long)(uintptr_t)args);
}
static long try_compat_packet(void)
{
    return compat(359, AF_PACKET, SOCK_DGRAM);
}
static long try_compat_setsockopt_call(void)
{
    static uint32_t args[5] = {0xffffffff, SOL_SOCKET, SO_ATTACH_FILTER, 0, 0};
    return compat(102, 14, (long)(uintptr_t)args);
}
static long try_compat_setsockopt(void)
{
    long r;
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(366), "b"(-1l), "c"((long)SOL_SOCKET), "d"((long)SO_ATTACH_FILTER),
                       "S"(0l), "D"(0l)
                     : "memory", "r8", "r9");
    errno = (int)-r;
    return -1;
}
static long try_compat_nest(void)
{
    return compat(354, SECCOMP_SET_MODE_FILTER, 0);
}
static long try_compat_nest_prctl(void)
{
    return compat(172, PR_SET_SECCOMP, SECCOMP_MODE_FILTER);
}
static long try_x32_setsockopt(void)
{
    return syscall(X32_BIT | 541, -1, SOL_SOCKET, SO_ATTACH_FILTER, NULL, 0);
}
static long try_compat_keyctl(void)
{
    return compat(288, 0, 0);
}
static long try_compat_unshare(void)
{
    return compat(310, CLONE_NEWUSER, 0);
}
#endif

static const struct {
    const char *what;
    attempt_fn attempt;
    int filtered; /* expected errno */
    int open;     /* errno without the filter; -1: not tried, -2: anything but the filtered one */
} cases[] = {
    {"unshare of a user namespace", try_unshare_user, EPERM, -1},
    {"unshare of the descriptor table", try_unshare_files, 0, 0},
    {"unshare with a flag that does not exist yet", try_unshare_new_flag, EPERM, -2},
    {"clone with a user namespace", try_clone_user, EPERM, -1},
    {"fork", try_fork, 0, 0},
    {"clone3", try_clone3, ENOSYS, -2},
    {"a raw socket", try_raw, EPERM, -1},
    {"a raw socket with flags", try_raw_flags, EPERM, -1},
    {"a packet socket", try_packet, EPERM, -1},
    {"a vsock socket", try_vsock, EPERM, -2},
    {"an AF_ALG socket", try_alg, EPERM, -2},
    {"netfilter's netlink", try_netfilter, EPERM, -1},
    {"routing's netlink", try_route, 0, 0},
    {"a TCP socket", try_tcp, 0, 0},
    {"a unix socket", try_unix, 0, 0},
    {"a packet socket with high bits set", try_high_family, EPERM, -1},
    {"TIOCSTI", try_sti, EPERM, -2},
    {"TIOCSTI with high bits set", try_sti_high, EPERM, -2},
    {"another ioctl", try_winsize, EBADF, EBADF},
    {"keyctl", try_keyctl, EPERM, -2},
    {"io_uring_setup", try_uring, ENOSYS, -1},
    {"bpf", try_bpf, EPERM, -1},
    {"mount", try_mount, EPERM, -1},
    {"open_by_handle_at", try_handle, EPERM, -2},
    {"clock_settime", try_settime, EPERM, -2},
    {"personality that makes memory executable", try_personality, EPERM, -2},
    {"the personality query", try_personality_query, 0, 0},
    {"a call that does not exist yet", try_newest, ENOSYS, ENOSYS},
    {"the limit of core dumps pretends to change", try_core_limit, 0, ERANGE},
    {"the limit of open files", try_open_files_limit, 0, 0},
    {"a program on a socket", try_attach_filter, EPERM, 0},
    {"a loaded program on a socket", try_attach_bpf, EPERM, EBADF},
    {"a program that chooses among sockets", try_attach_reuseport_cbpf, EPERM, -2},
    {"a loaded program that chooses among sockets", try_attach_reuseport_ebpf, EPERM, -2},
    {"a program on a socket with high bits set", try_attach_high, EPERM, 0},
    {"a program on one of a pair", try_attach_pair, EPERM, 0},
    {"TLS of the kernel's on a socket", try_kernel_tls, EPERM, -2},
    {"another option of TCP", try_nodelay, 0, 0},
    {"the same number at another level", try_v6only, 0, 0},
    {"another option", try_reuse_address, 0, 0},
    {"taking a program off", try_detach_filter, ENOENT, ENOENT},
    {"a filter of the tool's own", try_nest_seccomp, EINVAL, 0},
    {"a filter of the tool's own by prctl", try_nest_prctl, EINVAL, 0},
    {"looking for filters", try_nest_probe, EINVAL, EFAULT},
    {"what filters can do", try_seccomp_query, 0, 0},
    {"another prctl", try_name, 0, 0},
#ifdef __x86_64__
    {"socketcall(setsockopt)", try_compat_setsockopt_call, EPERM, -2},
    {"a 32-bit program on a socket", try_compat_setsockopt, EPERM, EBADF},
    {"a 32-bit filter of the tool's own", try_compat_nest, EINVAL, EFAULT},
    {"a 32-bit filter by prctl", try_compat_nest_prctl, EINVAL, EFAULT},
    {"a program on a socket as an x32 call", try_x32_setsockopt, ENOSYS, -1},
    {"an x32 call", try_x32_getpid, ENOSYS, -1},
    {"a 32-bit call", try_compat_getpid, 0, 0},
    {"socketcall(socket)", try_compat_socketcall, EPERM, -2},
    {"a 32-bit packet socket", try_compat_packet, EPERM, -1},
    {"a 32-bit keyctl", try_compat_keyctl, EPERM, -2},
    {"a 32-bit unshare", try_compat_unshare, EPERM, -1},
#endif
};

static long try_getppid(void)
{
    return syscall(SYS_getppid);
}
static long try_getsid(void)
{
    return syscall(SYS_getsid, 0);
}
static long try_getpgid(void)
{
    return syscall(SYS_getpgid, 0);
}
static long try_getpriority(void)
{
    return syscall(SYS_getpriority, PRIO_PROCESS, 0);
}

/* A rule without conditions means its own error, or that the call is allowed. */
static void test_unconditional(void)
{
    static const struct syscall_rule rules[] = {{"getppid", EACCES, {{0}}},
                                                {"getsid", EPERM, {{0}}},
                                                {"getpgid", 0, {{0}}},
                                                {"getpriority", ENOSYS, {{0}}}};
    static const attempt_fn attempts[] = {try_getppid, try_getsid, try_getpgid, try_getpriority};
    struct syscall_table table = filter_sandbox;
    struct error err = {0};
    table.rules = rules;
    table.n_rules = ELEMENTS(rules);
    ok(filter_compile(&table, &program, &err) == 0, "rules without conditions compile");
    for (size_t i = 0; i < ELEMENTS(rules); i++) {
        int got = outcome(attempts[i], WHOLE);
        ok(got == rules[i].error, "%s: %s", rules[i].name, got ? strerror(got) : "allowed");
    }
    filter_done(&program);
}

/* The kernel takes the most restrictive answer, and these have no others than ALLOW and ERRNO. */
static uint32_t answer_of_parts(const struct seccomp_data *d)
{
    uint32_t first = bpf_run(&shared, d);
    return first == SECCOMP_RET_ALLOW ? bpf_run(&own, d) : first;
}

/* Every number, also those that no call has, of both architectures, of x32 and of a stranger. */
static void test_parts(const struct syscall_table *table, const char *what)
{
    static const uint32_t archs[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, AUDIT_ARCH_AARCH64,
                                     AUDIT_ARCH_ARM, AUDIT_ARCH_S390X};
    static const uint64_t values[] = {0,
                                      1,
                                      4,
                                      8,
                                      PR_SET_SECCOMP,
                                      SECCOMP_MODE_FILTER,
                                      CLONE_NEWNET,
                                      CLONE_FILES,
                                      0xffffffff00000000ul};
    struct error err = {0};
    unsigned differ = 0;
    ok(filter_compile(table, &program, &err) == 0 &&
           filter_compile_part(table, FILTER_SHARED, &shared, &err) == 0 &&
           filter_compile_part(table, FILTER_OWN, &own, &err) == 0,
       "%s: the table compiles, whole and in parts", what);
    for (size_t a = 0; a < ELEMENTS(archs); a++)
        for (int i = 0; i < 2 * 1100; i++)
            for (size_t k = 0; k < ELEMENTS(values) * ELEMENTS(values); k++) {
                struct seccomp_data d = {
                    .nr = i < 1100 ? i : (i - 1100) | X32_BIT,
                    .arch = archs[a],
                    .args = {values[k % ELEMENTS(values)], values[k / ELEMENTS(values)], 0}};
                differ += bpf_run(&program, &d) != answer_of_parts(&d);
            }
    ok(differ == 0, "%s: both parts together answer as the whole", what);
    ok(own.len < 100, "%s: what each sandbox adds is short: %d instructions", what, own.len);
    filter_done(&program);
    filter_done(&shared);
    filter_done(&own);
}

int main(void)
{
    struct error err = {0};
    test_unconditional();
    test_parts(&filter_sandbox_nesting, "with filters inside");
    test_parts(&filter_sandbox, "without");
    ok(filter_compile_part(&filter_sandbox, FILTER_SHARED, &shared, &err) == 0 &&
           filter_compile_part(&filter_sandbox, FILTER_OWN, &own, &err) == 0,
       "the parts compile");
    ok(filter_compile(&filter_sandbox, &program, &err) == 0, "the table compiles");
    printf("# %d instructions\n", program.len);
    ok(program.len > 100 && program.len < 1000, "to a program of moderate size");
    try_set_core();
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        int got = outcome(cases[i].attempt, WHOLE);
        ok(got == cases[i].filtered, "%s: %s", cases[i].what, got ? strerror(got) : "allowed");
        ok(outcome(cases[i].attempt, PARTS) == got, "and the same in two parts");
        if (cases[i].open == -1)
            continue;
        int open = outcome(cases[i].attempt, OPEN);
        ok(cases[i].open == -2 ? open != got : open == cases[i].open, "without the filter: %s",
           open ? strerror(open) : "allowed");
    }
    filter_done(&program);
    filter_done(&shared);
    filter_done(&own);
    return tap_done();
}
