/* SPDX-License-Identifier: Apache-2.0 */
/* What a tool in a sandbox may do. Left out on purpose: io_uring, bpf, userfaultfd, perf, keyrings,
 * mounts, modules, kexec, swap, quotas, accounting, setting clocks, port I/O, file handles, joining
 * or making namespaces, reading other processes' memory, kernel log, NUMA page moves of others. */
#include "filter/filter-table.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* What a process may cease to share with others that it shares it with. */
#define UNSHARE_KNOWN                                                                              \
    (CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_VM | CLONE_SIGHAND | CLONE_THREAD)

static const char *const allowed[] = {
    /* files */
    "access", "chdir", "chmod", "chown", "chown32", "close", "close_range", "copy_file_range",
    "creat", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fadvise64_64",
    "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchown32", "fchownat",
    "fcntl", "fcntl64", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr",
    "fsetxattr", "fstat", "fstat64", "fstatat64", "fstatfs", "fstatfs64", "fsync", "ftruncate",
    "ftruncate64", "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "lchown",
    "lchown32", "lgetxattr", "link", "linkat", "listxattr", "llistxattr", "_llseek", "lremovexattr",
    "lseek", "lsetxattr", "lstat", "lstat64", "mkdir", "mkdirat", "mknod", "mknodat", "newfstatat",
    "open", "openat", "openat2", "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2",
    "read", "readahead", "readlink", "readlinkat", "readv", "removexattr", "rename", "renameat",
    "renameat2", "rmdir", "sendfile", "sendfile64", "setxattr", "splice", "stat", "stat64",
    "statfs", "statfs64", "statx", "symlink", "symlinkat", "sync", "sync_file_range", "syncfs",
    "tee", "truncate", "truncate64", "umask", "unlink", "unlinkat", "utime", "utimensat",
    "utimensat_time64", "utimes", "vmsplice", "write", "writev",
    /* waiting */
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old", "epoll_pwait", "epoll_pwait2",
    "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2", "inotify_add_watch", "inotify_init",
    "inotify_init1", "inotify_rm_watch", "_newselect", "pipe", "pipe2", "poll", "ppoll",
    "ppoll_time64", "pselect6", "pselect6_time64", "select", "signalfd", "signalfd4",
    "timerfd_create", "timerfd_gettime", "timerfd_gettime64", "timerfd_settime",
    "timerfd_settime64",
    /* memory */
    "brk", "get_mempolicy", "madvise", "mbind", "membarrier", "memfd_create", "mincore", "mlock",
    "mlock2", "mlockall", "mmap", "mmap2", "mprotect", "mremap", "msync", "munlock", "munlockall",
    "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect", "process_madvise", "process_mrelease",
    "remap_file_pages", "set_mempolicy", "shmat", "shmctl", "shmdt", "shmget",
    /* processes and threads */
    "arch_prctl", "capget", "capset", "execve", "execveat", "exit", "exit_group", "fork", "futex",
    "futex_requeue", "futex_time64", "futex_wait", "futex_waitv", "futex_wake", "get_robust_list",
    "get_thread_area", "getcpu", "getegid", "getegid32", "geteuid", "geteuid32", "getgid",
    "getgid32", "getgroups", "getgroups32", "getpgid", "getpgrp", "getpid", "getppid",
    "getpriority", "getresgid", "getresgid32", "getresuid", "getresuid32", "getrlimit", "getrusage",
    "getsid", "gettid", "getuid", "getuid32", "ioprio_get", "ioprio_set", "kill",
    "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "nice", "pause",
    "pidfd_open", "pidfd_send_signal", "ptrace", "rseq", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "rt_sigtimedwait_time64", "rt_tgsigqueueinfo", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
    "sched_getscheduler", "sched_rr_get_interval", "sched_rr_get_interval_time64",
    "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
    "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid", "setfsgid32", "setfsuid",
    "setfsuid32", "setgid", "setgid32", "setgroups", "setgroups32", "setpgid", "setpriority",
    "setregid", "setregid32", "setresgid", "setresgid32", "setresuid", "setresuid32", "setreuid",
    "setreuid32", "setsid", "setuid", "setuid32", "sigaction", "sigaltstack", "signal",
    "sigpending", "sigprocmask", "sigreturn", "sigsuspend", "sysinfo", "tgkill", "time", "times",
    "tkill", "ugetrlimit", "uname", "vfork", "wait4", "waitid", "waitpid",
    /* time; clock_adjtime and friends only read without CAP_SYS_TIME, but are not offered at all */
    "alarm", "clock_getres", "clock_getres_time64", "clock_gettime", "clock_gettime64",
    "clock_nanosleep", "clock_nanosleep_time64", "getitimer", "gettimeofday", "nanosleep",
    "setitimer", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime",
    "timer_gettime64", "timer_settime", "timer_settime64",
    /* sockets, but see the rules for socket() */
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "recv", "recvfrom", "recvmmsg", "recvmmsg_time64", "recvmsg", "send", "sendmmsg", "sendmsg",
    "sendto", "shutdown",
    /* System V and POSIX queues, private to the sandbox's ipc namespace */
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedreceive_time64",
    "mq_timedsend", "mq_timedsend_time64", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd",
    "semctl", "semget", "semop", "semtimedop", "semtimedop_time64",
    /* the rest */
    "getrandom", "ipc", "restart_syscall", NULL};

