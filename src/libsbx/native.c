/* SPDX-License-Identifier: Apache-2.0 */
/* One-shot runs and files, through the /v1 routes. */
#include "libsbx/internal.h"

#include <string.h>

int sbx_run(struct sbx_client *c, const char *request, struct sbx_exec_result *ret,
            struct sbx_error *err)
{
    struct sbx_response resp;
    if (sbx_call(c, "POST", "/v1/run", request, &resp, err) < 0)
        return -1;
    _cleanup_json_ json_t *root = libsbx_parse(resp.body, resp.body_len, err);
    sbx_response_done(&resp);
    if (!root)
        return -1;
    libsbx_exec_result_parse(root, ret);
    return 0;
}

int sbx_file_read(struct sbx_client *c, const char *id, const char *path, char **ret_data,
                  size_t *ret_len, struct sbx_error *err)
{
    _cleanup_free_ char *p = sbx_path_format("/v1/sandboxes/%s/files/content?path=%s", id, path);
    struct sbx_response resp;
    if (sbx_call(c, "GET", p, NULL, &resp, err) < 0)
        return -1;
    *ret_data = resp.body;
    *ret_len = resp.body_len;
    return 0;
}

struct memory_reader {
    const char *data;
    size_t left;
};

static long read_memory(void *opaque, char *buf, size_t size)
{
    struct memory_reader *m = opaque;
    size_t n = m->left < size ? m->left : size;
    if (n)
        memcpy(buf, m->data, n);
    m->data += n;
    m->left -= n;
    return (long)n;
}

int sbx_file_write(struct sbx_client *c, const char *id, const char *path, const void *data,
                   size_t len, int mode, struct sbx_error *err)
{
    _cleanup_free_ char *base = sbx_path_format("/v1/sandboxes/%s/files/content?path=%s", id, path);
    _cleanup_free_ char *p =
        mode >= 0 ? xasprintf("%s&mode=%04o", base, (unsigned)mode & 07777) : xstrdup(base);
    struct memory_reader m = {.data = data, .left = len};
    return sbx_upload(c, "PUT", p, read_memory, &m, (long long)len, NULL, err);
}

static int post_json(struct sbx_client *c, const char *path, json_t *request, struct sbx_error *err)
{
    if (!request)
        return libsbx_fail(err, "invalid_request", "the path is not UTF-8");
    _cleanup_free_ char *body = libsbx_dump(request);
    json_decref(request);
    return sbx_call(c, "POST", path, body, NULL, err);
}

int sbx_file_mkdir(struct sbx_client *c, const char *id, const char *path, int parents,
                   struct sbx_error *err)
{
    _cleanup_free_ char *p = sbx_path_format("/v1/sandboxes/%s/files/mkdir", id);
    return post_json(c, p, json_pack("{s:s, s:b}", "path", path, "parents", parents), err);
}

int sbx_file_remove(struct sbx_client *c, const char *id, const char *path, int recursive,
                    struct sbx_error *err)
{
    _cleanup_free_ char *p = sbx_path_format("/v1/sandboxes/%s/files?path=%s&recursive=%s", id,
                                             path, recursive ? "1" : "0");
    return sbx_call(c, "DELETE", p, NULL, NULL, err);
}

int sbx_file_move(struct sbx_client *c, const char *id, const char *from, const char *to,
                  struct sbx_error *err)
{
    _cleanup_free_ char *p = sbx_path_format("/v1/sandboxes/%s/files/move", id);
    return post_json(c, p, json_pack("{s:s, s:s}", "from", from, "to", to), err);
}
