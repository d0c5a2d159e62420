/* SPDX-License-Identifier: Apache-2.0 */
/* What processes of ours may do once they face hostile bytes: a second wall behind identity and
 * Landlock. None of them makes or joins a namespace by any of the three calls, starts a program,
 * traces, mounts, or gets at keyrings, modules, bpf, perf or io_uring, because none of these is in
 * its table. */
#include <errno.h>
#include <linux/if_tun.h>
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
    "access",     "chdir",    "copy_file_range", "faccessat", "faccessat2", "fadvise64",
    "fallocate",  "fchdir",   "fchmod",          "fdatasync", "flock",      "fstat",
    "fstatfs",    "fsync",    "ftruncate",       "getcwd",    "getdents",   "getdents64",
    "link",       "linkat",   "lseek",           "lstat",     "mkdir",      "mkdirat",
    "newfstatat", "open",     "openat",          "openat2",   "pread64",    "preadv",
    "preadv2",    "pwrite64", "pwritev",         "pwritev2",  "readlink",   "readlinkat",
    "rename",     "renameat", "renameat2",       "rmdir",     "sendfile",   "splice",
    "stat",       "statfs",   "statx",           "symlink",   "symlinkat",  "sync_file_range",
    "syncfs",     "umask",    "unlink",          "unlinkat",  NULL};

/* What is said of a file by its name, where Landlock does not ask (truncate: before ABI 3). */
static const char *const changes[] = {"chmod",    "fchmodat",  "fchmodat2",
                                      "truncate", "utimensat", NULL};

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
static const struct syscall_rule alone_rules[] = {NESTING_RULE, ABSENT("clone3"), READ_LIMITS};

#define RULES(list) .rules = list, .n_rules = sizeof(list) / sizeof((list)[0])
const struct syscall_table filter_control = {.allowed = {life, files, changes, sockets},
                                             RULES(control_rules)};
const struct syscall_table filter_gateway = {.allowed = {life, files, sockets, becoming},
                                             RULES(gateway_rules)};

/* Reading what name lookup and a credential need, and connections. Nothing is written, made,
 * removed or executed. */
static const char *const reading[] = {
    "access",     "faccessat", "faccessat2", "fadvise64",  "fstat",  "fstatfs", "getcwd",
    "getdents64", "lseek",     "lstat",      "newfstatat", "open",   "openat",  "openat2",
    "pread64",    "readlink",  "readlinkat", "stat",       "statfs", "statx",   NULL};
const struct syscall_table filter_kube = {.allowed = {life, reading, sockets},
                                          RULES(control_rules)};

/* Descriptors that it has or is sent: none is opened, bound or connected. */
static const char *const passed[] = {"fstat",      "getsockopt", "lseek",   "pread64",
                                     "recvfrom",   "recvmsg",    "sendmsg", "sendto",
                                     "setsockopt", "shutdown",   NULL};
const struct syscall_table filter_interceptor = {.allowed = {life, passed}, RULES(alone_rules)};

/* Netlink on sockets that are open already, and requests of the warden's. No file can be opened; a
 * descriptor of /dev/net/tun that was sent may become a link. */
static const char *const messages[] = {"bind",    "fstat",   "getsockname", "getsockopt",
                                       "lseek",   "pread64", "recvfrom",    "recvmsg",
                                       "sendmsg", "sendto",  "setsockopt",  NULL};
static const struct syscall_rule net_rules[] = {
    SOCKET_PROGRAM_RULES,
    NESTING_RULE,
    ABSENT("clone3"),
    READ_LIMITS,
    {"ioctl", 0, {{COMPARE_EQUAL, 1, 0, (uint32_t)TUNSETIFF}}},
};
const struct syscall_table filter_net = {.allowed = {life, messages}, RULES(net_rules)};

/* The way out of the image keeper's network: connections come in and are passed on. */
static const struct syscall_rule outlet_rules[] = {
    SOCKET_PROGRAM_RULES,
    NESTING_RULE,
    ABSENT("clone3"),
    READ_LIMITS,
    {"socketpair", 0, {{COMPARE_EQUAL, 0, 0, AF_UNIX}}},
};
const struct syscall_table filter_outlet = {.allowed = {life, sockets}, RULES(outlet_rules)};

