/* SPDX-License-Identifier: Apache-2.0 */
/* An image from a registry, by skopeo, into the work directory. What the registry answers is held
 * to what was asked: a pinned digest is the hash of the bytes we were given, and so is the digest
 * that an index names. The blobs are verified when they are unpacked. */
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "keeper/internal.h"
#include "keeper/program.h"
#include "keeper/reference.h"

#define MANIFEST_MAX    (4 * 1024 * 1024)
#define COMPLAINT_MAX   4096
#define COMPLAINT_SHOWN 300
#define SLACK_BYTES     (16 * 1024 * 1024) /* of the program's own files, beside blobs */
#define ARGS_MAX        24
#define FETCH_DIR       "fetch"
#define FETCH_BLOBS     "image"

/* --- skopeo */

struct fetch {
    struct worker *worker;
    const struct reference *ref;
    char *dir;   /* the program's own */
    char *blobs; /* in it */
    uint64_t total_bytes;
    size_t layers;
};

/* Why it says it failed: the text of its last log line. */
static void complaint_of(struct strbuf *b, char out[COMPLAINT_SHOWN])
{
    const char *text = b->data ? b->data : "", *msg = NULL;
    for (const char *p = text; (p = strstr(p, "msg=\"")); p++)
        msg = p + 5;
    snprintf(out, COMPLAINT_SHOWN, "%s", msg ? msg : text);
    char *end = msg ? strrchr(out, '"') : NULL;
    if (end)
        *end = 0;
    out[strcspn(out, "\n")] = 0;
    /* It quotes with backslashes, once or twice. */
    char *to = out;
    for (const char *from = out; *from; from++)
        if (*from != '\\')
            *to++ = *from;
    *to = 0;
}

static const struct {
    const char *text;
    enum error_code code;
} reasons[] = {
    {"no space left on device", ERROR_NO_SPACE},
    {"file too large", ERROR_TOO_LARGE},
    {"manifest unknown", ERROR_NOT_FOUND},
    {"name unknown", ERROR_NOT_FOUND},
    {"repository name not known", ERROR_NOT_FOUND},
    {"unauthorized", ERROR_DENIED},
    {"authentication required", ERROR_DENIED},
    {"access to the resource is denied", ERROR_DENIED},
};

/* Whether it may be the gateway that has said no: to a request with a status, to a registry on
 * loopback by ending the connection. */
static bool is_cut_off(const char *text)
{
    size_t n = strlen(text);
    return strstr(text, "Forbidden") || (n >= 3 && strcmp(text + n - 3, "EOF") == 0);
}

static int fetch_failed(const struct fetch *f, struct program *p, struct error *err)
{
    char text[COMPLAINT_SHOWN];
    enum error_code code = ERROR_UNAVAILABLE;
    _cleanup_free_ char *full = reference_format(f->ref);
    complaint_of(&p->err, text);
    if (strcasestr(text, "digest did not match")) /* it says what came, from wherever */
        snprintf(text, sizeof(text), "a blob does not have the digest that the manifest names");
    for (size_t i = 0; i < ELEMENTS(reasons); i++)
        if (p->err.data && strcasestr(p->err.data, reasons[i].text))
            code = reasons[i].code;
    if (code == ERROR_UNAVAILABLE && is_cut_off(text))
        return error_set(err, ERROR_DENIED, 0,
                         "cannot fetch %.150s: %s; a host has to be in images_registries or "
                         "images_hosts, and one that is not public by its own name there or in "
                         "gateway_allow_private",
                         full, text);
    return error_set(err, code, 0, "cannot fetch %.150s: %s", full, text);
}

static void add_common(const struct fetch *f, const char *tls_flag, char **argv, size_t *n)
{
    const struct keeper_options *o = f->worker->o;
    if (reference_is_listed(f->ref, o->config.insecure_registries))
        argv[(*n)++] = (char *)tls_flag;
    if (o->config.auth_file) {
        argv[(*n)++] = (char *)"--authfile";
        argv[(*n)++] = (char *)o->config.auth_file;
    }
}

