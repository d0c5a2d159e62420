/* SPDX-License-Identifier: Apache-2.0 */
/* What processes of ours may do once they face hostile bytes: a second wall behind identity and
 * Landlock. None of them makes or joins a namespace by any of the three calls, starts a program,
 * traces, mounts, or gets at keyrings, modules, bpf, perf or io_uring, because none of these is in
 * its table. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "filter/filter-table.h"

/* What the C library, libuv and a sanitizer need to live: memory, threads, time, waiting, signals.
 */
static const char *const life[] = {"arch_prctl",
                                   "brk",
                                   "clock_getres",
                                   "clock_gettime",
                                   "clock_nanosleep",
                                   "close",
                                   "close_range",
                                   "dup",
                                   "dup2",
                                   "dup3",
                                   "epoll_create",
                                   "epoll_create1",
                                   "epoll_ctl",
                                   "epoll_pwait",
                                   "epoll_pwait2",
                                   "epoll_wait",
                                   "eventfd2",
                                   "exit",
                                   "exit_group",
                                   "fcntl",
                                   "futex",
                                   "futex_wait",
                                   "futex_waitv",
                                   "futex_wake",
                                   "get_robust_list",
                                   "getcpu",
                                   "getegid",
                                   "geteuid",
                                   "getgid",
                                   "getgroups",
                                   "getpgrp",
                                   "getpid",
                                   "getppid",
                                   "getrandom",
                                   "getresgid",
                                   "getresuid",
                                   "getrlimit",
                                   "getrusage",
                                   "gettid",
                                   "gettimeofday",
                                   "getuid",
                                   "kill",
                                   "madvise",
                                   "membarrier",
                                   "memfd_create",
                                   "mincore",
                                   "mlock",
                                   "mmap",
                                   "mprotect",
                                   "mremap",
                                   "msync",
                                   "munlock",
                                   "munmap",
                                   "nanosleep",
                                   "pause",
                                   "pipe",
                                   "pipe2",
                                   "poll",
                                   "ppoll",
                                   "prctl",
                                   "pselect6",
                                   "read",
                                   "readv",
                                   "restart_syscall",
                                   "rseq",
                                   "rt_sigaction",
                                   "rt_sigpending",
                                   "rt_sigprocmask",
                                   "rt_sigreturn",
                                   "rt_sigsuspend",
                                   "rt_sigtimedwait",
                                   "sched_getaffinity",
                                   "sched_getparam",
                                   "sched_getscheduler",
                                   "sched_yield",
                                   "select",
                                   "set_robust_list",
                                   "set_tid_address",
                                   "sigaltstack",
                                   "signalfd4",
                                   "sysinfo",
                                   "tgkill",
                                   "time",
                                   "timerfd_create",
                                   "timerfd_gettime",
                                   "timerfd_settime",
                                   "times",
                                   "uname",
                                   "write",
                                   "writev",
                                   NULL};

/* Files, where Landlock and the root leave any. */
static const char *const files[] = {
    "access",     "chdir",      "chmod",           "copy_file_range",
    "faccessat",  "faccessat2", "fadvise64",       "fallocate",
    "fchdir",     "fchmod",     "fchmodat",        "fchmodat2",
    "fdatasync",  "flock",      "fstat",           "fstatfs",
    "fsync",      "ftruncate",  "getcwd",          "getdents",
    "getdents64", "link",       "linkat",          "lseek",
    "lstat",      "mkdir",      "mkdirat",         "newfstatat",
    "open",       "openat",     "openat2",         "pread64",
    "preadv",     "preadv2",    "pwrite64",        "pwritev",
    "pwritev2",   "readlink",   "readlinkat",      "rename",
    "renameat",   "renameat2",  "rmdir",           "sendfile",
    "splice",     "stat",       "statfs",          "statx",
    "symlink",    "symlinkat",  "sync_file_range", "syncfs",
    "truncate",   "umask",      "unlink",          "unlinkat",
    "utimensat",  NULL};

static const char *const sockets[] = {
    "accept",     "accept4", "bind",       "connect",  "getpeername", "getsockname",
    "getsockopt", "listen",  "recvfrom",   "recvmmsg", "recvmsg",     "sendmmsg",
    "sendmsg",    "sendto",  "setsockopt", "shutdown", NULL};

/* The gateway is root until it has its own user, and restricts its files after that. */
static const char *const becoming[] = {"landlock_add_rule",
                                       "landlock_create_ruleset",
                                       "landlock_restrict_self",
                                       "setgroups",
                                       "setresgid",
                                       "setresuid",
                                       "setuid",
                                       "setrlimit",
                                       NULL};

