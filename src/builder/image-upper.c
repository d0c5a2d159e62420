/* SPDX-License-Identifier: Apache-2.0 */
/* What goes above an image, see image.h. The directory is empty, and no other process uses it while
 * it is filled, so what is found in it was made here; the image is only looked at, without
 * following its links, but for /etc/passwd, /etc/group and the certificate authorities, whose links
 * end inside of it at the latest. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "builder/child.h"
#include "builder/image.h"
#include "builder/mount.h"
#include "builder/root.h"

#define WHO_IS_WHO_MAX  (256 * 1024) /* of an image's passwd or group; a larger one is replaced */
#define TRUST_STORE_MAX (1024 * 1024)

/* Places of ours that are no part of the disk. */
static const char *const places[] = {"/proc", "/sys", "/dev", "/.mas", "/etc"};

static int upper_fail(struct image_upper *u, int r, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int upper_fail(struct image_upper *u, int r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(u->step, sizeof(u->step), fmt, ap);
    va_end(ap);
    return r;
}

static int open_dir(int at, const char *name)
{
    int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* 1 when it was made, 0 when it was there. */
static int make_dir(int at, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
    if (mkdirat(at, name, 0700) < 0)
        return errno == EEXIST ? 0 : -errno;
    /* The kernel lets no process set an owner that this user namespace does not map. */
    if (fchownat(at, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL && errno != EPERM)
        return -errno;
    return fchmodat(at, name, mode & 0777, 0) < 0 ? -errno : 1;
}

/* One of our own: whatever the image has in its place is hidden. */
static int make_place(const struct image_upper *u, int upper_fd, const char *path)
{
    _cleanup_close_ int at = openat(upper_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char copy[PLAN_PATH_SIZE], *save = NULL;
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        int r = make_dir(at, name, 0755, u->root_id, u->root_id);
        int next = r < 0 ? r : open_dir(at, name);
        if (next < 0)
            return next;
        fd_close(&at);
        at = next;
    }
    return 0;
}

/* The image's directory of that name, moved to: -1 where it has none. */
static int descend_lower(int *lower, const char *name, struct stat *ret)
{
    if (*lower < 0)
        return 0;
    int next = openat(*lower, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0 && errno != ENOENT)
        return -errno;
    fd_close(lower);
    *lower = next;
    if (next >= 0 && fstat(next, ret) < 0)
        return -errno;
    if (next >= 0 && !S_ISDIR(ret->st_mode)) {
        fd_close(lower);
        return -ENOTDIR;
    }
    return 0;
}

/* A place that the caller chose. The image's directories on the way stay as they are, what is
 * missing becomes the tool's, and anything else is in the way. */
static int make_target(struct image_upper *u, int lower_fd, int upper_fd, const char *path)
{
    _cleanup_close_ int at = openat(upper_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_close_ int lower = openat(lower_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char copy[PLAN_PATH_SIZE], *save = NULL;
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *name = strtok_r(copy, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        struct stat st;
        int in_the_way = descend_lower(&lower, name, &st);
        int r = in_the_way == 0 && lower >= 0 ? make_dir(at, name, st.st_mode, st.st_uid, st.st_gid)
                : in_the_way == 0             ? make_dir(at, name, 0755, u->tool_id, u->tool_id)
                                              : 0;
        int next = r < 0 ? r : open_dir(at, name);
        if (next < 0)
            return upper_fail(u, in_the_way < 0 ? in_the_way : next,
                              "mount target '%.90s': '%s' of the image is in the way", path, name);
        fd_close(&at);
        at = next;
    }
    return 0;
}

static int make_places(struct image_upper *u, int lower_fd, int upper_fd)
{
    const char *rest;
    int r = 0;
    for (size_t i = 0; r == 0 && i < ELEMENTS(places); i++)
        r = make_place(u, upper_fd, places[i]);
    for (size_t i = 0; r == 0 && i < n_disk_parts; i++)
        r = make_place(u, upper_fd, disk_parts[i].target);
    if (r < 0)
        return upper_fail(u, r, "make directories above the image");
    for (size_t i = 0; r == 0 && i < u->n_targets; i++)
        if (!mount_find_part(u->targets[i], &rest))
            r = make_target(u, lower_fd, upper_fd, u->targets[i]);
    return r;
}

static int write_file(const struct image_upper *u, int upper_fd, const char *name, const char *text,
                      size_t len)
{
    _cleanup_close_ int fd =
        openat(upper_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || fchown(fd, u->root_id, u->root_id) < 0)
        return -errno;
    return fd_write_all(fd, text, len);
}

/* A file of the image's, as a program in it would find it; -errno for anything but a file, -EFBIG
 * for one of more than max bytes. */
static int read_file(int lower_fd, const char *name, size_t max, struct strbuf *ret)
{
    struct open_how how = {
        .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, lower_fd, name, &how, sizeof(how));
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size > (off_t)max)
        return -EFBIG;
    int r = strbuf_reserve(ret, (size_t)st.st_size + 1);
    ssize_t n = r < 0 ? r : read(fd, ret->data + ret->len, (size_t)st.st_size);
    if (n < 0)
        return r < 0 ? r : -errno;
    strbuf_commit(ret, (size_t)n);
    return 0;
}

/* Does a line of passwd or group have this number in its third field? */
static bool knows_id(const char *text, unsigned id)
{
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *field = line;
        for (int i = 0; i < 2 && field; i++) {
            field += strcspn(field, ":\n");
            field = *field == ':' ? field + 1 : NULL;
        }
        char *end;
        if (field && *field >= '0' && *field <= '9' && strtoul(field, &end, 10) == id &&
            (*end == ':' || *end == '\n' || !*end))
            return true;
    }
    return false;
}

/* The image's file, with a line for the tool's user where it has no user of that id; our own file
 * where the image has none. */
static int add_who_is_who(const struct image_upper *u, int lower_fd, int upper_fd, const char *name,
                          const char *tools_line)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * WHO_IS_WHO_MAX);
    const char *ours = root_file_text(name);
    if (read_file(lower_fd, name, WHO_IS_WHO_MAX, &text) < 0 || !text.len ||
        memchr(text.data, 0, text.len))
        return write_file(u, upper_fd, name, ours, strlen(ours));
    if (knows_id(text.data, SANDBOX_TOOL_ID))
        return 0;
    int r = text.data[text.len - 1] == '\n' ? 0 : strbuf_puts(&text, "\n");
    if (r < 0)
        return r;
    r = strbuf_puts(&text, tools_line);
    if (r < 0)
        return r;
    return write_file(u, upper_fd, name, text.data, text.len);
}

static int fill_etc(struct image_upper *u, int lower_fd, int upper_fd)
{
    const char *hosts = root_file_text("etc/hosts");
    int r = add_who_is_who(u, lower_fd, upper_fd, "etc/passwd",
                           "sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/sh\n");
    if (r < 0)
        return upper_fail(u, r, "write /etc/passwd above the image");
    r = add_who_is_who(u, lower_fd, upper_fd, "etc/group", "sandbox:x:1000:\n");
    if (r < 0)
        return upper_fail(u, r, "write /etc/group above the image");
    r = write_file(u, upper_fd, "etc/hosts", hosts, strlen(hosts));
    return r < 0 ? upper_fail(u, r, "write /etc/hosts above the image") : 0;
}

/* --- certificate authorities */

/* Where images have theirs: Debian and Alpine, Fedora, SUSE, others. */
static const char *const trust_stores[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/var/lib/ca-certificates/ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

/* The image's own text at that path, and our authority behind it. -ENOENT: it has none there. */
static int read_trust_store(const struct image_upper *u, int lower_fd, const char *path,
                            struct strbuf *ret)
{
    struct stat st;
    int r = read_file(lower_fd, path + 1, TRUST_STORE_MAX, ret);
    if (r == -EFBIG)
        return r;
    if (r < 0 || !ret->len)
        return -ENOENT;
    if (fstat(u->authority_fd, &st) < 0)
        return -errno;
    r = strbuf_puts(ret, "\n");
    if (r < 0)
        return r;
    r = strbuf_reserve(ret, (size_t)st.st_size + 1);
    if (r < 0)
        return r;
    ssize_t n = pread(u->authority_fd, ret->data + ret->len, (size_t)st.st_size, 0);
    if (n != st.st_size)
        return n < 0 ? -errno : -EIO;
    strbuf_commit(ret, (size_t)n);
    return 0;
}

/* A file above hides a file of the image's, and a link to one, wherever that leads. It cannot where
 * a directory on the way is a link. */
static bool can_be_hidden(int lower_fd, const char *name)
{
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    _cleanup_close_ int fd = (int)syscall(SYS_openat2, lower_fd, name, &how, sizeof(how));
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode));
}

