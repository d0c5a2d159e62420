/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "image/below.h"
#include "image/blob.h"
#include "image/unpack.h"

void layers_init(struct layers *l, size_t count)
{
    l->items = xcalloc(count + 1, sizeof(*l->items));
    l->count = count;
    for (size_t i = 0; i < count; i++)
        l->items[i].fd = -1;
}

void layers_done(struct layers *l)
{
    for (size_t i = 0; i < l->count; i++)
        fd_close(&l->items[i].fd);
    free(l->items);
    *l = (struct layers){0};
}

int layers_make_rootfs(int work_fd, struct error *err)
{
    if (mkdirat(work_fd, "rootfs", 0755) < 0)
        return error_set(err, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, errno,
                         "make the root file system");
    int fd = openat(work_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fchmod(fd, 0755) < 0) { /* past the umask */
        int r = error_set(err, ERROR_INTERNAL, errno, "open the root file system");
        fd_close(&fd);
        return r;
    }
    return fd;
}

void layers_drop_rootfs(int work_fd)
{
    below_remove(work_fd, "rootfs");
}

int layers_verify(struct layers *l, struct meter *m, struct error *err)
{
    m->progress.layers = l->count;
    for (size_t i = 0; i < l->count; i++) {
        struct layer *layer = &l->items[i];
        if (!*layer->digest)
            continue;
        m->progress.layer = i + 1;
        int r = meter_step(m, "verify", layer->size, err);
        if (r == 0)
            r = blob_verify(layer->fd, layer->digest, layer->size, m, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int compare_digests(const char *want, const char *got, const char *what, size_t number,
                           struct error *err)
{
    if (!*want || !strcmp(want, got))
        return 0;
    return error_set(err, ERROR_INVALID, EBADMSG,
                     "layer %zu is tampered with: its %s is sha256:%s, not sha256:%s", number, what,
                     got, want);
}

static int unpack_one(struct layers *l, size_t i, int rootfs, struct meter *m,
                      struct image_info *info, struct error *err)
{
    struct layer *layer = &l->items[i];
    struct unpack_result got;
    m->progress.layer = i + 1;
    int r = meter_step(m, "unpack", layer->size, err);
    if (r < 0)
        return r;
    r = unpack_layer(rootfs, layer->fd, m, info, &got, err);
    if (r < 0) {
        error_prefix(err, "layer %zu", i + 1);
        return r;
    }
    r = compare_digests(layer->digest, got.digest, "digest", i + 1, err);
    if (r < 0)
        return r;
    return compare_digests(layer->diff_id, got.diff_id, "diff id", i + 1, err);
}

int layers_unpack(struct layers *l, int work_fd, struct meter *m, struct image_info *info,
                  struct error *err)
{
    int r = layers_verify(l, m, err);
    if (r < 0)
        return r;
    _cleanup_close_ int rootfs = layers_make_rootfs(work_fd, err);
    if (rootfs < 0)
        return rootfs;
    for (size_t i = 0; r == 0 && i < l->count; i++)
        r = unpack_one(l, i, rootfs, m, info, err);
    if (r < 0)
        layers_drop_rootfs(work_fd);
    return r;
}
