/* SPDX-License-Identifier: Apache-2.0 */
/* An image as a disk, for virtual machines: a file system in a file beside the tree that it is a
 * copy of. It is made once, before the image becomes visible, and never changes. mke2fs reads the
 * tree as the owner of all of its files, which the keeper is, and may write to nothing but the
 * image that is being made. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "keeper/internal.h"
#include "keeper/program.h"

#define COMPLAINT_MAX    4096
#define SPARE_INODES     1024
#define INODE_BYTES      256
#define SPARE_BYTES      (16ull << 20)
#define FILE_SYSTEM_PART 16 /* one in so many bytes is for what leads to the files */

static int make_file(const struct worker *w, uint64_t bytes, struct error *err)
{
    int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    _cleanup_close_ int fd = openat(image_work_fd(w->work), IMAGE_DISK_NAME, flags, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "make a disk of the image");
    return 0;
}

int disk_make(struct worker *w, struct image_info *info, struct error *err)
{
    char inodes[32];
    struct stat st;
    uint64_t files = info->files + SPARE_INODES;
    uint64_t bytes =
        info->size_bytes + info->size_bytes / FILE_SYSTEM_PART + files * INODE_BYTES + SPARE_BYTES;
    _cleanup_free_ char *dir = xasprintf("%s/tmp/%s/image", w->o->dir, image_work_name(w->work));
    snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)files);
    const char *argv[] = {"mke2fs", "-q",           "-F", "-t",   "ext4", "-m",     "0",
                          "-O",     "^has_journal", "-N", inodes, "-d",   "rootfs", IMAGE_DISK_NAME,
                          NULL};
    char *env[] = {(char *)"MKE2FS_DEVICE_SECTSIZE=512", NULL};
    struct program p = {.argv = (char *const *)argv,
                        .env = env,
                        .dir = dir,
                        .keeps_user = true,
                        .file_bytes = bytes,
                        .out = STRBUF_INIT(COMPLAINT_MAX),
                        .err = STRBUF_INIT(COMPLAINT_MAX)};
    int r;
    if ((r = worker_claim(w, bytes, err)) >= 0 && (r = make_file(w, bytes, err)) >= 0)
        r = program_run(w, &p, err);
    worker_claim_left(w, 0);
    if (r > 0)
        r = error_set(err, ERROR_INVALID, 0, "no disk can be made of the image: %.*s",
                      (int)(p.err.len < 300 ? p.err.len : 300), p.err.data ? p.err.data : "");
    if (r == 0 && fstatat(image_work_fd(w->work), IMAGE_DISK_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0)
        info->size_bytes += (uint64_t)st.st_blocks * 512;
    strbuf_done(&p.out);
    strbuf_done(&p.err);
    return r;
}
