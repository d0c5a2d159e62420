/* SPDX-License-Identifier: Apache-2.0 */
/* How the control plane gives up its rights, in stages that are called in this order. Each returns
 * 0 or negative with err set; a caller that meets an error must not go on. Single-threaded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct error;

/* Used when the user of the config key `user` does not exist: ids that no other user has. */
#define DROP_CONTROL_UID 64213
#define DROP_PROCESS_UID 64215 /* the process runtime's commands: a uid that no other user has */
#define DROP_GATEWAY_UID 64214
#define DROP_KEEPER_UID  64216 /* and the two after it: root, user and nobody of images */

#define DROP_STATE_PATH "/state" /* where drop_root() shows the state subdirectory */

/* What a private root shows, read-only: path, at target (NULL: the same), where it exists. */
struct drop_kept {
    const char *path, *target;
    bool directory, device;
    bool programs; /* they may be executed */
};
struct drop_view {
    const struct drop_kept *kept;
    size_t n_kept;
    const char *state_path; /* shown at state_target, and the only place to write to */
    int state_fd;           /* must be the same directory */
    const char *state_target;
    int (*fill)(const struct drop_view *v, struct error *err); /* optional: more, below "." */
    void *data;
};
int drop_root_view(const struct drop_view *v, struct error *err);
/* Root: a private, read-only root that holds the state subdirectory, resolver and CA files,
 * /dev/null and /dev/urandom. state_fd must be the directory that state_path names. */
int drop_root(const char *state_path, int state_fd, struct error *err);
/* Root becomes another user without groups. Then every user gives up all capabilities, and the ways
 * to get them again. */
int drop_identity(bool privileged, uid_t uid, gid_t gid, struct error *err);
/* No new privileges, no core dump, not to be traced; killed when the warden (parent) dies. */
int drop_process(pid_t parent, struct error *err);
int drop_limits(uint64_t open_files, struct error *err);
/* Landlock: files below state_path, reading the resolver and CA files, no TCP connection to
 * anywhere, no signal and no abstract socket to other processes. As far as the kernel has it. */
int drop_files(const char *state_path, struct error *err);
/* The gateway's: reading what name lookup needs, nothing else of the file system; TCP stays. */
int drop_gateway_files(struct error *err);
/* The image keeper's: files below state_target, links among them, what the view shows; TCP stays.
 */
int drop_keeper_files(const struct drop_view *v, struct error *err);
/* seccomp: the calls of that process's table (src/filter/filter-own.c) and no others. */
int drop_control_syscalls(struct error *err);
int drop_gateway_syscalls(struct error *err);
/* The keeper starts programs: those of a tool in a sandbox, without tracing. */
int drop_keeper_syscalls(struct error *err);
/* The bounding set alone, but for a mask, so that no later execve() or namespace gives them back.
 */
int drop_bounding_set(uint64_t keep, struct error *err);
/* All capabilities but these (a mask), for good; ambient ones too. */
int drop_capabilities_but(uint64_t keep, struct error *err);
