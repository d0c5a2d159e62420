/* SPDX-License-Identifier: Apache-2.0 */
/* What outlives the warden of a sandbox that an engine holds. A record is written beside and
 * renamed; it need not survive a crash of the host, because no container does. Where a record lies
 * is opened before the broker enters the engine's view, in which that may be another place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "engine/engine.h"

#define RECORD_NAME     "record"
#define RECORD_NEW      "record.new"
#define INSTANCE_NAME   "instance"
#define INSTANCE_BYTES  16
#define INSTANCE_DIGITS (ENGINE_INSTANCE_SIZE - 1)

static int write_whole(int dirfd, const char *name, const void *data, size_t len)
{
    _cleanup_close_ int fd =
        openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd_write_all(fd, data, len);
}

static bool instance_ok(const char *text, size_t len)
{
    return len == INSTANCE_DIGITS && strspn(text, "0123456789abcdef") >= INSTANCE_DIGITS;
}

static int instance_read(struct engine *e)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(256);
    int r = fd_read_file_at(e->records_fd, INSTANCE_NAME, &text);
    if (r < 0 || !text.data || !instance_ok(text.data, text.len))
        return -ENOENT;
    memcpy(e->order.instance, text.data, INSTANCE_DIGITS + 1);
    return 0;
}

/* Who we are to an engine, as long as the state directory lives. Of two brokers that make it up at
 * once, one is first. */
static int instance_load(struct engine *e)
{
    unsigned char bytes[INSTANCE_BYTES];
    char text[ENGINE_INSTANCE_SIZE], beside[64];
    if (instance_read(e) == 0)
        return 0;
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    snprintf(beside, sizeof(beside), "." INSTANCE_NAME "-%s", text);
    int r = write_whole(e->records_fd, beside, text, INSTANCE_DIGITS);
    if (r == 0 && linkat(e->records_fd, beside, e->records_fd, INSTANCE_NAME, 0) < 0 &&
        errno != EEXIST)
        r = -errno;
    unlinkat(e->records_fd, beside, 0);
    if (r < 0)
        return r;
    return instance_read(e);
}

int record_open(struct engine *e)
{
    char dir[ENGINE_PATH_SIZE];
    snprintf(dir, sizeof(dir), "%s", e->order.dir);
    char *slash = e->order.id[0] ? strrchr(dir, '/') : NULL;
    if (slash)
        *slash = 0;
    e->records_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return e->records_fd < 0 ? -errno : instance_load(e);
}

int record_save(struct engine *e, enum engine_record_state state)
{
    struct engine_record *r = &e->order.record;
    _cleanup_close_ int dir =
        openat(e->records_fd, e->order.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r->state = state;
    int error = dir < 0 ? -errno : write_whole(dir, RECORD_NEW, r, sizeof(*r));
    return error < 0 ? error : renameat(dir, RECORD_NEW, dir, RECORD_NAME) < 0 ? -errno : 0;
}

int record_create(struct engine *e)
{
    uint32_t runner = e->order.runner_id;
    if (mkdirat(e->records_fd, e->order.id, 0700) < 0)
        return -errno;
    _cleanup_close_ int dir =
        openat(e->records_fd, e->order.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || mkdirat(dir, ENGINE_LINK, 0700) < 0 ||
        fchownat(dir, ENGINE_LINK, runner, runner, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return record_save(e, ENGINE_RECORD_CREATING);
}

static int record_load(const struct engine *e, const char *id, struct engine_record *ret)
{
    _cleanup_close_ int dir =
        openat(e->records_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(sizeof(*ret));
    char why[64];
    int r = dir < 0 ? -errno : fd_read_file_at(dir, RECORD_NAME, &text);
    if (r < 0 || text.len != sizeof(*ret))
        return r < 0 ? r : -EBADMSG;
    memcpy(ret, text.data, sizeof(*ret));
    return ret->magic == ENGINE_RECORD_MAGIC && ret->size == sizeof(*ret) &&
                   plan_check(&ret->plan, why, sizeof(why)) == 0 && strcmp(ret->plan.id, id) == 0
               ? 0
               : -EBADMSG;
}

/* Two levels are all there ever is; mounts of a broker that was killed are the next broker's. */
static void remove_below(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(&fd);
        return;
    }
    for (struct dirent *d; (d = readdir(dir));)
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
            unlinkat(dirfd(dir), d->d_name, 0) < 0 && errno == EISDIR)
            remove_below(dirfd(dir), d->d_name);
    closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void record_remove(const struct engine *e)
{
    remove_below(e->records_fd, e->order.id);
}

/* Of a record that says nothing it is not known whose it is: only the sweep by labels can find that
 * container. */
static void record_send(const struct engine *e, const char *id)
{
    struct engine_record r;
    if (record_load(e, id, &r) == 0) {
        fd_send_msg(CHILD_CHANNEL_FD, &r, sizeof(r), NULL, 0);
        return;
    }
    log_info("a record without a container is removed id=%s", id);
    remove_below(e->records_fd, id);
}

int record_list(const struct engine *e)
{
    int fd = openat(e->records_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(&fd);
        return -EIO;
    }
    for (struct dirent *d; (d = readdir(dir));)
        if (d->d_type == DT_DIR && d->d_name[0] != '.' && strlen(d->d_name) < PLAN_ID_SIZE)
            record_send(e, d->d_name);
    closedir(dir);
    return 0;
}
