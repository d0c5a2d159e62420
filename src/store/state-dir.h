/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory: DIR/lock (one daemon at a time), DIR/control (the control plane's, its
 * owner), DIR/images (the image keeper's) and DIR/warden. All ways out work through descriptors,
 * because the warden no longer sees paths. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct error;

struct state_dir {
    char *path, *control_path, *warden_path, *images_path;
    int fd;         /* of path */
    int control_fd; /* O_PATH */
    int images_fd;
    int lock_fd;
    int parent_fd; /* of a temporary one, to remove it from */
    bool temporary;
};

#define STATE_DIR_INIT                                                                             \
    {                                                                                              \
        .fd = -1, .control_fd = -1, .images_fd = -1, .lock_fd = -1, .parent_fd = -1                \
    }

/* path: NULL for the default place, or for a private temporary directory when temporary is set.
 * DIR/control is given to uid and gid when we are root, (uid_t)-1 leaves it as it is. DIR/images is
 * left to state_dir_make_images(). */
int state_dir_open(struct state_dir *s, const char *path, bool temporary, uid_t uid, gid_t gid,
                   struct error *err);
/* DIR/images, given to uid when we are root. */
int state_dir_make_images(struct state_dir *s, uid_t uid, struct error *err);
/* Lets go of the lock; a temporary directory is removed with all that is in it. */
void state_dir_close(struct state_dir *s);