static const struct syscall_rule rules[] = {
    /* The first ones are not for processes that still have a filter to install. What a program is
     * compiled to comes from one pool of the whole host (net.core.bpf_jit_limit) and is not charged
     * to the sandbox; when the pool is empty, no sandbox starts. EINVAL is what a kernel without
     * filters answers, and programs that would confine themselves go on without. */
    {"seccomp", EINVAL, {{COMPARE_EQUAL, 0, 0, SECCOMP_SET_MODE_FILTER}}},
    NESTING_RULE,
#define N_NESTING 2
    {"clone", 0, {{COMPARE_MASKED_EQUAL, 0, CLONE_NEW_ANY, 0}}},
    /* The flags that are allowed, and not those that are refused: bits that mean nothing to
     * unshare() today become flags of later kernels, and one of these makes a mount namespace. */
    {"unshare", 0, {{COMPARE_MASKED_EQUAL, 0, (uint32_t)~UNSHARE_KNOWN, 0}}},
    /* Flags behind a pointer cannot be filtered; C libraries fall back to clone. */
    ABSENT("clone3"),
    /* Programs that find these probe for them and fall back on ENOSYS only. */
    ABSENT("io_uring_setup"),
    ABSENT("io_uring_enter"),
    ABSENT("io_uring_register"),
    /* Contexts come from one pool of the whole host (fs.aio-max-nr), which one call can empty. */
    ABSENT("io_setup"),
    ABSENT("pidfd_getfd"),
    ABSENT("userfaultfd"),
    ABSENT("statmount"),
    ABSENT("listmount"),
    ABSENT("lsm_get_self_attr"),
    ABSENT("lsm_list_modules"),
    ABSENT("rseq_slice_yield"),
    UNIX_RULE(SOCK_STREAM),
    UNIX_RULE(SOCK_DGRAM),
    UNIX_RULE(SOCK_SEQPACKET),
    SOCKET_RULE(AF_INET, SOCK_STREAM, 0),
    SOCKET_RULE(AF_INET, SOCK_STREAM, IPPROTO_TCP),
    SOCKET_RULE(AF_INET, SOCK_DGRAM, 0),
    SOCKET_RULE(AF_INET, SOCK_DGRAM, IPPROTO_UDP),
    SOCKET_RULE(AF_INET, SOCK_DGRAM, IPPROTO_ICMP),
    SOCKET_RULE(AF_INET6, SOCK_STREAM, 0),
    SOCKET_RULE(AF_INET6, SOCK_STREAM, IPPROTO_TCP),
    SOCKET_RULE(AF_INET6, SOCK_DGRAM, 0),
    SOCKET_RULE(AF_INET6, SOCK_DGRAM, IPPROTO_UDP),
    SOCKET_RULE(AF_INET6, SOCK_DGRAM, IPPROTO_ICMPV6),
    SOCKET_RULE(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
    SOCKET_RULE(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE),
    /* No other family has pairs, but its code would run, and be loaded for that. */
    {"socketpair", 0, {{COMPARE_EQUAL, 0, 0, AF_UNIX}}},
    /* A connection that begins with data is made without connect(), so Landlock does not see it.
     * Programs that try this go on with connect(). */
    {"sendto", EOPNOTSUPP, {{COMPARE_MASKED_EQUAL, 3, MSG_FASTOPEN, MSG_FASTOPEN}}},
    {"sendmsg", EOPNOTSUPP, {{COMPARE_MASKED_EQUAL, 2, MSG_FASTOPEN, MSG_FASTOPEN}}},
    {"sendmmsg", EOPNOTSUPP, {{COMPARE_MASKED_EQUAL, 3, MSG_FASTOPEN, MSG_FASTOPEN}}},
    /* Typing into another process's terminal. */
    {"ioctl", EPERM, {{COMPARE_EQUAL, 1, 0, TIOCSTI}}},
    {"ioctl", EPERM, {{COMPARE_EQUAL, 1, 0, TIOCLINUX}}},
    /* Line disciplines: the kernel would load drivers of modems and serial lines for it. */
    {"ioctl", EPERM, {{COMPARE_EQUAL, 1, 0, TIOCSETD}}},
    /* Programs on sockets: the same pool as that of nested filters. */
    SOCKET_PROGRAM_RULES,
    /* A protocol of the kernel's above TCP, as its TLS: the gateway would read and write through it
     * at a socket that the proxy passes out. */
    {"setsockopt", EPERM, {{COMPARE_EQUAL, 1, 0, IPPROTO_TCP}, {COMPARE_EQUAL, 2, 0, TCP_ULP}}},
    /* 32-bit x86: socket(), socketpair(), setsockopt(), sendto(), sendmsg() and sendmmsg() behind a
     * pointer, past the rules above. */
    {"socketcall", EPERM, {{COMPARE_EQUAL, 0, 0, 1}}},
    {"socketcall", EPERM, {{COMPARE_EQUAL, 0, 0, 8}}},
    {"socketcall", EPERM, {{COMPARE_EQUAL, 0, 0, 11}}},
    {"socketcall", EPERM, {{COMPARE_EQUAL, 0, 0, 14}}},
    {"socketcall", EPERM, {{COMPARE_EQUAL, 0, 0, 16}}},
    {"socketcall", EPERM, {{COMPARE_EQUAL, 0, 0, 20}}},
    /* RLIMIT_CORE stays 1: at any other value, 0 included, a crash can start the host's core dump
     * program. A program that lowers it gets success as its answer. */
    {"setrlimit", SYSCALL_PRETEND, {{COMPARE_EQUAL, 0, 0, RLIMIT_CORE}}},
    {"prlimit64",
     0,
     {{COMPARE_EQUAL, 1, 0, RLIMIT_CORE}, {COMPARE_EQUAL, 2, 0, 0}, {COMPARE_HIGH_EQUAL, 2, 0, 0}}},
    {"prlimit64", SYSCALL_PRETEND, {{COMPARE_EQUAL, 1, 0, RLIMIT_CORE}}},
    {"prlimit64", 0, {{COMPARE_MASKED_EQUAL, 0, 0, 0}}},
    /* PER_LINUX and PER_LINUX32, each also with a release of 2.6, and the query. */
    {"personality", 0, {{COMPARE_EQUAL, 0, 0, 0x0000}}},
    {"personality", 0, {{COMPARE_EQUAL, 0, 0, 0x0008}}},
    {"personality", 0, {{COMPARE_EQUAL, 0, 0, 0x20000}}},
    {"personality", 0, {{COMPARE_EQUAL, 0, 0, 0x20008}}},
    {"personality", 0, {{COMPARE_EQUAL, 0, 0, 0xffffffff}}},
    /* The last one is the keeper's alone. */
    {"ptrace", EPERM, {{COMPARE_MASKED_EQUAL, 0, 0, 0}}},
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))
/* For the tables without the first rules. */
static const char *const nesting[] = {"prctl", "seccomp", NULL};

const char *const filter_building[] = {
    "clone3",  "mount",       "move_mount", "open_tree", "pivot_root", "prctl",   "prlimit64",
    "seccomp", "sethostname", "setns",      "setrlimit", "umount2",    "unshare", NULL,
};

const struct syscall_table filter_sandbox = {
    .allowed = {allowed}, .rules = rules, .n_rules = N_RULES - 1, .compat = true};
const struct syscall_table filter_sandbox_nesting = {.allowed = {allowed, nesting},
                                                     .rules = rules + N_NESTING,
                                                     .n_rules = N_RULES - N_NESTING - 1,
                                                     .compat = true};
/* The image keeper starts programs of others, which need what a tool needs, but trace nothing; its
 * unpacker has a filter of its own. */
const struct syscall_table filter_keeper = {
    .allowed = {allowed, nesting}, .rules = rules + N_NESTING, .n_rules = N_RULES - N_NESTING};
