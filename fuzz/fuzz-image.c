/* SPDX-License-Identifier: Apache-2.0 */
/* The image library on hostile bytes. The first byte says what they are: layers over one another, a
 * docker-archive, or JSON of a registry. Whatever comes of it, nothing beside the root changes,
 * what is in it is what image.h promises, and all of it can be removed. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "fuzz/checksums.h"
#include "image/below.h"
#include "image/image.h"
#include "image/info.h"
#include "image/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char separator[] = "=====LAYER=====";

/* beside: a directory that must stay as it is; its neighbour is where things are unpacked. */
static int base = -1, beside = -1;
static struct stat beside_was;

static const struct image_options options = {
    .limits = {.bytes = 1 << 20,
               .files = 300,
               .path_bytes = 1000,
               .depth = 20,
               .layers = 4,
               .layer_bytes = 1 << 20,
               .ratio = 200},
};

static void expect(bool good)
{
    if (!good)
        abort();
}

static char base_path[] = "/dev/shm/fuzz-image-XXXXXX";

static void remove_base(void)
{
    below_clear(base);
    rmdir(base_path);
}

static void start(void)
{
    expect(mkdtemp(base_path));
    base = open(base_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    beside = fd_enter_dir_at(base, "beside", 0777);
    fd_close(&(int){fd_enter_dir_at(beside, "canary", 0777)});
    expect(beside >= 0 && fstat(beside, &beside_was) == 0);
    atexit(remove_base);
}

static int memory_file(uint8_t *data, size_t size)
{
    tar_fix_checksums(data, size);
    int fd = memfd_create("input", MFD_CLOEXEC);
    expect(fd >= 0 && fd_write_all(fd, data, size) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

static void check_tree(int dir_fd, unsigned depth)
{
    expect(depth <= options.limits.depth + 1);
    DIR *d = fdopendir(dir_fd);
    struct dirent *e;
    struct stat st;
    while ((e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        expect(fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0);
        expect(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode));
        expect(!(st.st_mode & (S_ISUID | S_ISGID)));
        if (S_ISDIR(st.st_mode))
            check_tree(openat(dir_fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), depth + 1);
    }
    closedir(d);
}

static void check_after(const struct image_info *info)
{
    struct stat st;
    expect(info->files <= options.limits.files && info->size_bytes <= options.limits.bytes);
    expect(fstat(beside, &st) == 0 && st.st_nlink == beside_was.st_nlink &&
           st.st_mode == beside_was.st_mode &&
           !memcmp(&st.st_ctim, &beside_was.st_ctim, sizeof(st.st_ctim)));
}

static void run_layers(uint8_t *data, size_t size)
{
    struct image_info info = {0};
    struct error err = {0};
    int r = 0, root = fd_enter_dir_at(base, "root", 0755);
    expect(root >= 0);
    while (r == 0 && size) {
        uint8_t *end = memmem(data, size, separator, sizeof(separator) - 1);
        size_t len = end ? (size_t)(end - data) : size;
        _cleanup_close_ int fd = memory_file(data, len);
        char diff_id[IMAGE_DIGEST_SIZE];
        r = image_unpack_layer(root, fd, &options, &info, diff_id, &err);
        expect(r < 0 ? error_is_set(&err) : image_digest_is_valid(diff_id));
        len += end ? sizeof(separator) - 1 : 0;
        data += len;
        size -= len;
    }
    check_tree(root, 0);
    check_after(&info);
    expect(below_remove(base, "root") == 0);
}

static void run_docker_archive(uint8_t *data, size_t size)
{
    _cleanup_image_info_ struct image_info info = {0};
    struct error err = {0};
    _cleanup_close_ int work = fd_enter_dir_at(base, "work", 0755), fd = memory_file(data, size);
    int r = image_from_docker_archive(fd, NULL, work, &options, &info, &err);
    expect(r < 0 ? error_is_set(&err) : image_digest_is_valid(info.digest));
    check_after(&info);
    expect(below_remove(base, "work") == 0);
}

static void run_json(const uint8_t *data, size_t size)
{
    struct error err = {0};
    _cleanup_json_ json_t *obj = json_parse_object((const char *)data, size, &err);
    if (!obj)
        return;
    const struct blobs none = {beside, "blobs/"};
    _cleanup_manifest_ struct manifest m = {0};
    _cleanup_image_info_ struct image_info config = {0}, stored = {0};
    _cleanup_strv_ char **ids = NULL;
    struct descriptor d;
    char type[128];
    manifest_choose(&none, obj, NULL, &d, type, &err);
    manifest_parse(obj, &options.limits, &m, &(struct error){0});
    expect(m.n_layers <= options.limits.layers);
    manifest_diff_ids(obj, m.n_layers, &ids, &(struct error){0});
    if (image_info_from_config(obj, &config, &(struct error){0}) == 0) {
        expect(!*config.workdir || *config.workdir == '/');
        memset(config.digest, 'a', IMAGE_DIGEST_SIZE - 1);
        _cleanup_json_ json_t *again = image_info_format(&config);
        expect(image_info_parse(again, &stored, &(struct error){0}) == 0);
        expect(!strcmp(stored.workdir, config.workdir) &&
               strv_length(stored.env) == strv_length(config.env));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (base < 0)
        start();
    if (size == 0)
        return 0;
    uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    if (data[0] == 'j')
        run_json(copy, size - 1);
    else if (data[0] == 'd')
        run_docker_archive(copy, size - 1);
    else
        run_layers(copy, size - 1);
    free(copy);
    return 0;
}
