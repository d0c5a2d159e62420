/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of sandboxes, version 1 or 2, whichever this host lets us use.
 *
 * All groups of one warden live below "<prefix>-<pid>-<start time>" in each hierarchy, so that a
 * sweep can tell groups of dead wardens from those of living ones. A group is made ahead of its
 * sandbox with no limits; limits are written when the sandbox's plan is known. Everything is
 * addressed by directory descriptors: the warden has no cgroupfs in its mount namespace. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "builder/cgroup-mounts.h"
#include "builder/disks.h"
#include "proto/plan.h"

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_FREEZER,
    CGROUP_CPUACCT,
    CGROUP_IO,
    CGROUP_DEVICES,
    _CGROUP_MAX,
};

#define CGROUP_NAME_SIZE 64

struct cgroup_driver;

struct cgroup_root {
    const struct cgroup_driver *driver; /* NULL: no usable hierarchy */
    char instance[CGROUP_NAME_SIZE];
    int parent_fd[_CGROUP_MAX]; /* where our instance's directory is; v2 uses slot 0 only */
    int fd[_CGROUP_MAX];        /* our instance's directory */
    bool has[_CGROUP_MAX];
    enum cgroup_controller shares[_CGROUP_MAX]; /* v1: whose directory, where has but no fd */
    struct disks disks;                         /* that io limits cover */
};

/* Holds no descriptors: a thousand sandboxes would use up the warden's. */
struct cgroup {
    const struct cgroup_root *root; /* NULL: none */
    char name[CGROUP_NAME_SIZE];
    bool in[_CGROUP_MAX]; /* slots of hierarchies it is, or may be, in */
};

struct cgroup_driver {
    enum mechanism mechanism;
    /* Finds hierarchies and makes the instance's directories; -ENOENT when there is nothing to use.
     */
    int (*open)(struct cgroup_root *root, const char *prefix);
    /* May be NULL; see cgroup_root_leave(). */
    void (*leave)(const struct cgroup_root *root);
    int (*limit)(struct cgroup *cg, enum wall wall, const struct limits *limits);
    int (*limit_disk)(struct cgroup *cg, dev_t disk, uint64_t bytes_per_s);
    void (*read_stats)(const struct cgroup *cg, struct plan_reply *ret);
    uint64_t (*oom_kills)(const struct cgroup *cg);
    int (*freeze)(struct cgroup *cg, bool on);
};

extern const struct cgroup_driver cgroup_v1, cgroup_v2;

/* Never fails: a host without usable cgroups gives a root without driver. */
void cgroup_root_open(struct cgroup_root *root, const char *prefix);
/* Undoes what was done to the group the warden was started in, once the directories are gone; for
 * the janitor. */
void cgroup_root_leave(const struct cgroup_root *root);
/* Closes descriptors; the janitor has removed the directories. */
void cgroup_root_close(struct cgroup_root *root);
/* What enforces this wall, or MECHANISM_NONE. */
enum mechanism cgroup_root_enforces(const struct cgroup_root *root, enum wall wall);

/* Names a group that is still to be made; an empty one when the host has none. devices: in that
 * controller too, which nothing of ours uses, but an OCI runtime insists on. */
void cgroup_init(struct cgroup *cg, const struct cgroup_root *root, uint64_t serial, bool devices);
/* Version 2, in the warden: makes the group and opens it for CLONE_INTO_CGROUP. Otherwise *ret_fd
 * is -1, and the child has to join by itself. */
int cgroup_open_for_clone(const struct cgroup *cg, int *ret_fd);
/* Version 1, in the child: makes the group and moves itself in (see janitor.h for why the child).
 */
int cgroup_join(const struct cgroup *cg);
/* Either version, in a child that was not cloned into it. */
int cgroup_enter(const struct cgroup *cg);
/* The same in two steps, between which the child may give up the rights that the first one takes:
 * makes all, joins all but the memory's, and opens what it takes to join that (close-on-exec; -1:
 * nothing to join); and does. */
int cgroup_enter_early(const struct cgroup *cg, int *ret_seat);
int cgroup_sit(int *seat);
/* Writes one wall's limit. -EOPNOTSUPP when this host cannot enforce it. */
int cgroup_limit(struct cgroup *cg, enum wall wall, const struct limits *limits);
/* Limits a disk of this group's alone: the one behind a descriptor's file system. -EOPNOTSUPP when
 * it is neither on a disk nor a tmpfs. */
int cgroup_limit_disk(struct cgroup *cg, int fd, const struct limits *limits);
void cgroup_read_stats(const struct cgroup *cg, struct plan_reply *ret);
/* How many of its processes the kernel has killed for want of memory. */
uint64_t cgroup_oom_kills(const struct cgroup *cg);
int cgroup_freeze(struct cgroup *cg, bool on);
/* 0 once all directories are gone; -EBUSY while the kernel still counts a dead process. */
int cgroup_remove(struct cgroup *cg);

/* For drivers: a file's path below the instance's directory. */
#define CGROUP_PATH_SIZE (CGROUP_NAME_SIZE + 64)
const char *cgroup_path(const struct cgroup *cg, const char *file, char path[CGROUP_PATH_SIZE]);
/* For drivers: one file of a group, in the hierarchy of slot i. */
int cgroup_write(const struct cgroup *cg, int i, const char *file, const char *text);
/* A decimal number from a file of one line, or after "key " on a line of its own. */
int cgroup_read_number(const struct cgroup *cg, int i, const char *file, const char *key,
                       uint64_t *ret);
