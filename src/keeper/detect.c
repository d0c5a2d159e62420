/* SPDX-License-Identifier: Apache-2.0 */
/* What a tar is: a root file system, or an image that a tool saved. */
#include <archive.h>
#include <archive_entry.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "keeper/internal.h"

#define LOOK_AT_MAX 100000 /* entries */
#define BLOCK_BYTES (64 * 1024)

/* Names that only one of the kinds has at its top. */
static const struct {
    const char *name;
    enum unpack_kind kind;
} marks[] = {
    {"manifest.json", UNPACK_DOCKER_ARCHIVE},
    {"bin", UNPACK_ROOTFS_TAR},
    {"etc", UNPACK_ROOTFS_TAR},
    {"usr", UNPACK_ROOTFS_TAR},
    {"lib", UNPACK_ROOTFS_TAR},
    {"proc", UNPACK_ROOTFS_TAR},
    {"root", UNPACK_ROOTFS_TAR},
};

/* The first part of a name is the mark's. */
static bool has_mark(const char *path, const char *mark)
{
    size_t len = strlen(mark);
    while (*path == '/' || (path[0] == '.' && path[1] == '/'))
        path++;
    return strncmp(path, mark, len) == 0 && (!path[len] || path[len] == '/');
}

/* `docker save` of today writes an OCI layout with a manifest.json in it: that one comes first. */
static enum unpack_kind look_inside(struct archive *a)
{
    struct archive_entry *entry;
    bool layout = false;
    for (int n = 0; n < LOOK_AT_MAX && archive_read_next_header(a, &entry) == ARCHIVE_OK; n++) {
        const char *path = archive_entry_pathname(entry);
        for (size_t i = 0; path && i < ELEMENTS(marks); i++)
            if (has_mark(path, marks[i].name))
                return marks[i].kind;
        layout = layout || (path && has_mark(path, "oci-layout"));
    }
    return layout ? UNPACK_OCI_ARCHIVE : UNPACK_ROOTFS_TAR;
}

int detect_archive(int fd, enum unpack_kind *ret, struct error *err)
{
    struct archive *a = archive_read_new();
    archive_read_support_format_tar(a);
    archive_read_support_format_empty(a);
    archive_read_support_filter_all(a);
    int r = archive_read_open_fd(a, fd, BLOCK_BYTES);
    if (r == ARCHIVE_OK)
        *ret = look_inside(a);
    else
        error_set(err, ERROR_INVALID, 0, "this is not a tar: %s", archive_error_string(a));
    archive_read_free(a);
    if (r == ARCHIVE_OK && lseek(fd, 0, SEEK_SET) < 0)
        return error_set(err, ERROR_INTERNAL, 0, "the archive cannot be read twice");
    return r == ARCHIVE_OK ? 0 : -1;
}
