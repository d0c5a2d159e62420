/* SPDX-License-Identifier: Apache-2.0 */
/* sbx image: what sandboxes are made of. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

#define DIGEST_SHOWN 12
#define MEGABYTES    1e6

/* --- what is printed */

static int print_answer(const json_t *answer)
{
    print_json(answer, JSON_INDENT(2));
    return 0;
}

static char *size_cell(const json_t *image)
{
    return xasprintf("%.1f MB",
                     (double)json_integer_value(json_object_get(image, "size_bytes")) / MEGABYTES);
}

static char *digest_cell(const json_t *image)
{
    _cleanup_free_ char *digest = cell(image, "digest");
    return xstrndup(digest, DIGEST_SHOWN);
}

/* An image without a name is one that only its digest finds. */
static void add_rows(struct table *t, const json_t *image)
{
    const json_t *names = json_object_get(image, "names");
    size_t n = json_array_size(names);
    for (size_t i = 0; i < (n ? n : 1); i++) {
        const char *name = n ? json_string_value(json_array_get(names, i)) : "-";
        char *cells[] = {
            printable(name ? name : "-"), digest_cell(image),         size_cell(image),
            cell(image, "files"),         cell(image, "last_use_at"), cell(image, "in_use")};
        table_add(t, cells);
    }
}

static int print_digest(const struct args *a, json_t *image)
{
    if (a->json)
        return print_answer(image);
    _cleanup_free_ char *digest = cell(image, "digest"), *size = size_cell(image);
    printf("sha256:%s (%s)\n", digest, size);
    return 0;
}

/* --- pull */

struct pull {
    struct progress progress;
    json_t *done;
    struct sbx_error failed;
    bool has_failed;
};

static void show_step(struct pull *p, const json_t *o)
{
    char note[64] = "";
    json_int_t layer = json_integer_value(json_object_get(o, "layer"));
    json_int_t layers = json_integer_value(json_object_get(o, "layers"));
    _cleanup_free_ char *step = cell(o, "step");
    if (layer)
        snprintf(note, sizeof(note), "layer %lld of %lld", (long long)layer, (long long)layers);
    else if (layers > 1)
        snprintf(note, sizeof(note), "%lld layers", (long long)layers);
    progress_show(&p->progress, step,
                  (uint64_t)json_integer_value(json_object_get(o, "done_bytes")),
                  (uint64_t)json_integer_value(json_object_get(o, "total_bytes")), note);
}

static int on_line(void *data, const char *line, size_t len)
{
    struct pull *p = data;
    const json_t *part;
    _cleanup_json_ json_t *o = json_parse_object(line, len, NULL);
    if ((part = json_object_get(o, "progress"))) {
        show_step(p, part);
    } else if ((part = json_object_get(o, "error"))) {
        _cleanup_free_ char *code = cell(part, "code"), *message = cell(part, "message");
        p->has_failed = true;
        cli_set_error(&p->failed, code, "%s", message);
    } else if ((part = json_object_get(o, "done"))) {
        json_decref(p->done);
        p->done = json_incref((json_t *)part);
    }
    return 0;
}

static int image_pull(const struct args *a, struct session *s, struct sbx_error *err)
{
    struct pull p = {0};
    _cleanup_json_ json_t *body = json_pack("{s:s}", "image", a->rest[0]);
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (!text)
        return cli_set_error(err, "invalid_request", "the image's name is not UTF-8");
    progress_init(&p.progress, a->json);
    int r = sbx_stream_lines(s->client, "POST", "/v1/images/pull", text, on_line, &p, err);
    progress_end(&p.progress);
    _cleanup_json_ json_t *done = p.done;
    if (r == 0 && p.has_failed) {
        *err = p.failed;
        return -1;
    }
    if (r == 0 && !done)
        return cli_set_error(err, "unavailable", "the daemon ended in the middle");
    if (r < 0)
        return r;
    return print_digest(a, done);
}

/* --- build-from-tar */

struct upload {
    struct progress progress;
    int fd;
    uint64_t done, total;
    int failed_errno;
};

static long read_tar(void *data, char *buf, size_t size)
{
    struct upload *u = data;
    ssize_t n = read(u->fd, buf, size);
    if (n < 0)
        u->failed_errno = errno;
    u->done += n > 0 ? (uint64_t)n : 0;
    bool more = n > 0 && u->done != u->total;
    progress_show(&u->progress, more ? "upload" : "unpack", u->done, more ? u->total : 0, "");
    return n;
}

