/* SPDX-License-Identifier: Apache-2.0 */
#include "image/info.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"

#define ENV_MAX        1024
#define ARGS_MAX       1024
#define LAYERS_MAX     1024
#define TEXT_BYTES_MAX 32768

bool image_digest_is_valid(const char *text)
{
    return strspn(text, "0123456789abcdef") == IMAGE_DIGEST_SIZE - 1 &&
           text[IMAGE_DIGEST_SIZE - 1] == 0;
}

void image_info_done(struct image_info *info)
{
    free(info->name);
    free(info->workdir);
    free(info->user);
    strv_free(info->env);
    strv_free(info->cmd);
    strv_free(info->layers);
    *info = (struct image_info){0};
}

static void fill_text(char **text)
{
    if (!*text)
        *text = xstrdup("");
}

static void fill_vector(char ***v)
{
    if (!*v)
        *v = xcalloc(1, sizeof(**v));
}

void image_info_fill(struct image_info *info)
{
    fill_text(&info->name);
    fill_text(&info->workdir);
    fill_text(&info->user);
    fill_vector(&info->env);
    fill_vector(&info->cmd);
    fill_vector(&info->layers);
}

static json_t *format_vector(char *const *v)
{
    json_t *array = json_array();
    for (; v && *v; v++)
        json_array_append_new(array, json_message(*v));
    return array;
}

json_t *image_info_format(const struct image_info *i)
{
    json_t *obj = json_object();
    json_object_set_new(obj, "digest", json_message(i->digest));
    json_object_set_new(obj, "name", json_message(i->name ? i->name : ""));
    json_object_set_new(obj, "size_bytes", json_integer((json_int_t)i->size_bytes));
    json_object_set_new(obj, "files", json_integer((json_int_t)i->files));
    json_object_set_new(obj, "skipped", json_integer((json_int_t)i->skipped));
    json_object_set_new(obj, "created", json_integer(i->created_ns));
    json_object_set_new(obj, "env", format_vector(i->env));
    json_object_set_new(obj, "workdir", json_message(i->workdir ? i->workdir : ""));
    json_object_set_new(obj, "user", json_message(i->user ? i->user : ""));
    json_object_set_new(obj, "cmd", format_vector(i->cmd));
    json_object_set_new(obj, "layers", format_vector(i->layers));
    return obj;
}

static int take_text(const json_t *obj, const char *key, char **ret, struct error *err)
{
    const char *text = "";
    if (json_member_string(obj, key, &text, err) < 0)
        return -1;
    if (strlen(text) > TEXT_BYTES_MAX)
        return error_field(err, key, "'%s' is longer than %d bytes", key, TEXT_BYTES_MAX);
    free(*ret);
    *ret = xstrdup(text);
    return 0;
}

static int take_vector(const json_t *obj, const char *key, size_t max, char ***ret,
                       struct error *err)
{
    char **v = NULL;
    int r = json_member_strv(obj, key, max, &v, err);
    if (r < 0)
        return r;
    for (size_t i = 0; v && v[i]; i++)
        if (strlen(v[i]) > TEXT_BYTES_MAX) {
            strv_free(v);
            return error_field(err, key, "'%s'[%zu] is longer than %d bytes", key, i,
                               TEXT_BYTES_MAX);
        }
    strv_free(*ret);
    *ret = v;
    return 0;
}

static int take_count(const json_t *obj, const char *key, uint64_t *ret, struct error *err)
{
    int64_t n = 0;
    if (json_member_int(obj, key, 0, INT64_MAX, &n, err) < 0)
        return -1;
    *ret = (uint64_t)n;
    return 0;
}

int image_info_parse(const json_t *obj, struct image_info *ret, struct error *err)
{
    _cleanup_image_info_ struct image_info i = {0};
    *ret = (struct image_info){0};
    const char *digest = "";
    if (json_member_string(obj, "digest", &digest, err) < 0)
        return -1;
    if (!image_digest_is_valid(digest))
        return error_field(err, "digest", "'digest' is not 64 hex digits");
    memcpy(i.digest, digest, IMAGE_DIGEST_SIZE);
    if (take_text(obj, "name", &i.name, err) < 0 ||
        take_count(obj, "size_bytes", &i.size_bytes, err) < 0 ||
        take_count(obj, "files", &i.files, err) < 0 ||
        take_count(obj, "skipped", &i.skipped, err) < 0 ||
        json_member_int(obj, "created", 0, INT64_MAX, &i.created_ns, err) < 0 ||
        take_vector(obj, "env", ENV_MAX, &i.env, err) < 0 ||
        take_text(obj, "workdir", &i.workdir, err) < 0 ||
        take_text(obj, "user", &i.user, err) < 0 ||
        take_vector(obj, "cmd", 2 * ARGS_MAX, &i.cmd, err) < 0 ||
        take_vector(obj, "layers", LAYERS_MAX, &i.layers, err) < 0)
        return -1;
    image_info_fill(&i);
    *ret = i;
    i = (struct image_info){0};
    return 0;
}

/* "/app/" and "app" and "/a/../b" are all in use: what they mean from the root, as a clean path. */
static char *clean_workdir(const char *text)
{
    char *out = xcalloc(strlen(text) + 2, 1);
    size_t len = 0;
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && !strncmp(p, "..", 2)) {
            while (len && out[--len] != '/')
                ;
        } else if (n && !(n == 1 && *p == '.')) {
            out[len++] = '/';
            memcpy(out + len, p, n);
            len += n;
        }
        p += n + (p[n] == '/');
    }
    out[len] = 0;
    if (len == 0 && *text)
        strcpy(out, "/");
    return out;
}

static int check_env(char **env, struct error *err)
{
    for (; env && *env; env++)
        if (**env == '=' || !strchr(*env, '='))
            return error_field(err, "Env",
                               "the image's 'Env' has '%.100s', which is not NAME=VALUE", *env);
    return 0;
}

static char **join_vectors(char **a, char **b)
{
    size_t n = strv_length(a), m = strv_length(b);
    char **out = xcalloc(n + m + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++)
        out[i] = xstrdup(a[i]);
    for (size_t i = 0; i < m; i++)
        out[n + i] = xstrdup(b[i]);
    return out;
}

int image_info_from_config(const json_t *config, struct image_info *info, struct error *err)
{
    json_t *run = NULL;
    if (json_member_object(config, "config", &run, err) < 0)
        return -1;
    _cleanup_strv_ char **entry = NULL, **command = NULL;
    if (run &&
        (take_vector(run, "Env", ENV_MAX, &info->env, err) < 0 ||
         take_text(run, "WorkingDir", &info->workdir, err) < 0 ||
         take_text(run, "User", &info->user, err) < 0 ||
         take_vector(run, "Entrypoint", ARGS_MAX, &entry, err) < 0 ||
         take_vector(run, "Cmd", ARGS_MAX, &command, err) < 0 || check_env(info->env, err) < 0))
        return -1;
    image_info_fill(info);
    char *workdir = clean_workdir(info->workdir);
    free(info->workdir);
    info->workdir = workdir;
    strv_free(info->cmd);
    info->cmd = join_vectors(entry, command);
    return 0;
}
