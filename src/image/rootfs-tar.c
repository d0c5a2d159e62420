/* A whole root file system in one tar. */
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "image/info.h"
#include "image/layers.h"
#include "image/unpack.h"

int image_from_rootfs_tar(int tar_fd, int work_fd, const struct image_options *o,
                          struct image_info *ret, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    struct unpack_result got;
    struct meter m;
    meter_init(&m, o, &info);
    m.progress.layer = m.progress.layers = 1;
    _cleanup_close_ int rootfs = layers_make_rootfs(work_fd, err);
    if (rootfs < 0)
        return rootfs;
    int r = unpack_layer(rootfs, tar_fd, &m, &info, &got, err);
    if (r < 0) {
        layers_drop_rootfs(work_fd);
        return r;
    }
    memcpy(info.digest, got.digest, IMAGE_DIGEST_SIZE);
    info.layers = xcalloc(2, sizeof(*info.layers));
    info.layers[0] = xstrdup(got.diff_id);
    image_info_fill(&info);
    *ret = info;
    info = (struct image_info){0};
    return 0;
}
