/* A worker: the steps of one job, in their order. Whatever reads an image is in children of its
 * own (fetch.c, unpack.c). */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "keeper/internal.h"
#include "keeper/keeper-proto.h"
#include "keeper/reference.h"

#define PROGRESS_MS      100
#define DISCARD_TRIES    5
#define DISCARD_PAUSE_US 100000
#define UPLOAD_FILE      "upload"
#define UPLOAD_CHUNK     (256 * 1024)

/* --- lines to and from the keeper */

void worker_tell(struct worker *w, json_t *line)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KEEPER_LINE_MAX);
    int r = json_format(line, &b);
    json_decref(line);
    if (r >= 0 && strbuf_puts(&b, "\n") >= 0 && fd_write_all(w->out, b.data, b.len) >= 0)
        return;
    _exit(1); /* nobody is there to hear how it ends */
}

void worker_progress(struct worker *w, const struct image_progress *p)
{
    int64_t now = clock_mono_ms();
    bool last = p->total_bytes && p->done_bytes == p->total_bytes;
    bool first = !w->told_step || strcmp(w->told_step, p->step) != 0;
    if (now - w->told_ms < PROGRESS_MS && !last && !first)
        return;
    w->told_ms = now;
    w->told_step = p->step;
    worker_tell(w, json_pack("{s:{s:s, s:I, s:I, s:I, s:I, s:I}}", "progress", "step", p->step,
                             "layer", (json_int_t)p->layer, "layers", (json_int_t)p->layers,
                             "done_bytes", (json_int_t)p->done_bytes, "total_bytes",
                             (json_int_t)p->total_bytes, "files", (json_int_t)p->files));
}

json_t *worker_ask(struct worker *w)
{
    static struct strbuf line = STRBUF_INIT(2 * KEEPER_LINE_MAX);
    char c;
    strbuf_reset(&line);
    for (;;) {
        struct pollfd p = {.fd = w->in, .events = POLLIN};
        int64_t left = w->deadline_ms - clock_mono_ms();
        if (left <= 0 || poll(&p, 1, (int)left) < 0 || read(w->in, &c, 1) != 1)
            return NULL;
        if (c == '\n')
            return json_parse_object(line.data, line.len, NULL);
        if (strbuf_append(&line, &c, 1) < 0)
            return NULL;
    }
}

/* --- room */

struct keep {
    const json_t *digests;
    int64_t now_ns;
    struct image_store *store;
};

static bool is_kept(void *arg, const char *digest)
{
    const struct keep *keep = arg;
    size_t i;
    json_t *item;
    json_array_foreach(keep->digests, i, item)
    {
        if (json_is_string(item) && strcmp(json_string_value(item), digest) == 0)
            return true;
    }
    _cleanup_image_info_ struct image_info info = {0};
    if (image_store_find(keep->store, digest, &info, NULL) < 0)
        return false;
    return keep->now_ns - info.last_use_ns < KEEPER_GC_GRACE_MS * 1000000LL;
}

static int evict(struct worker *w, const json_t *answer, struct error *err)
{
    struct keep keep = {json_object_get(answer, "keep"), clock_real_ns(), w->store};
    uint64_t max = (uint64_t)json_integer_value(json_object_get(answer, "max_bytes"));
    _cleanup_strv_ char **victims = NULL;
    int r = image_store_victims(w->store, max, is_kept, &keep, &victims, err);
    for (char **v = victims; r >= 0 && v && *v; v++) {
        log_info("image is removed to make room digest=%s", *v);
        r = image_store_remove(w->store, *v, err);
    }
    if (r < 0)
        return r;
    _cleanup_image_list_ struct image_list left = {0};
    uint64_t used = 0;
    r = image_store_list(w->store, &left, err);
    for (size_t i = 0; i < left.count; i++)
        used += left.items[i].size_bytes;
    if (r >= 0 && used > max)
        r = error_set(err, ERROR_NO_SPACE, 0,
                      "images over images_max_bytes, and those that are there are in use");
    return r;
}

/* Waits until the budget has room for the image that is about to be visible. */
static int make_room(struct worker *w, const struct image_info *info, struct error *err)
{
    if (info->size_bytes > w->o->max_bytes)
        return error_set(err, ERROR_TOO_LARGE, 0, "the image is larger than images_max_bytes");
    worker_tell(w, json_pack("{s:I}", "need", (json_int_t)info->size_bytes));
    _cleanup_json_ json_t *answer = worker_ask(w);
    if (!answer)
        return error_set(err, ERROR_TIMEOUT, 0, "nobody said what may be removed for the image");
    return json_object_get(answer, "go") ? 0 : evict(w, answer, err);
}

static size_t env_bytes(const struct image_info *info)
{
    size_t n = 0;
    for (char *const *e = info->env; e && *e; e++)
        n += strlen(*e);
    return n;
}