static int image_build(const struct args *a, struct session *s, struct sbx_error *err)
{
    const char *file = a->rest[1], *format = a->format;
    struct stat st;
    struct sbx_response response = {0};
    _cleanup_close_ int fd = strcmp(file, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                                    : open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_set_error(err, "invalid_request", "open '%s': %s", file, strerror(errno));
    struct upload u = {.fd = fd, .total = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0};
    _cleanup_free_ char *path =
        sbx_path_format("/v1/images/tar?name=%s&format=%s", a->rest[0], format ? format : "auto");
    progress_init(&u.progress, a->json);
    int r = sbx_upload(s->client, "PUT", path, read_tar, &u,
                       S_ISREG(st.st_mode) ? (long long)st.st_size : -1, &response, err);
    progress_end(&u.progress);
    if (u.failed_errno)
        r = cli_set_error(err, NULL, "read '%s': %s", file, strerror(u.failed_errno));
    _cleanup_json_ json_t *image =
        r < 0 ? NULL : json_parse_object(response.body, response.body_len, NULL);
    sbx_response_done(&response);
    if (r == 0 && !image)
        return cli_set_error(err, "internal", "the daemon's answer cannot be read");
    if (r < 0)
        return r;
    return print_digest(a, image);
}

/* --- the rest */

static int image_ls(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    if (session_call(s, "GET", "/v1/images", NULL, &answer, err) < 0)
        return -1;
    if (a->json)
        return print_answer(answer);
    static const char *const titles[] = {"NAME", "DIGEST", "SIZE", "FILES", "LAST USED", "IN USE"};
    struct table t;
    size_t i;
    json_t *image;
    table_init(&t, ELEMENTS(titles), titles);
    json_array_foreach(json_object_get(answer, "images"), i, image) add_rows(&t, image);
    table_print(&t);
    return 0;
}

static int image_inspect(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    _cleanup_free_ char *path = sbx_path_format("/v1/images?image=%s", a->rest[0]);
    if (session_call(s, "GET", path, NULL, &answer, err) < 0)
        return -1;
    return print_answer(answer);
}

static int image_rm(const struct args *a, struct session *s, struct sbx_error *err)
{
    _cleanup_json_ json_t *answer = NULL;
    _cleanup_free_ char *path = sbx_path_format("/v1/images?image=%s", a->rest[0]);
    if (session_call(s, "DELETE", path, NULL, &answer, err) < 0)
        return -1;
    if (a->json)
        return print_answer(answer);
    _cleanup_free_ char *digest = cell(answer, "digest"), *name = printable(a->rest[0]);
    if (json_is_true(json_object_get(answer, "removed")))
        printf("removed sha256:%s\n", digest);
    else
        printf("untagged %s; sha256:%s has other names\n", name, digest);
    return 0;
}

#define IMAGE_DETAILS                                                                              \
    "IMAGE is 'default', a name that build-from-tar gave, a digest, a reference "                  \
    "[registry/]name[:tag][@sha256:digest], or a path that the daemon's images_allow permits: "    \
    "oci:PATH, docker-archive:PATH, oci-archive:PATH, rootfs-tar:PATH or dir:PATH."

static const struct command image_commands[] = {
    {.name = "image pull",
     .usage = "IMAGE",
     .summary = "Fetch an image and print its digest",
     .details = IMAGE_DETAILS,
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = image_pull},
    {.name = "image ls",
     .summary = "List the images that the daemon keeps",
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .run_connected = image_ls},
    {.name = "image inspect",
     .usage = "IMAGE",
     .summary = "Print what is known about an image as JSON",
     .details = IMAGE_DETAILS,
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = image_inspect},
    {.name = "image rm",
     .usage = "IMAGE",
     .summary = "Remove a name of an image, and the image with its last name",
     .details = IMAGE_DETAILS,
     .options = OPTIONS(OPTIONS_CONNECTION, OPTION_JSON),
     .min_rest = 1,
     .max_rest = 1,
     .run_connected = image_rm},
    {.name = "image build-from-tar",
     .usage = "NAME FILE",
     .summary = "Make an image from a tar file",
     .details =
         "FILE is the tar of a root file system, or what docker, podman and skopeo save; '-' "
         "is standard input.",
     .options = OPTIONS(OPTIONS_CONNECTION,
                        OPTION("format", format, "NAME",
                               "The kind of tar: rootfs-tar, docker-archive or oci-archive. By "
                               "default the daemon finds out."),
                        OPTION_JSON),
     .min_rest = 2,
     .max_rest = 2,
     .run_connected = image_build},
    {0}};

const struct command command_image = {
    .name = "image",
    .group = GROUP_HOST,
    .summary = "Fetch, build, list and remove the images that sandboxes are made from",
    .commands = image_commands,
};
