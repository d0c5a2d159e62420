/* Unpacking, in a child that has nothing but its work directory: no network, no programs, no other
 * file, and no word to say but JSON lines to the worker. A hole in an archive reader ends there. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/landlock.h"
#include "filter/filter-table.h"
#include "filter/filter.h"
#include "keeper/internal.h"

#define LAYOUT_DIR   "layout"     /* an archived OCI layout, taken apart */
#define MEMORY_BYTES (2ull << 30) /* what decompressors may want of their input's word */

#define FS_READ (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define FS_WORK                                                                                    \
    (FS_READ | LANDLOCK_WRITE_FILE | LANDLOCK_REMOVE_DIR | LANDLOCK_REMOVE_FILE |                  \
     LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_REG | LANDLOCK_MAKE_SYM | LANDLOCK_REFER |                  \
     LANDLOCK_TRUNCATE)

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

/* --- walls */

/* A sanitizer's own memory is more than any image's. */
static int limit_memory(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0;
#else
    struct rlimit limit = {MEMORY_BYTES, MEMORY_BYTES};
    return setrlimit(RLIMIT_AS, &limit) < 0 ? -errno : 0;
#endif
}

static int refuse_files(const struct worker *w, int source)
{
    struct stat st;
    int abi = landlock_abi();
    if (abi < 1)
        return 0;
    struct landlock_rights refused = landlock_known(abi);
    _cleanup_close_ int ruleset = landlock_ruleset_open(abi, &refused);
    int r = ruleset < 0
                ? ruleset
                : landlock_ruleset_allow(ruleset, image_work_dir_fd(w->work), FS_WORK & refused.fs);
    if (r == 0 && fstat(source, &st) == 0 && S_ISDIR(st.st_mode))
        r = landlock_ruleset_allow(ruleset, source, FS_READ & refused.fs);
    return r == 0 ? landlock_restrict(ruleset) : r;
}

/* --- in the child */

static json_t *vector(char *const *v)
{
    json_t *list = json_array();
    for (; v && *v; v++)
        json_array_append_new(list, json_message(*v));
    return list;
}

static json_t *info_format(const struct image_info *i)
{
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "digest", i->digest, "size_bytes",
        (json_int_t)i->size_bytes, "files", (json_int_t)i->files, "skipped", (json_int_t)i->skipped,
        "env", vector(i->env), "workdir", json_message(i->workdir ? i->workdir : ""), "user",
        json_message(i->user ? i->user : ""), "cmd", vector(i->cmd), "layers", vector(i->layers));
}

static int from_oci_archive(const struct worker *w, int source, const char *ref,
                            const struct image_options *o, struct image_info *ret,
                            struct error *err)
{
    int work = image_work_dir_fd(w->work);
    _cleanup_image_info_ struct image_info members = {0};
    if (mkdirat(work, LAYOUT_DIR, 0700) < 0)
        return error_set(err, ERROR_NO_SPACE, errno, "make a directory");
    _cleanup_close_ int dir = openat(work, LAYOUT_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set(err, ERROR_INTERNAL, errno, "layout");
    int r = image_unpack_layer(dir, source, o, &members, NULL, err);
    return r < 0 ? r : image_from_layout(dir, ref, image_work_fd(w->work), o, ret, err);
}

static int unpack(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                  const struct image_options *o, struct image_info *ret, struct error *err)
{
    int work = image_work_fd(w->work);
    int r = kind == UNPACK_AUTO ? detect_archive(source, &kind, err) : 0;
    if (r < 0)
        return r;
    switch (kind) {
    case UNPACK_DOCKER_ARCHIVE:
        return image_from_docker_archive(source, ref, work, o, ret, err);
    case UNPACK_OCI_ARCHIVE:
        return from_oci_archive(w, source, ref, o, ret, err);
    case UNPACK_LAYOUT:
        return image_from_layout(source, ref, work, o, ret, err);
    case UNPACK_SKOPEO_DIR:
        return image_from_skopeo_dir(source, work, o, ret, err);
    case UNPACK_DIR:
        return image_from_dir(source, work, o, ret, err);
    default:
        return image_from_rootfs_tar(source, work, o, ret, err);
    }
}

static int on_progress(void *arg, const struct image_progress *p)
{
    worker_progress(arg, p);
    return 0;
}

static void child(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                  pid_t parent, int out)
{
    struct error err = {0};
    struct image_info info = {0};
    struct image_options o = {.limits = w->o->limits, .on_progress = on_progress, .arg = w};
    w->out = out;
    fd_close(&w->in);
    prctl(PR_SET_NAME, "mas-image-unpk", 0, 0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(1);
    int r = limit_memory();
    if (r == 0)
        r = refuse_files(w, source);
    if (r < 0)
        error_set(&err, ERROR_INTERNAL, -r, "the unpacker cannot be confined");
    else
        r = filter_enter(&filter_unpacker, &err);
    if (r < 0)
        error_prefix(&err, "unpack");
    else
        r = unpack(w, kind, source, ref, &o, &info, &err);
    if (r >= 0)
        worker_tell(w, json_pack("{s:o}", "info", info_format(&info)));
    else
        worker_tell(w, json_pack("{s:{s:s, s:o}}", "error", "code", error_code_name(err.code),
                                 "message", json_message(err.message)));
    _exit(0);
}

/* --- in the worker */

static uint64_t number(const json_t *o, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(o, key));
    return n > 0 ? (uint64_t)n : 0;
}

static char *text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return xstrdup(text ? text : "");
}