static int commit(struct worker *w, struct image_info *info, const char *source, const char *name,
                  struct error *err)
{
    if (!info->files)
        return error_set(err, ERROR_INVALID, 0, "there is nothing in the image");
    if (env_bytes(info) >= KEEPER_ENV_MAX)
        return error_set(err, ERROR_TOO_LARGE, 0, "the image's environment is over %d bytes",
                         KEEPER_ENV_MAX);
    int r = make_room(w, info, err);
    free(info->name);
    info->name = xstrdup(source);
    if (r >= 0)
        r = image_store_commit(w->store, w->work, info, err);
    if (r >= 0 && name && *name)
        r = image_store_name(w->store, name, info->digest, err);
    return r;
}

int worker_begin(struct worker *w, struct error *err)
{
    int r = image_work_begin(w->store, &w->work, err);
    if (r < 0)
        return r;
    worker_tell(w, json_pack("{s:s}", "work", image_work_name(w->work)));
    return 0;
}

static int finish(struct worker *w, const char *digest, bool fetched, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    int r = image_store_find(w->store, digest, &info, err);
    if (r >= 0)
        r = image_store_touch(w->store, digest, err);
    if (r < 0)
        return r;
    json_t *view =
        w->asked ? keeper_view_of(w->store, w->o, w->asked, &info) : keeper_view(w->store, &info);
    json_object_set_new(view, "fetched", json_boolean(fetched));
    worker_tell(w, json_pack("{s:o}", "done", view));
    return 0;
}

static int unpack_and_commit(struct worker *w, enum unpack_kind kind, int source, const char *ref,
                             const char *from, const char *name, struct error *err)
{
    _cleanup_image_info_ struct image_info info = {0};
    int r = unpack_image(w, kind, source, ref, &info, err);
    if (r >= 0)
        r = commit(w, &info, from, name, err);
    return r < 0 ? r : finish(w, info.digest, true, err);
}

/* --- from a registry */

static int pull_reference(struct worker *w, const char *text, const char *policy, struct error *err)
{
    char digest[IMAGE_DIGEST_SIZE];
    _cleanup_reference_ struct reference ref = {0};
    int r = reference_parse(text, w->o->default_registry, &ref, err);
    if (r < 0)
        return r;
    _cleanup_free_ char *full = reference_format(&ref);
    if (!reference_is_listed(&ref, w->o->registries))
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
        return r < 0 ? r : finish(w, digest, false, err);
    }
    _cleanup_image_info_ struct image_info info = {0};
    r = unpack_image(w, UNPACK_SKOPEO_DIR, dir, NULL, &info, err);
    if (r >= 0 && strcmp(info.digest, digest) != 0)
        r = error_set(err, ERROR_DENIED, 0,
                      "the registry gave an image with digest %.16s…, not %.16s… as it said before",
                      info.digest, digest);
    if (r >= 0)
        r = commit(w, &info, full, full, err);
    return r < 0 ? r : finish(w, digest, true, err);
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
    for (size_t i = 0; w->o->allow && w->o->allow[i]; i++) {
        const char *rest = path_is_clean(path) ? path_below(w->o->allow[i], path) : NULL;
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
    return r < 0 ? r
                 : unpack_and_commit(w, transports[transport].kind, fd, colon ? colon + 1 : NULL,
                                     text, text, err);
}

/* --- the one that comes with the daemon */

static int pull_default(struct worker *w, struct error *err)
{
    if (w->o->default_fd < 0)
        return error_set(err, ERROR_NOT_FOUND, 0,
                         "there is no default image: it is made by scripts/default-image.sh, and "
                         "'sbx image build-from-tar' gives any tar that name");
    int r = worker_begin(w, err);
    return r < 0 ? r
                 : unpack_and_commit(w, UNPACK_AUTO, w->o->default_fd, NULL, KEEPER_DEFAULT,
                                     KEEPER_DEFAULT, err);
}

/* A name or digest of the store leads nowhere else. */
static bool is_local(const char *text)
{
    return strncmp(text, "sha256:", 7) == 0 || image_digest_is_valid(text);
}

static int pull(struct worker *w, const json_t *request, struct error *err)
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
                      : strcmp(policy, "always") == 0 && !is_local(text);
    if (r >= 0 && !again)
        return finish(w, info.digest, false, err);
    if (r < 0 && (err->code != ERROR_NOT_FOUND || is_local(text) || strcmp(policy, "never") == 0))
        return r;
    error_clear(err);
    if (ours)
        return pull_default(w, err);
    for (size_t i = 0; i < ELEMENTS(transports); i++)
        if (strncmp(text, transports[i].prefix, strlen(transports[i].prefix)) == 0)
            return pull_path(w, i, text, err);
    return pull_reference(w, text, policy, err);
}

/* --- from a caller */

