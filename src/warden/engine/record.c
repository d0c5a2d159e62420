/* What outlives the warden of a sandbox that an engine holds: see engine.h. A record is written
 * beside and renamed; it need not survive a crash of the host, because no container does. */
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
#include "warden/engine/internal.h"

#define RECORD_NAME     "record"
#define RECORD_NEW      "record.new"
#define RECORD_MAGIC    0x676e6d61u
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

/* Who we are to an engine, as long as the state directory lives. */
int engine_instance_load(struct engines *e)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(256);
    unsigned char bytes[INSTANCE_BYTES];
    int r = fd_read_file_at(e->dir_fd, INSTANCE_NAME, &text);
    if (r >= 0 && text.data && instance_ok(text.data, text.len)) {
        memcpy(e->instance, text.data, INSTANCE_DIGITS + 1);
        return 0;
    }
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return -EIO;
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(e->instance + 2 * i, 3, "%02x", bytes[i]);
    return write_whole(e->dir_fd, INSTANCE_NAME, e->instance, INSTANCE_DIGITS);
}

static int save(int dirfd, const struct engine_record *r)
{
    int e = write_whole(dirfd, RECORD_NEW, r, sizeof(*r));
    return e < 0 ? e : renameat(dirfd, RECORD_NEW, dirfd, RECORD_NAME) < 0 ? -errno : 0;
}

static void fill(const struct cell *s, enum engine_record_state state, struct engine_record *r)
{
    const struct id_range *ids = &s->warden->ids;
    *r = (struct engine_record){
        .magic = RECORD_MAGIC,
        .size = sizeof(*r),
        .state = state,
        .plan = s->plan,
        .limits = s->limits,
        .id_block = s->id_block,
        .mark = engine_cell(s)->mark,
        .runner_id = id_block_host_id(ids, s->id_block, SANDBOX_RUNNER_ID),
        .tool_id = id_block_host_id(ids, s->id_block, SANDBOX_TOOL_ID),
        .nobody_id = id_block_host_id(ids, s->id_block, SANDBOX_NOBODY_ID),
    };
    memcpy(r->mechanism, s->mechanism, sizeof(r->mechanism));
}

static int open_dir(const struct engines *e, const char *id)
{
    int fd = openat(e->dir_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int engine_record_save(const struct cell *s, enum engine_record_state state)
{
    struct engine_record r;
    _cleanup_close_ int dir = open_dir(engines_of(s->warden), s->id);
    fill(s, state, &r);
    return dir < 0 ? dir : save(dir, &r);
}

int engine_record_new(struct cell *s)
{
    const struct engines *e = engines_of(s->warden);
    uint32_t runner = id_block_host_id(&s->warden->ids, s->id_block, SANDBOX_RUNNER_ID);
    if (mkdirat(e->dir_fd, s->id, 0700) < 0)
        return -errno;
    _cleanup_close_ int dir = open_dir(e, s->id);
    int r = dir < 0 ? dir : mkdirat(dir, ENGINE_LINK, 0700) < 0 ? -errno : 0;
    if (r < 0 || fchownat(dir, ENGINE_LINK, runner, runner, AT_SYMLINK_NOFOLLOW) < 0)
        return r < 0 ? r : -errno;
    return engine_record_save(s, ENGINE_RECORD_CREATING);
}

int engine_record_load(const struct engines *e, const char *id, struct engine_record *ret)
{
    char why[64];
    _cleanup_close_ int dir = open_dir(e, id);
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(sizeof(*ret));
    int r = dir < 0 ? dir : fd_read_file_at(dir, RECORD_NAME, &text);
    if (r < 0)
        return r;
    if (text.len != sizeof(*ret))
        return -EBADMSG;
    memcpy(ret, text.data, sizeof(*ret));
    bool ours = ret->magic == RECORD_MAGIC && ret->size == sizeof(*ret) &&
                ret->state < _ENGINE_RECORD_STATE_MAX &&
                memchr(ret->mark.container, 0, sizeof(ret->mark.container));
    return ours && plan_check(&ret->plan, why, sizeof(why)) == 0 && strcmp(ret->plan.id, id) == 0 &&
                   oci_backend_is_engine(ret->plan.backend)
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

void engine_record_remove(const struct engines *e, const char *id)
{
    remove_below(e->dir_fd, id);
}

void engine_record_each(const struct engines *e, void (*fn)(const char *id, void *data), void *data)
{
    int fd = openat(e->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        fd_close(&fd);
        return;
    }
    for (struct dirent *d; (d = readdir(dir));)
        if (d->d_type == DT_DIR && d->d_name[0] != '.' && strlen(d->d_name) < PLAN_ID_SIZE)
            fn(d->d_name, data);
    closedir(dir);
}