/* Threads and nothing else; reading limits, not setting them. */
#define OWN_RULES                                                                                  \
    {"clone", 0, {{COMPARE_MASKED_EQUAL, 0, CLONE_NEW_ANY | CLONE_THREAD, CLONE_THREAD}}},         \
        SOCKET_PROGRAM_RULES, NESTING_RULE, ABSENT("clone3"), ABSENT("io_uring_setup"),            \
        ABSENT("io_uring_enter"), ABSENT("io_uring_register"),                                     \
        {"ioctl", EPERM, {{COMPARE_EQUAL, 1, 0, TIOCSTI}}},                                        \
        {"ioctl", EPERM, {{COMPARE_EQUAL, 1, 0, TIOCLINUX}}},                                      \
    {                                                                                              \
        "ioctl", EPERM,                                                                            \
        {                                                                                          \
            {                                                                                      \
                COMPARE_EQUAL, 1, 0, TIOCSETD                                                      \
            }                                                                                      \
        }                                                                                          \
    }
#define READ_LIMITS                                                                                \
    {                                                                                              \
        "prlimit64", 0,                                                                            \
        {                                                                                          \
            {COMPARE_EQUAL, 2, 0, 0}, {COMPARE_HIGH_EQUAL, 2, 0, 0},                               \
        }                                                                                          \
    }
#define INTERNET_RULES                                                                             \
    UNIX_RULE(SOCK_STREAM), UNIX_RULE(SOCK_DGRAM), UNIX_RULE(SOCK_SEQPACKET),                      \
        SOCKET_RULE(AF_INET, SOCK_STREAM, 0), SOCKET_RULE(AF_INET, SOCK_STREAM, IPPROTO_TCP),      \
        SOCKET_RULE(AF_INET, SOCK_DGRAM, 0), SOCKET_RULE(AF_INET, SOCK_DGRAM, IPPROTO_UDP),        \
        SOCKET_RULE(AF_INET6, SOCK_STREAM, 0), SOCKET_RULE(AF_INET6, SOCK_STREAM, IPPROTO_TCP),    \
        SOCKET_RULE(AF_INET6, SOCK_DGRAM, 0), SOCKET_RULE(AF_INET6, SOCK_DGRAM, IPPROTO_UDP),      \
        SOCKET_RULE(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),                                          \
    {                                                                                              \
        "socketpair", 0,                                                                           \
        {                                                                                          \
            {                                                                                      \
                COMPARE_EQUAL, 0, 0, AF_UNIX                                                       \
            }                                                                                      \
        }                                                                                          \
    }

static const struct syscall_rule control_rules[] = {OWN_RULES, READ_LIMITS, INTERNET_RULES};
static const struct syscall_rule gateway_rules[] = {
    OWN_RULES, {"prlimit64", 0, {{COMPARE_MASKED_EQUAL, 0, 0, 0}}}, INTERNET_RULES};
/* Neither threads nor sockets. */
static const struct syscall_rule unpacker_rules[] = {NESTING_RULE, ABSENT("clone3"), READ_LIMITS};

#define RULES(list) .rules = list, .n_rules = sizeof(list) / sizeof((list)[0])
const struct syscall_table filter_control = {.allowed = {life, files, sockets},
                                             RULES(control_rules)};
const struct syscall_table filter_gateway = {.allowed = {life, files, sockets, becoming},
                                             RULES(gateway_rules)};

/* Descriptors that it has or is sent: none is opened, bound or connected. */
static const char *const passed[] = {"fstat",   "getsockopt", "lseek",      "recvfrom", "recvmsg",
                                     "sendmsg", "sendto",     "setsockopt", "shutdown", NULL};
const struct syscall_table filter_interceptor = {.allowed = {life, passed}, RULES(unpacker_rules)};

/* Netlink on sockets that are open already, and requests of the warden's. No file can be opened. */
static const char *const messages[] = {"bind",    "fstat",   "getsockname", "getsockopt",
                                       "lseek",   "pread64", "recvfrom",    "recvmsg",
                                       "sendmsg", "sendto",  "setsockopt",  NULL};
static const struct syscall_rule net_rules[] = {SOCKET_PROGRAM_RULES, NESTING_RULE,
                                                ABSENT("clone3"), READ_LIMITS};
const struct syscall_table filter_net = {.allowed = {life, messages}, RULES(net_rules)};

/* A tree of an image's files, with their owners and attributes. */
static const char *const trees[] = {"chown",        "fchown",       "fchownat",  "fgetxattr",
                                    "flistxattr",   "fremovexattr", "fsetxattr", "getxattr",
                                    "lchown",       "lgetxattr",    "listxattr", "llistxattr",
                                    "lremovexattr", "lsetxattr",    "mknod",     "mknodat",
                                    "removexattr",  "setxattr",     "utimes",    NULL};
const struct syscall_table filter_unpacker = {.allowed = {life, files, trees},
                                              RULES(unpacker_rules)};