static int run_skopeo(struct fetch *f, struct program *p, char **argv, struct error *err)
{
    _cleanup_free_ char *home = xasprintf("HOME=%s", f->dir);
    _cleanup_free_ char *tmp = xasprintf("TMPDIR=%s", f->dir);
    _cleanup_free_ char *run = xasprintf("XDG_RUNTIME_DIR=%s", f->dir);
    _cleanup_free_ char *proxy = xasprintf("HTTP_PROXY=http://127.0.0.1:%u", f->worker->proxy_port);
    _cleanup_free_ char *https_proxy =
        xasprintf("HTTPS_PROXY=http://127.0.0.1:%u", f->worker->proxy_port);
    char *env[] = {(char *)"PATH=/usr/bin:/bin", home, tmp, run, proxy, https_proxy, NULL};
    p->argv = argv;
    p->env = env;
    p->readable = f->worker->o->config.auth_file;
    strbuf_init(&p->err, COMPLAINT_MAX);
    int r = program_run(f->worker, p, err);
    if (r > 0)
        r = fetch_failed(f, p, err);
    p->env = NULL;
    return r;
}

/* The bytes of a manifest or index, and their hash. digest: which; NULL is the reference's own. */
static int get_manifest(struct fetch *f, const char *digest, struct strbuf *out,
                        char ret_digest[IMAGE_DIGEST_SIZE], struct error *err)
{
    const struct reference *r = f->ref;
    _cleanup_free_ char *from =
        digest ? xasprintf("docker://%s/%s@sha256:%s", r->registry, r->repository, digest)
               : xasprintf("docker://%s/%s:%s", r->registry, r->repository, r->tag);
    char *argv[ARGS_MAX] = {(char *)"skopeo", (char *)"--insecure-policy", (char *)"--tmpdir",
                            f->dir,           (char *)"inspect",           (char *)"--raw"};
    size_t n = 6;
    add_common(f, "--tls-verify=false", argv, &n);
    argv[n++] = from;
    struct program p = {.dir = f->dir, .out = STRBUF_INIT(MANIFEST_MAX)};
    int e = run_skopeo(f, &p, argv, err);
    strbuf_done(&p.err);
    *out = p.out;
    if (e < 0)
        return e;
    struct sha256 hash;
    uint8_t sum[SHA256_SIZE];
    sha256_init(&hash);
    sha256_update(&hash, p.out.data ? p.out.data : "", p.out.len);
    sha256_final(&hash, sum);
    sha256_hex(sum, ret_digest);
    if (digest && strcmp(digest, ret_digest) != 0)
        return error_set(err, ERROR_DENIED, 0,
                         "the registry's answer for %.150s does not have the digest sha256:%.64s",
                         r->repository, digest);
    return 0;
}

/* --- which of an index */

static const char *own_architecture(void)
{
    static struct utsname u;
    static const struct {
        const char *machine, *name;
    } names[] = {{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"armv7l", "arm"}, {"i686", "386"}};
    uname(&u);
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(u.machine, names[i].machine) == 0)
            return names[i].name;
    return u.machine;
}

static bool is_ours(const json_t *entry)
{
    const json_t *platform = json_object_get(entry, "platform");
    const char *os = json_string_value(json_object_get(platform, "os"));
    const char *arch = json_string_value(json_object_get(platform, "architecture"));
    return os && arch && strcmp(os, "linux") == 0 && strcmp(arch, own_architecture()) == 0;
}

