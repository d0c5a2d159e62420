/* SPDX-License-Identifier: Apache-2.0 */
/* Pulls: from a registry, from a host path below images_allow, or what came with the daemon. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "keeper/internal.h"
#include "keeper/keeper-proto.h"
#include "keeper/reference.h"

/* --- from a registry */

static int pull_reference(struct worker *w, const char *text, const char *policy, struct error *err)
{
    char digest[IMAGE_DIGEST_SIZE];
    _cleanup_reference_ struct reference ref = {0};
    int r = reference_parse(text, w->o->config.default_registry, &ref, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *full = reference_format(&ref);
    if (!reference_is_listed(&ref, w->o->config.registries))
        return error_set(err, strcmp(policy, "always") == 0 ? ERROR_DENIED : ERROR_NOT_FOUND, 0,
                         "there is no image '%.200s' here, and the registry %.100s is not in "
                         "images_registries: nothing is fetched from it",
                         text, ref.registry);
    _cleanup_close_ int dir = -1;
    r = fetch_image(w, &ref, digest, &dir, err);
    if (r < 0)
        return r;
    if (dir < 0) {
        r = image_store_name(w->store, full, digest, err);
        if (r < 0)
            return r;
        return worker_finish(w, digest, false, err);
    }
    _cleanup_image_info_ struct image_info info = {0};
    r = unpack_image(w, UNPACK_SKOPEO_DIR, dir, NULL, &info, err);
    if (r < 0)
        return r;
    if (strcmp(info.digest, digest) != 0)
        return error_set(
            err, ERROR_DENIED, 0,
            "the registry gave an image with digest %.16s…, not %.16s… as it said before",
            info.digest, digest);
    r = worker_commit(w, &info, full, full, err);
    if (r < 0)
        return r;
    return worker_finish(w, digest, true, err);
}

/* --- from a host path */

static int openat_beneath(int dir, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, dir, *path ? path : ".", &how, sizeof(how));
    return fd < 0 ? -errno : fd;
}

/* A path below one of images_allow, opened there and nowhere else. */
static int open_allowed(const struct worker *w, const char *path, struct error *err)
{
    for (size_t i = 0; w->o->config.allow && w->o->config.allow[i]; i++) {
        const char *rest = path_is_clean(path) ? path_below(w->o->config.allow[i], path) : NULL;
        if (!rest)
            continue;
        _cleanup_free_ char *at = xasprintf("%s/%zu", w->o->allow_dir, i);
        _cleanup_close_ int dir = open(at, O_PATH | O_DIRECTORY | O_CLOEXEC);
        int fd = dir < 0 ? -errno : openat_beneath(dir, rest, O_RDONLY);
        if (fd < 0)
            return error_set(err, fd == -ENOENT ? ERROR_NOT_FOUND : ERROR_DENIED, -fd,
                             "image at '%.200s'", path);
        return fd;
    }
    return error_set(err, ERROR_DENIED, 0, "host path '%.200s' is not under images_allow", path);
}

static const struct {
    const char *prefix;
    enum unpack_kind kind;
    bool directory, named; /* a ":ref" may follow the path */
} transports[] = {
    {"oci:", UNPACK_LAYOUT, true, true},
    {"docker-archive:", UNPACK_DOCKER_ARCHIVE, false, true},
    {"oci-archive:", UNPACK_OCI_ARCHIVE, false, true},
    {"rootfs-tar:", UNPACK_ROOTFS_TAR, false, false},
    {"dir:", UNPACK_DIR, true, false},
};

static int pull_path(struct worker *w, size_t transport, const char *text, struct error *err)
{
    struct stat st;
    _cleanup_free_ char *path = xstrdup(text + strlen(transports[transport].prefix));
    char *colon = transports[transport].named ? strchr(path, ':') : NULL;
    if (colon)
        *colon = 0;
    _cleanup_close_ int fd = open_allowed(w, path, err);
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 ||
        (transports[transport].directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode)))
        return error_set(err, ERROR_INVALID, 0, "'%.200s' is not a %s", path,
                         transports[transport].directory ? "directory" : "file");
    int r = worker_begin(w, err);
    if (r < 0)
        return r;
    return worker_unpack(w, transports[transport].kind, fd, colon ? colon + 1 : NULL, text, text,
                         err);
}

/* --- the one that comes with the daemon */

static int pull_default(struct worker *w, struct error *err)
{
    if (w->o->default_fd < 0)
        return error_set(err, ERROR_NOT_FOUND, 0,
                         "there is no default image: it is made by scripts/default-image.sh, and "
                         "'sbx image build-from-tar' gives any tar that name");
    int r = worker_begin(w, err);
    if (r < 0)
        return r;
    return worker_unpack(w, UNPACK_AUTO, w->o->default_fd, NULL, KEEPER_DEFAULT, KEEPER_DEFAULT,
                         err);
}

int worker_pull(struct worker *w, const json_t *request, struct error *err)
{
    const char *text = json_string_value(json_object_get(request, "image"));
    const char *policy = json_string_value(json_object_get(request, "policy"));
    _cleanup_image_info_ struct image_info info = {0};
    if (!text || !policy || strlen(text) > KEEPER_IMAGE_MAX)
        return error_set(err, ERROR_INVALID, 0, "'image' is a reference of at most %d bytes",
                         KEEPER_IMAGE_MAX);
    w->asked = text;
    int r = keeper_find(w->store, w->o, text, &info, err);
    bool ours = strcmp(text, KEEPER_DEFAULT) == 0;
    bool again = ours ? r >= 0 && keeper_default_is_old(w->o, &info)
                      : strcmp(policy, "always") == 0 && !keeper_is_local(text);
    if (r >= 0 && !again)
        return worker_finish(w, info.digest, false, err);
    if (r < 0 &&
        (err->code != ERROR_NOT_FOUND || keeper_is_local(text) || strcmp(policy, "never") == 0))
        return r;
    error_clear(err);
    if (ours)
        return pull_default(w, err);
    for (size_t i = 0; i < ELEMENTS(transports); i++)
        if (strncmp(text, transports[i].prefix, strlen(transports[i].prefix)) == 0)
            return pull_path(w, i, text, err);
    return pull_reference(w, text, policy, err);
}
