/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that an OCI runtime builds: mas-oci, the launcher.
 *
 * Theory of operation. The warden clones a launcher into a pid and a mount namespace of its own, as
 * it clones a blank, has it execute mas-oci, and talks to it with the same order (builder/child.h).
 * The launcher has a copy of the warden's template root; in it, it makes a bundle (root, disk,
 * config.json) and a view of the control groups with one version only, runs the OCI runtime
 * detached, and waits for the container. Everything the runtime leaves behind (its state directory,
 * mounts, processes) lives in those two namespaces and ends with the launcher, and the launcher
 * ends with the warden: there is nothing to sweep but control groups, which are the warden's own.
 * Limits are enforced by the warden's group, which holds the launcher, the runtime's helpers and
 * the container alike.
 *
 * config.json is written here from the order; no byte of it comes from a caller but the paths that
 * plan_check() has seen. There are no hooks. */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "builder/child.h"
#include "builder/flavour.h"
#include "oci/config.h"
#include "proto/oci.h"

struct image_upper;

/* Where the launcher puts things, in its own mount namespace; more in config.h. */
#define OCI_IMAGE      OCI_DIR "/image"
#define OCI_BUNDLE     OCI_DIR "/bundle"
#define OCI_STATE      OCI_DIR "/state"
#define OCI_PROC       OCI_DIR "/proc"
#define OCI_PID_PATH   OCI_DIR "/pid"
#define OCI_KVM_DEVICE OCI_DIR "/kvm" /* for a runtime whose platform needs it */

struct launcher {
    const struct oci_start *start;
    struct sock_fprog filter; /* the warden's own, of sandboxes */
    int run_fd;               /* the host's /run, or -1 */
    struct child_order order;
    struct child_trees trees;
};

/* --- launch.c: never returns. */
void launcher_main(struct launcher *l) __attribute__((noreturn));
const struct oci_flavour *launcher_flavour(const struct launcher *l);

/* --- mount.c: steps that are about mounts; 0 or -errno. */
int oci_mount_base(bool cgroup_v2, char *const *controllers);
int oci_mount_disk(const struct child_order *o, int disk_fd, uint32_t runner_id, uint32_t tool_id);
int oci_mount_root(const struct child_order *o);
/* In place of it, for a sandbox with an image; after the disk. The ids are as in oci_config. */
int oci_mount_image(const struct child_order *o, int image_fd, struct image_upper *u,
                    const uint32_t ids[3]);
int oci_mount_host_dirs(const struct child_order *o, const int *mount_fds, uint32_t tool_id);
/* Before a runtime starts that takes the launcher's network over. */
int oci_mount_over_settings(void);

/* --- overlay.c: plain paths of ours, and the sandbox's ids on the host: whose rights it has. */
struct oci_overlay {
    const char *lower, *upper, *work;
    uint32_t runner_id, tool_id, nobody_id;
};
int oci_overlay_mount(const struct oci_overlay *o, const char *target);

/* --- run.c: the runtime's program, on its way. */
struct oci_run {
    pid_t program;     /* 0 once it has ended successfully */
    unsigned platform; /* 1 and its index, where there is a choice; else 0 */
};
/* Starts it, on the platform that worked before or the best that works now, and waits until it has
 * made the container or, with a socket to dial, until a connection came. Never returns where that
 * fails.
 */
void oci_run(struct launcher *l, int listen_fd, struct oci_run *ret);
/* Waits for its end, if that is not past. */
bool oci_run_finish(struct oci_run *r);
/* The status of a child, once that has ended; others are reaped on the way. */
int oci_wait_for(pid_t pid);

/* --- link.c: the socket at OCI_LINK listens, for the runner's user alone. A descriptor or -errno.
 */
int oci_link_listen(uint32_t runner_id);
/* Waits for one connection and passes it to the warden. 0 or -errno, which is -ECHILD at the end of
 * the process behind pidfd. */
int oci_link_pass(int listen_fd, int pidfd, int channel_fd);

/* --- platform.c: what gVisor's kernel stands on here. To find out takes long where a platform is
 * there and does not work, so what was found is kept for other launchers in the host's /run until
 * its next boot, beside the program's size and time. */
/* 1 and the platform's index; 0: nothing is known of this program. */
unsigned platform_load(int run_fd, const char *program, const char *const *platforms);
void platform_save(int run_fd, const char *program, const char *platform);

/* --- version.c: asks a program, without rights from then on, and tells the warden. */
int version_report(const struct oci_start *start, int run_fd);
