/* SPDX-License-Identifier: Apache-2.0 */
/* The image that docker's containers of the host's view start from: the names at the top of the
 * template, and nothing in them. Named by what is in it, so that it is imported once. */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "engine/engine.h"

#define BASE_REPOSITORY "mas-sandbox/host"
#define TAG_BYTES       12
#define NAMES_MAX       64

static int add_entry(struct archive *a, const char *name, const char *target)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, target ? AE_IFLNK : AE_IFDIR);
    archive_entry_set_perm(entry, target ? 0777 : 0755);
    if (target)
        archive_entry_set_symlink(entry, target);
    archive_entry_set_mtime(entry, 0, 0);
    int r = archive_write_header(a, entry) == ARCHIVE_OK ? 0 : -EIO;
    archive_entry_free(entry);
    return r;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t list_names(const char *path, char **ret)
{
    DIR *dir = opendir(path);
    size_t n = 0;
    for (struct dirent *d; dir && n < NAMES_MAX && (d = readdir(dir));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
            ret[n++] = xstrdup(d->d_name);
    if (dir)
        closedir(dir);
    qsort(ret, n, sizeof(*ret), compare_names);
    return n;
}

static int add_top(struct archive *a, const char *view, const char *name)
{
    char path[2 * ENGINE_PATH_SIZE + 260], target[256];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", view, name);
    if (lstat(path, &st) < 0)
        return -errno;
    if (!S_ISLNK(st.st_mode))
        return S_ISDIR(st.st_mode) ? add_entry(a, name, NULL) : 0;
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = 0;
    return add_entry(a, name, target);
}

/* Into a file in memory. */
static int write_base(const struct engine *e, int fd)
{
    static const char *const below[] = {"home/sandbox", "var/tmp"};
    char view[2 * ENGINE_PATH_SIZE], *names[NAMES_MAX];
    snprintf(view, sizeof(view), "%s/%s", e->root, e->image ? "root" : "view");
    struct archive *a = archive_write_new();
    archive_write_set_format_ustar(a);
    int r = archive_write_open_fd(a, fd) == ARCHIVE_OK ? 0 : -EIO;
    size_t n = list_names(view, names);
    for (size_t i = 0; i < n; i++) {
        if (r >= 0)
            r = add_top(a, view, names[i]);
        free(names[i]);
    }
    for (size_t i = 0; r == 0 && i < ELEMENTS(below); i++)
        r = add_entry(a, below[i], NULL);
    if (r >= 0)
        r = add_entry(a, "var/run", "../run");
    if (archive_write_close(a) != ARCHIVE_OK && r == 0)
        r = -EIO;
    archive_write_free(a);
    return r;
}

static int name_base(int fd, char *ret, size_t size)
{
    struct stat st;
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (fstat(fd, &st) < 0)
        return -errno;
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return -errno;
    int ok = EVP_Digest(data, (size_t)st.st_size, hash, &len, EVP_sha256(), NULL);
    munmap(data, (size_t)st.st_size);
    if (!ok)
        return -EIO;
    int at = snprintf(ret, size, BASE_REPOSITORY ":");
    for (unsigned i = 0; i < TAG_BYTES; i++)
        at += snprintf(ret + at, size - (size_t)at, "%02x", hash[i]);
    return 0;
}

static int import_archive(struct engine *e, int fd, const char *tag)
{
    char path[256];
    if (lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    snprintf(path, sizeof(path), "%s/images/create?fromSrc=-&repo=" BASE_REPOSITORY "&tag=%s",
             e->api, tag);
    int status = rest_upload(&e->rest, path, fd, NULL);
    return status < 0 ? status : status < 400 ? 0 : -EIO;
}

int image_ensure(struct engine *e)
{
    _cleanup_json_ json_t *image = NULL;
    _cleanup_close_ int fd = memfd_create("base", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : write_base(e, fd);
    if (r < 0)
        return r;
    r = name_base(fd, e->base, sizeof(e->base));
    if (r < 0)
        return r;
    int status = api_get(e, &image, "/images/%s/json", e->base);
    if (status == 200 || status < 0)
        return status < 0 ? status : 0;
    return import_archive(e, fd, strchr(e->base, ':') + 1);
}