/* Takes the upload from its pipe; what is too large is not taken to its end. */
static int spool(struct worker *w, int file, int64_t *ret_bytes, struct error *err)
{
    _cleanup_free_ char *chunk = xcalloc(1, UPLOAD_CHUNK);
    int64_t bytes = 0;
    for (;;) {
        ssize_t n = read(w->upload, chunk, UPLOAD_CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, ERROR_INTERNAL, errno, "read the upload");
        if (n == 0)
            break;
        bytes += n;
        if ((uint64_t)bytes > w->o->max_upload_bytes)
            return error_set(err, ERROR_TOO_LARGE, 0,
                             "the image is over %llu bytes (images_max_upload_bytes)",
                             (unsigned long long)w->o->max_upload_bytes);
        int r = fd_write_all(file, chunk, (size_t)n);
        if (r < 0)
            return error_set(err, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -r,
                             "store the upload");
        struct image_progress p = {.step = "upload", .done_bytes = (uint64_t)bytes};
        worker_progress(w, &p);
    }
    *ret_bytes = bytes;
    return 0;
}

/* The end of the pipe may be a caller who left: only the keeper knows the difference. */
static int check_whole(struct worker *w, int64_t bytes, struct error *err)
{
    _cleanup_json_ json_t *answer = worker_ask(w);
    int64_t whole = answer ? json_integer_value(json_object_get(answer, "end")) : -1;
    if (whole != bytes)
        return error_set(err, ERROR_INVALID, 0, "the upload ended early");
    return 0;
}

static int import(struct worker *w, const json_t *request, struct error *err)
{
    const char *name = json_string_value(json_object_get(request, "name"));
    const char *format = json_string_value(json_object_get(request, "format"));
    int kind = unpack_kind_parse(format ? format : "auto");
    int64_t bytes = 0;
    if (kind < 0 || w->upload < 0)
        return error_field(err, "format", "there is no image format '%.40s'", format);
    int r = worker_begin(w, err);
    if (r < 0)
        return r;
    _cleanup_close_ int file = openat(image_work_dir_fd(w->work), UPLOAD_FILE,
                                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return error_set(err, ERROR_INTERNAL, errno, "store the upload");
    r = spool(w, file, &bytes, err);
    w->deadline_ms = clock_mono_ms() + w->o->pull_timeout_ms; /* the caller's pace is over */
    if (r >= 0)
        r = check_whole(w, bytes, err);
    if (r >= 0 && lseek(file, 0, SEEK_SET) < 0)
        r = error_set(err, ERROR_INTERNAL, errno, "read the upload");
    return r < 0
               ? r
               : unpack_and_commit(w, (enum unpack_kind)kind, file, NULL, KEEPER_UPLOAD, name, err);
}

/* --- the end of one */

static int remove_image(struct worker *w, const json_t *request, struct error *err)
{
    const char *text = json_string_value(json_object_get(request, "image"));
    _cleanup_image_info_ struct image_info info = {0};
    _cleanup_strv_ char **names = NULL;
    int r = keeper_find(w->store, w->o, text ? text : "", &info, err);
    if (r >= 0)
        r = image_store_names(w->store, info.digest, &names, err);
    if (r < 0)
        return r;
    json_t *view = keeper_view(w->store, &info);
    bool last = is_local(text) || strv_length(names) < 2;
    if (last) {
        r = image_store_remove(w->store, info.digest, err);
    } else {
        _cleanup_reference_ struct reference ref = {0};
        r = image_store_unname(w->store, text, err);
        if (r < 0 && reference_parse(text, w->o->default_registry, &ref, NULL) >= 0) {
            _cleanup_free_ char *full = reference_format(&ref);
            error_clear(err);
            r = image_store_unname(w->store, full, err);
        }
    }
    json_object_set_new(view, "removed", json_boolean(last));
    if (r >= 0)
        worker_tell(w, json_pack("{s:O}", "done", view));
    json_decref(view);
    return r;
}

/* What a worker that was killed left. Its children die with it, but not at the same moment. */
static int discard(struct worker *w, const json_t *request, struct error *err)
{
    const char *work = json_string_value(json_object_get(request, "work"));
    int r = -EINVAL;
    for (int i = 0; i < DISCARD_TRIES && r < 0; i++) {
        if (i > 0)
            usleep(DISCARD_PAUSE_US);
        error_clear(err);
        r = image_store_discard(w->store, work ? work : "", err);
    }
    if (r < 0)
        log_warn("%s", err->message);
    return r;
}

static const struct {
    const char *op;
    int (*run)(struct worker *w, const json_t *request, struct error *err);
} steps[] = {
    {"pull", pull},
    {"import", import},
    {"remove", remove_image},
    {"discard", discard},
};

int worker_main(struct worker *w, const char *op, const json_t *request)
{
    struct error err = {0};
    int r = -ENOSYS;
    w->deadline_ms = clock_mono_ms() + w->o->pull_timeout_ms;
    for (size_t i = 0; i < ELEMENTS(steps); i++)
        if (strcmp(steps[i].op, op) == 0)
            r = steps[i].run(w, request, &err);
    image_work_end(w->work);
    if (r >= 0)
        return 0;
    worker_tell(w, json_pack("{s:{s:s, s:o}}", "error", "code", error_code_name(err.code),
                             "message", json_message(err.message)));
    return 0;
}