static int replace_trust_store(struct image_upper *u, int lower_fd, int upper_fd, const char *path,
                               const struct strbuf *text)
{
    char dir[PLAN_PATH_SIZE];
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    int r = make_target(u, lower_fd, upper_fd, dir);
    return r < 0 ? r : write_file(u, upper_fd, path + 1, text->data, text->len);
}

/* Every store keeps its own text and gets our authority; the first one's goes to a place that
 * variables can name whatever the image has, too. */
static int add_authority(struct image_upper *u, int lower_fd, int upper_fd)
{
    const char *first = NULL;
    bool replaced = false;
    if (u->authority_fd < 0)
        return 0;
    for (size_t i = 0; i < ELEMENTS(trust_stores); i++) {
        const char *path = trust_stores[i];
        _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(2 * TRUST_STORE_MAX);
        int r = read_trust_store(u, lower_fd, path, &text);
        if (r == -ENOENT)
            continue;
        if (r >= 0 && !first)
            r = write_file(u, upper_fd, &PLAN_IMAGE_AUTHORITIES[1], text.data, text.len);
        first = first ? first : path;
        if (r >= 0 && can_be_hidden(lower_fd, path + 1)) {
            r = replace_trust_store(u, lower_fd, upper_fd, path, &text);
            replaced = true;
        }
        if (r < 0)
            return upper_fail(u, r, "add a certificate authority to the image's at %s%s", path,
                              r == -EFBIG ? ", which may have 1 MiB" : "");
    }
    if (replaced)
        return 0;
    return first ? upper_fail(u, -ELOOP,
                              "add to the image's certificate authorities: the directory of %s is "
                              "behind a link",
                              first)
                 : upper_fail(u, -ENOENT,
                              "find the image's certificate authorities, at %s or a place of "
                              "other distributions",
                              trust_stores[0]);
}

int image_upper_fill(struct image_upper *u, int lower_fd, int upper_fd)
{
    mode_t mask = umask(022);
    int r;
    if ((r = make_places(u, lower_fd, upper_fd)) >= 0 && (r = fill_etc(u, lower_fd, upper_fd)) >= 0)
        r = add_authority(u, lower_fd, upper_fd);
    umask(mask);
    return r;
}

int image_mount_overlay(const char *lower, const char *upper, const char *work, const char *target,
                        const char *options)
{
    char text[256];
    int n = snprintf(text, sizeof(text), "lowerdir=%s,upperdir=%s,workdir=%s%s", lower, upper, work,
                     options);
    if (n >= (int)sizeof(text))
        return -ENAMETOOLONG;
    return mount("image", target, "overlay", MS_NOSUID | MS_NODEV, text) < 0 ? -errno : 0;
}