static int choose_platform(const json_t *entries, char ret[IMAGE_DIGEST_SIZE], struct error *err)
{
    size_t i;
    json_t *entry;
    json_array_foreach(entries, i, entry)
    {
        const char *digest = json_string_value(json_object_get(entry, "digest"));
        if (!is_ours(entry) || !digest || strncmp(digest, "sha256:", 7) != 0 ||
            !image_digest_is_valid(digest + 7))
            continue;
        memcpy(ret, digest + 7, IMAGE_DIGEST_SIZE);
        return 0;
    }
    return error_set(err, ERROR_UNSUPPORTED, 0, "the image is not there for linux/%s",
                     own_architecture());
}

/* The program that fetches takes "URLs" for "urls", and some letters for others: what it would read
 * as a member that we read has to be that member. */
static int check_keys(const json_t *object, struct error *err)
{
    static const char *const known[] = {"schemaVersion", "mediaType", "config", "layers",
                                        "manifests",     "digest",    "size",   "urls"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        bool good = true;
        for (const char *c = key; *c; c++)
            good = good && (unsigned char)*c < 0x80;
        for (size_t i = 0; i < ELEMENTS(known); i++)
            good = good && (strcasecmp(key, known[i]) != 0 || strcmp(key, known[i]) == 0);
        if (!good)
            return error_set(
                err, ERROR_INVALID, 0,
                "the manifest has a member '%.40s' whose name could be read as that of another",
                key);
    }
    return 0;
}

static int count_blob(const struct fetch *f, const json_t *blob, uint64_t *total, struct error *err)
{
    json_int_t size = json_integer_value(json_object_get(blob, "size"));
    const json_t *urls = json_object_get(blob, "urls");
    if (check_keys(blob, err) < 0)
        return -EINVAL;
    /* A user who may push an image would choose what this host asks. */
    if (urls && !(json_is_array(urls) && json_array_size(urls) == 0))
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "a layer of the image is elsewhere: layers are fetched from the registry, "
                         "not from addresses that a manifest names");
    if (size < 0 || (uint64_t)size > f->worker->o->config.limits.layer_bytes)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "a layer of %lld bytes is over images_max_layer_bytes", (long long)size);
    *total += (uint64_t)size;
    return 0;
}

