/* SPDX-License-Identifier: Apache-2.0 */
/* Disks of sandboxes that do not fit into memory: ext4 images on loop devices. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "warden/ledger.h"

struct disk_job;
struct watcher;

struct disk_maker {
    bool usable; /* root, loop devices and mkfs.ext4 are there */
    int loop_control_fd, dev_fd, state_fd, host_ns_fd;
    uint32_t max_templates;
    char instance[64];
    struct list jobs; /* whose helpers were not reaped yet */
};

struct disk_request {
    uint64_t bytes, inodes, serial;
    struct ledger_claim claim;   /* of disk_image_bytes() */
    uint32_t runner_id, tool_id; /* owners of its directories, as the host sees them */
};

/* mount_fd: the mounted image, detached, now the callee's; or -errno with the step that failed.
 * image_fd: the image itself, the callee's too, whose claim is still to be counted; -1: it has all
 * of its blocks. */
typedef void (*disk_done_fn)(int mount_fd, int image_fd, const char *step, void *data);

/* The size of the image for a disk of so many bytes. */
uint64_t disk_image_bytes(uint64_t bytes);

/* Opens what is needed later; to be called while the host's /dev is visible. */
void disk_maker_open(struct disk_maker *m, int state_fd, uint32_t max_templates,
                     const char *instance);
/* Ends helpers that still work, with what they made. */
void disk_maker_close(struct disk_maker *m);
/* Formats (once a size), copies, attaches and mounts an image in a helper process; fn is called
 * from the loop. NULL with errno. */
struct disk_job *disk_job_start(struct disk_maker *m, struct watcher *watcher,
                                const struct disk_request *request, disk_done_fn fn, void *data);
/* Gives up: fn will not be called, the helper's work is thrown away, the file that it was at too.
 * job may be NULL. */
void disk_job_cancel(struct disk_job *job);
