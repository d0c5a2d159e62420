/* SPDX-License-Identifier: Apache-2.0 */
/* The system calls that a process may make, as data: compiled to BPF by filter.c; that of sandboxes
 * is also written into an OCI config's seccomp section under the same names. What is not in a table
 * answers EPERM; a name this libseccomp does not know for an architecture is skipped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum syscall_compare {
    COMPARE_NONE,
    COMPARE_EQUAL,        /* argument == value */
    COMPARE_MASKED_EQUAL, /* (argument & mask) == value */
    COMPARE_HIGH_EQUAL,   /* (argument >> 32) == value */
};

#define SYSCALL_PRETEND (-1) /* as an error: not carried out, answered with success */

struct syscall_arg {
    enum syscall_compare compare;
    unsigned index;
    uint64_t mask;
    uint64_t value;
};

#define SYSCALL_ARGS_MAX 3

/* A call's rules are tried in order; the first whose arguments all match decides: allowed, or
 * refused with error. When none matches the call is refused with EPERM, or allowed if all its rules
 * are refusals. Comparisons see the low 32 bits, as the kernel
 * does for these arguments; a pointer is compared in two halves. */
struct syscall_rule {
    const char *name;
    int error;
    struct syscall_arg args[SYSCALL_ARGS_MAX];
};

#define SYSCALL_LISTS_MAX 6

struct syscall_table {
    const char *const
        *allowed[SYSCALL_LISTS_MAX]; /* whatever the arguments; each NULL-terminated */
    const struct syscall_rule *rules;
    size_t n_rules;
    bool compat; /* 32-bit calls are filtered alike; otherwise there are none */
};

#define CLONE_NEW_ANY                                                                              \
    ((uint64_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |      \
                CLONE_NEWPID | CLONE_NEWNET))

/* socket(family, type, protocol); the type's upper bits are SOCK_CLOEXEC and SOCK_NONBLOCK. */
#define SOCKET_RULE(family, type, protocol)                                                        \
    {                                                                                              \
        "socket", 0,                                                                               \
        {                                                                                          \
            {COMPARE_EQUAL, 0, 0, family}, {COMPARE_MASKED_EQUAL, 1, 0xf, type},                   \
                {COMPARE_EQUAL, 2, 0, protocol},                                                   \
        }                                                                                          \
    }
#define UNIX_RULE(type)                                                                            \
    {                                                                                              \
        "socket", 0,                                                                               \
        {                                                                                          \
            {COMPARE_EQUAL, 0, 0, AF_UNIX}, {COMPARE_MASKED_EQUAL, 1, 0xf, type},                  \
        }                                                                                          \
    }
#define REFUSE_OPTION(option)                                                                      \
    {                                                                                              \
        "setsockopt", EPERM,                                                                       \
        {                                                                                          \
            {COMPARE_EQUAL, 1, 0, SOL_SOCKET}, {COMPARE_EQUAL, 2, 0, option},                      \
        }                                                                                          \
    }
/* Programs on sockets, of whose compiled form the whole host has one pool. */
#define SOCKET_PROGRAM_RULES                                                                       \
    REFUSE_OPTION(SO_ATTACH_FILTER), REFUSE_OPTION(SO_ATTACH_BPF),                                 \
        REFUSE_OPTION(SO_ATTACH_REUSEPORT_CBPF), REFUSE_OPTION(SO_ATTACH_REUSEPORT_EBPF)
/* A further filter by the older of the two calls. */
#define NESTING_RULE                                                                               \
    {                                                                                              \
        "prctl", EINVAL,                                                                           \
        {                                                                                          \
            {COMPARE_EQUAL, 0, 0, PR_SET_SECCOMP}, {COMPARE_EQUAL, 1, 0, SECCOMP_MODE_FILTER},     \
        }                                                                                          \
    }
/* Answers ENOSYS, whatever the arguments: programs probe for such calls and do without. */
#define ABSENT(name)                                                                               \
    {                                                                                              \
        name, ENOSYS,                                                                              \
        {                                                                                          \
            {                                                                                      \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* What a tool may do, and programs that we start. */
extern const struct syscall_table filter_sandbox;
/* The same where the runner still narrows a tool by a filter of its own (landlock_needs_filter()),
 * which then refuses further ones. */
extern const struct syscall_table filter_sandbox_nesting;
/* Names of the calls that the zygote and its clones make until they are sandboxes, and that the
 * table of sandboxes refuses or looks into. NULL-terminated. */
extern const char *const filter_building[];
extern const struct syscall_table filter_keeper;  /* the image keeper and the programs it starts */
extern const struct syscall_table filter_control; /* the control plane */
extern const struct syscall_table filter_interceptor;  /* what ends TLS for one sandbox */
extern const struct syscall_table filter_gateway;      /* what dials out */
extern const struct syscall_table filter_kube;         /* the broker of a cluster */
extern const struct syscall_table filter_unpacker;     /* what reads archives of images */
extern const struct syscall_table filter_outlet;       /* what passes fetches of images on */
extern const struct syscall_table filter_net;          /* links and rules of networks by address */
extern const struct syscall_table filter_fence_keeper; /* what ends a sandbox of landlock's */
extern const struct syscall_table filter_launcher;     /* what waits for an OCI container's end */
extern const struct syscall_table filter_broker;       /* what makes a container by an engine */
extern const struct syscall_table filter_broker_serving; /* the same once its container runs */
