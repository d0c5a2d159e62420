/* SPDX-License-Identifier: Apache-2.0 */
/* What goes above an image, for the code that mounts the two as one.
 *
 * An image is hostile: any path in it may be a link, a file or a device. Nothing is ever mounted on
 * or written through what it brought: before there is an overlay, every place that something goes
 * to is made as a real directory above, which hides whatever is below of another kind. Places that
 * a caller asked for are refused instead, by name, where they would hide something. */

#include <stddef.h>
#include <sys/types.h>

/* What goes above an image before the two become one. */
struct image_upper {
    uid_t root_id, tool_id;     /* as the caller sees them */
    const char *const *targets; /* of the caller's mounts */
    size_t n_targets;
    int authority_fd; /* a certificate to add to those that the image's programs trust; -1: none */
    char step[160];   /* set on failure: which step, and at what */
};
/* Fills the directory that goes above: our places, the caller's, and who is who. */
int image_upper_fill(struct image_upper *u, int lower_fd, int upper_fd);

/* Mounts the overlay of these three directories, which must be plain paths of ours, with the rights
 * of the caller. */
int image_mount_overlay(const char *lower, const char *upper, const char *work, const char *target,
                        const char *options);