/* What will be fetched, by the manifest's own word; more than that is not. */
static int read_sizes(struct fetch *f, const json_t *manifest, struct error *err)
{
    const json_t *layers = json_object_get(manifest, "layers");
    size_t i;
    json_t *layer;
    if (check_keys(manifest, err) < 0)
        return -EINVAL;
    f->layers = json_array_size(layers);
    if (!f->layers)
        return error_set(err, ERROR_UNSUPPORTED, 0, "the manifest has no layers");
    if (f->layers > f->worker->o->config.limits.layers)
        return error_set(err, ERROR_TOO_LARGE, 0, "%zu layers are over images_max_layers",
                         f->layers);
    int r = count_blob(f, json_object_get(manifest, "config"), &f->total_bytes, err);
    if (r < 0)
        return r;
    json_array_foreach(layers, i, layer)
    {
        r = count_blob(f, layer, &f->total_bytes, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int read_manifest(struct fetch *f, const char *digest, bool index_is_fine,
                         char ret_digest[IMAGE_DIGEST_SIZE], struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(MANIFEST_MAX);
    int r = get_manifest(f, digest, &text, ret_digest, err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *o = json_parse_any(text.data ? text.data : "", text.len, err);
    if (!o) {
        error_prefix(err, "the registry's manifest");
        return -EINVAL;
    }
    const json_t *entries = json_object_get(o, "manifests");
    if (!json_is_array(entries))
        return read_sizes(f, o, err);
    if (!index_is_fine)
        return error_set(err, ERROR_UNSUPPORTED, 0, "an index of the registry names an index");
    char chosen[IMAGE_DIGEST_SIZE];
    r = choose_platform(entries, chosen, err);
    if (r < 0)
        return r;
    return read_manifest(f, chosen, false, ret_digest, err);
}

/* --- blobs */

static uint64_t bytes_in(const char *path)
{
    uint64_t bytes = 0;
    struct stat st;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (*e->d_name != '.' && fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            bytes += (uint64_t)st.st_size;
    if (dir)
        closedir(dir);
    return bytes;
}

static int on_tick(void *data, struct error *err)
{
    struct fetch *f = data;
    uint64_t bytes = bytes_in(f->blobs) + bytes_in(f->dir);
    if (bytes > f->total_bytes + SLACK_BYTES)
        return error_set(err, ERROR_TOO_LARGE, 0,
                         "the registry gives more than the %llu bytes that the manifest names",
                         (unsigned long long)f->total_bytes);
    worker_claim_left(f->worker, f->total_bytes + SLACK_BYTES - bytes);
    struct image_progress p = {.step = "fetch",
                               .layers = f->layers,
                               .done_bytes = bytes < f->total_bytes ? bytes : f->total_bytes,
                               .total_bytes = f->total_bytes};
    worker_progress(f->worker, &p);
    return 0;
}

static int get_blobs(struct fetch *f, const char *digest, struct error *err)
{
    const struct reference *r = f->ref;
    _cleanup_free_ char *from =
        xasprintf("docker://%s/%s@sha256:%s", r->registry, r->repository, digest);
    _cleanup_free_ char *to = xasprintf("dir:%s", f->blobs);
    char *argv[ARGS_MAX] = {(char *)"skopeo",   (char *)"--insecure-policy",
                            (char *)"--tmpdir", f->dir,
                            (char *)"copy",     (char *)"--quiet"};
    size_t n = 6;
    add_common(f, "--src-tls-verify=false", argv, &n);
    argv[n++] = from;
    argv[n++] = to;
    struct program p = {
        .dir = f->dir, .out = STRBUF_INIT(COMPLAINT_MAX), .on_tick = on_tick, .data = f};
    int e = worker_claim(f->worker, f->total_bytes + SLACK_BYTES, err);
    if (e < 0)
        return e;
    e = run_skopeo(f, &p, argv, err);
    worker_claim_left(f->worker, 0);
    strbuf_done(&p.out);
    strbuf_done(&p.err);
    return e < 0 ? e : 0;
}

int fetch_image(struct worker *w, const struct reference *ref, char ret_digest[IMAGE_DIGEST_SIZE],
                int *ret_dir, struct error *err)
{
    if (!w->proxy_port)
        return error_set(err, ERROR_UNAVAILABLE, 0,
                         "images cannot be fetched: the image keeper has no way to the gateway");
    int r = worker_begin(w, err);
    if (r < 0)
        return r;
    /* The one directory that the program may write to, in ours. */
    int work = image_work_dir_fd(w->work);
    uid_t id = w->o->own_ids ? KEEPER_USER_ID : (uid_t)-1;
    if (mkdirat(work, FETCH_DIR, 0700) < 0 ||
        fchownat(work, FETCH_DIR, id, id, AT_SYMLINK_NOFOLLOW) < 0 || fchmod(work, 0711) < 0)
        return error_set(err, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, errno,
                         "make a directory to fetch to");
    _cleanup_free_ char *dir =
        xasprintf("%s/tmp/%s/" FETCH_DIR, w->o->dir, image_work_name(w->work));
    _cleanup_free_ char *blobs = xasprintf("%s/" FETCH_BLOBS, dir);
    struct fetch f = {.worker = w, .ref = ref, .dir = dir, .blobs = blobs};
    *ret_dir = -1;
    r = read_manifest(&f, *ref->digest ? ref->digest : NULL, true, ret_digest, err);
    if (r < 0 || image_store_find(w->store, ret_digest, NULL, NULL) >= 0)
        return r;
    r = get_blobs(&f, ret_digest, err);
    if (r < 0)
        return r;
    *ret_dir = openat(image_work_dir_fd(w->work), FETCH_DIR "/" FETCH_BLOBS,
                      O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_dir < 0 ? error_set(err, ERROR_INTERNAL, errno, "what was fetched") : 0;
}