static int info_parse(const json_t *o, struct image_info *ret, struct error *err)
{
    const char *digest = json_string_value(json_object_get(o, "digest"));
    struct image_info i = {.size_bytes = number(o, "size_bytes"),
                           .files = number(o, "files"),
                           .skipped = number(o, "skipped")};
    if (!digest || !image_digest_is_valid(digest))
        return error_set(err, ERROR_INTERNAL, 0, "the unpacker names no digest");
    memcpy(i.digest, digest, IMAGE_DIGEST_SIZE);
    i.name = xstrdup("");
    i.workdir = text_of(o, "workdir");
    i.user = text_of(o, "user");
    int r = json_member_strv(o, "env", KEEPER_LINE_MAX, &i.env, err);
    if (r >= 0)
        r = json_member_strv(o, "cmd", KEEPER_LINE_MAX, &i.cmd, err);
    if (r >= 0)
        r = json_member_strv(o, "layers", KEEPER_LINE_MAX, &i.layers, err);
    if (r < 0) {
        image_info_done(&i);
        return r;
    }
    *ret = i;
    return 0;
}

/* 1 when it was the last line that matters. */
static int on_line(struct worker *w, const char *line, size_t len, struct image_info *ret,
                   struct error *err)
{
    json_t *part;
    _cleanup_json_ json_t *o = json_parse_object(line, len, err);
    if (!o)
        return -EPROTO;
    if ((part = json_object_get(o, "info"))) {
        int r = info_parse(part, ret, err);
        return r < 0 ? r : 1;
    }
    if ((part = json_object_get(o, "error"))) {
        const char *code = json_string_value(json_object_get(part, "code"));
        const char *message = json_string_value(json_object_get(part, "message"));
        return error_set(err, error_code_find(code ? code : ""), 0, "%s",
                         message ? message : "no reason given");
    }
    worker_tell(w, json_incref(o)); /* progress */
    return 0;
}

static int read_lines(struct worker *w, int fd, struct image_info *ret, struct error *err)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(2 * KEEPER_LINE_MAX);
    for (;;) {
        char chunk[8192], *end;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = w->deadline_ms - clock_mono_ms();
        if (left <= 0)
            return error_set(err, ERROR_TIMEOUT, 0,
                             "the image was not unpacked in %u s (images_pull_timeout)",
                             w->o->pull_timeout_ms / 1000);
        if (poll(&p, 1, (int)left) <= 0)
            continue;
        ssize_t n = read(fd, chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || strbuf_append(&b, chunk, (size_t)n) < 0)
            return error_set(err, ERROR_INTERNAL, 0, "the unpacker died");
        while (b.len && (end = memchr(b.data, '\n', b.len))) {
            int r = on_line(w, b.data, (size_t)(end - b.data), ret, err);
            if (r)
                return r < 0 ? r : 0;
            strbuf_consume(&b, (size_t)(end - b.data) + 1);
        }
    }
}

int unpack_image(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                 struct image_info *ret, struct error *err)
{
    int out[2], status;
    if (pipe2(out, O_CLOEXEC) < 0)
        return error_set(err, ERROR_INTERNAL, errno, "pipe");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        child(w, kind, source, ref, parent, out[1]);
    int fork_errno = errno;
    close(out[1]);
    _cleanup_close_ int fd = out[0];
    if (pid < 0)
        return error_set(err, ERROR_UNAVAILABLE, fork_errno, "start the unpacker");
    int r = read_lines(w, fd, ret, err);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return r;
}
