/* SPDX-License-Identifier: Apache-2.0 */
/* From a source to an image in the work directory, unpacked by a process whose word is worth
 * nothing (unpacker.h). The worker finds out itself what the image is:
 *
 *   1. An archive is taken apart by one unpacker. A tar that is the root file system stays whole.
 *   2. The worker reads the source, or those parts: it hashes every byte that the digest stands for
 *      and reads the configuration, as JSON that has that digest.
 *   3. A second unpacker, which may not write to the source, makes the root file system.
 *   4. The worker walks what came of it, counts it, and refuses what no image may hold. A
 *      directory's digest is of this walk.
 *
 * So an archive that takes over the unpacker decides what is in its own image, as it could anyhow,
 * and not under which digest, how large it says it is, or what its configuration says. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/below.h"
#include "image/tree.h"
#include "keeper/unpacker.h"

#define PARTS_DIR "parts"

static const char *const kinds[] = {
    [UNPACK_AUTO] = "auto",
    [UNPACK_ROOTFS_TAR] = "rootfs-tar",
    [UNPACK_DOCKER_ARCHIVE] = "docker-archive",
    [UNPACK_OCI_ARCHIVE] = "oci-archive",
};

int unpack_kind_parse(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(kinds); i++)
        if (strcmp(kinds[i], name) == 0)
            return (int)i;
    return -1;
}

int unpack_source(enum unpack_kind kind, int source, const char *ref, int work,
                  const struct image_options *o, struct image_info *ret, struct error *err)
{
    switch (kind) {
    case UNPACK_ROOTFS_TAR:
        return image_from_rootfs_tar(source, work, o, ret, err);
    case UNPACK_PARTS:
        return image_from_parts(source, work, o, ret, err);
    case UNPACK_LAYOUT:
        return image_from_layout(source, ref, work, o, ret, err);
    case UNPACK_SKOPEO_DIR:
        return image_from_skopeo_dir(source, work, o, ret, err);
    case UNPACK_DIR:
        return image_from_dir(source, work, o, ret, err);
    default:
        return error_set(err, ERROR_INTERNAL, 0, "the image is of a kind that cannot be unpacked");
    }
}

static int on_progress(void *arg, const struct image_progress *p)
{
    struct worker *w = arg;
    worker_progress(w, p);
    return clock_mono_ms() > w->deadline_ms;
}

/* What an unpacker says an archive is decides only how it is looked at: whatever it is, the worker
 * hashes it. */
static int take_apart(struct worker *w, enum unpack_kind *kind, int source, const char *ref,
                      int *ret_parts, struct error *err)
{
    struct unpacker_record result;
    _cleanup_close_ int parts = fd_enter_dir_at(image_work_dir_fd(w->work), PARTS_DIR, 0700);
    if (parts < 0)
        return error_set(err, ERROR_INTERNAL, -parts, "make a directory for an archive's parts");
    const struct unpacker_task t = {
        .kind = *kind, .take_apart = true, .source = source, .target = parts, .ref = ref};
    int r = unpacker_run(w, &t, &result, err);
    if (r < 0)
        return r;
    if (*kind != UNPACK_AUTO && result.kind != *kind)
        return error_set(err, ERROR_INTERNAL, EPROTO, "the unpacker took another archive apart");
    *ret_parts = fd_steal(&parts);
    switch (result.kind) {
    case UNPACK_DOCKER_ARCHIVE:
        *kind = UNPACK_PARTS;
        return 0;
    case UNPACK_OCI_ARCHIVE:
        *kind = UNPACK_LAYOUT;
        return 0;
    case UNPACK_ROOTFS_TAR:
        fd_close(ret_parts);
        *kind = UNPACK_ROOTFS_TAR;
        return 0;
    default:
        return error_set(err, ERROR_INTERNAL, EPROTO, "the unpacker names no kind of archive");
    }
}

static bool is_archive(enum unpack_kind kind)
{
    return kind == UNPACK_AUTO || kind == UNPACK_DOCKER_ARCHIVE || kind == UNPACK_OCI_ARCHIVE;
}

static int unpack_whole(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                        struct image_info *info, struct error *err)
{
    const struct image_options o = {
        .limits = w->o->config.limits, .on_progress = on_progress, .arg = w};
    struct unpacker_record result;
    bool by_walk = kind == UNPACK_DIR;
    int r = by_walk ? 0 : unpack_source(kind, source, ref, -1, &o, info, err);
    if (r < 0)
        return r;
    const struct unpacker_task t = {.kind = kind,
                                    .source = source,
                                    .target = image_work_fd(w->work),
                                    .ref = ref,
                                    .digest = by_walk ? NULL : info->digest};
    r = unpacker_run(w, &t, &result, err);
    if (r < 0)
        return r;
    info->skipped = result.skipped;
    return image_tree_check(image_work_fd(w->work), by_walk, &o, info, err);
}

int unpack_image(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                 struct image_info *ret, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    _cleanup_close_ int parts = -1;
    int r = is_archive(kind) ? take_apart(w, &kind, source, ref, &parts, err) : 0;
    if (r >= 0)
        r = unpack_whole(w, kind, parts >= 0 ? parts : source, ref, &info, err);
    if (r < 0 && clock_mono_ms() > w->deadline_ms) {
        error_clear(err);
        return worker_too_late(w, err);
    }
    if (r < 0)
        return r;
    *ret = info;
    info = (struct image_info){0};
    return 0;
}