/* A tree of an image's files, with their owners and attributes. Landlock asks what is opened,
 * written and named, and not what is said of a file that only its path is known of. So the unpacker
 * has none of the calls that take a path for that: an owner, a mode, a time or an attribute is of a
 * file that is open, which Landlock has let it open. What it makes without opening it, a symbolic
 * link, belongs to the unpacker's own user. Attributes are read by path where a directory of the
 * host's is imported: libarchive does so, and nothing changes by it. */
static const char *const trees[] = {
    "capget",     "capget",       "capset",    "fchown",   "fgetxattr",
    "flistxattr", "fremovexattr", "fsetxattr", "getxattr", "lgetxattr",
    "listxattr",  "llistxattr",   "setfsgid",  "setfsuid", NULL};
static const struct syscall_rule tree_rules[] = {
    NESTING_RULE,
    ABSENT("clone3"),
    READ_LIMITS,
    {"utimensat", 0, {{COMPARE_EQUAL, 1, 0, 0}, {COMPARE_HIGH_EQUAL, 1, 0, 0}}}, /* futimens() */
};
const struct syscall_table filter_unpacker = {.allowed = {life, files, trees}, RULES(tree_rules)};

/* Processes that end others and learn of their ends. */
static const char *const children[] = {"pidfd_open", "pidfd_send_signal", "wait4", "waitid", NULL};

/* The keeper of a fenced sandbox: it changes modes and times for commands that ask, ends them and
 * removes their files. */
static const struct syscall_rule fence_rules[] = {
    NESTING_RULE,
    ABSENT("clone3"),
    READ_LIMITS,
    {"seccomp", 0, {{COMPARE_EQUAL, 0, 0, SECCOMP_GET_NOTIF_SIZES}}},
    {"ioctl", 0, {{COMPARE_EQUAL, 1, 0, (uint32_t)SECCOMP_IOCTL_NOTIF_RECV}}},
    {"ioctl", 0, {{COMPARE_EQUAL, 1, 0, (uint32_t)SECCOMP_IOCTL_NOTIF_SEND}}},
    {"ioctl", 0, {{COMPARE_EQUAL, 1, 0, (uint32_t)SECCOMP_IOCTL_NOTIF_ID_VALID}}},
};
const struct syscall_table filter_fence_keeper = {
    .allowed = {life, files, changes, passed, children}, RULES(fence_rules)};

/* The launcher of an OCI runtime, once its container runs: it passes the runner's connections on
 * and waits for the end. */
static const char *const waiting[] = {"accept4", "sendmsg", NULL};
const struct syscall_table filter_launcher = {.allowed = {life, waiting, children},
                                              RULES(alone_rules)};

/* The broker of an engine mounts what goes into a container and enters namespaces that are there,
 * in processes of its own where it has to. It makes no namespace and starts no program. */
static const char *const mounting[] = {
    "chown",  "capget", "capset",        "fchown",     "fchownat",  "fsconfig", "fsmount", "fsopen",
    "lchown", "mount",  "mount_setattr", "move_mount", "open_tree", "seccomp",  "umount2", NULL};
static const struct syscall_rule broker_rules[] = {
    {"clone", 0, {{COMPARE_MASKED_EQUAL, 0, CLONE_NEW_ANY, 0}}},
    {"setns", 0, {{COMPARE_EQUAL, 1, 0, CLONE_NEWNS}}},
    {"setns", 0, {{COMPARE_EQUAL, 1, 0, CLONE_NEWUSER}}},
    SOCKET_PROGRAM_RULES,
    ABSENT("clone3"),
    READ_LIMITS,
    UNIX_RULE(SOCK_STREAM),
    {"socketpair", 0, {{COMPARE_EQUAL, 0, 0, AF_UNIX}}},
};
const struct syscall_table filter_broker = {
    .allowed = {life, files, changes, sockets, children, mounting}, RULES(broker_rules)};
/* The same broker once it knows that the container runs. */
static const struct syscall_rule served_rules[] = {
    SOCKET_PROGRAM_RULES,   NESTING_RULE,
    ABSENT("clone3"),       READ_LIMITS,
    UNIX_RULE(SOCK_STREAM), {"socketpair", 0, {{COMPARE_EQUAL, 0, 0, AF_UNIX}}},
};
const struct syscall_table filter_broker_serving = {.allowed = {life, files, sockets, children},
                                                    RULES(served_rules)};
