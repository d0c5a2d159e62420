/* SPDX-License-Identifier: Apache-2.0 */
/* A whole root file system in one tar. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "image/blob.h"
#include "image/info.h"
#include "image/layers.h"
#include "image/unpack.h"

static int unpack_tar(int tar_fd, int work_fd, struct meter *m, struct image_info *info,
                      struct error *err)
{
    struct unpack_result got;
    _cleanup_close_ int rootfs = layers_make_rootfs(work_fd, err);
    if (rootfs < 0)
        return rootfs;
    int r = unpack_layer(rootfs, tar_fd, m, info, &got, err);
    if (r < 0) {
        layers_drop_rootfs(work_fd);
        return r;
    }
    memcpy(info->digest, got.digest, IMAGE_DIGEST_SIZE);
    return 0;
}

static int hash_tar(int tar_fd, struct meter *m, struct image_info *info, struct error *err)
{
    struct stat st;
    if (fstat(tar_fd, &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, ERROR_INVALID, 0, "the tar is not a file");
    if ((uint64_t)st.st_size > m->options->limits.layer_bytes)
        return error_set(err, ERROR_TOO_LARGE, 0, "the tar is larger than images_max_layer_bytes");
    int r = meter_step(m, "verify", (uint64_t)st.st_size, err);
    if (r < 0)
        return r;
    return blob_hash(tar_fd, "the tar", (uint64_t)st.st_size, m, info->digest, err);
}

int image_from_rootfs_tar(int tar_fd, int work_fd, const struct image_options *o,
                          struct image_info *ret, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    struct meter m;
    meter_init(&m, o, &info);
    m.progress.layer = m.progress.layers = 1;
    int r = work_fd < 0 ? hash_tar(tar_fd, &m, &info, err)
                        : unpack_tar(tar_fd, work_fd, &m, &info, err);
    if (r < 0)
        return r;
    info.layers = xcalloc(2, sizeof(*info.layers));
    info.layers[0] = xstrdup(info.digest);
    image_info_fill(&info);
    *ret = info;
    info = (struct image_info){0};
    return 0;
}
