/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <jansson.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/session.h"
#include "cli/transfer.h"
#include "libsbx/sbx.h"

void remote_done(struct remote *r)
{
    free(r->id);
    free(r->path);
    *r = (struct remote){0};
}

bool remote_parse(const char *text, struct remote *ret)
{
    size_t len = strcspn(text, ":/");
    if (text[len] != ':' || len == 0)
        return false;
    ret->id = xstrndup(text, len);
    ret->path = transfer_remote_path(text + len + 1);
    ret->relative = text[len + 1] != '/';
    return true;
}

/* Only such a sandbox shares anything. */
char *remote_path_in(const json_t *sandbox, const char *path)
{
    const char *workdir = json_string_value(json_object_get(sandbox, "workdir"));
    const json_t *effective = json_object_get(sandbox, "effective");
    if (path[0] == '/' || !workdir || !json_object_get(effective, "shares"))
        return transfer_remote_path(path);
    return *path ? xasprintf("%s/%s", workdir, path) : xstrdup(workdir);
}

int remote_settle(struct session *s, struct remote *r, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s", r->id);
    _cleanup_json_ json_t *sandbox = NULL;
    if (!r->relative)
        return 0;
    if (session_call(s, "GET", path, NULL, &sandbox, err) < 0)
        return -1;
    _cleanup_free_ char *home = transfer_remote_path("");
    const char *rest = r->path + strlen(home);
    char *settled = remote_path_in(sandbox, *rest == '/' ? rest + 1 : rest);
    free(r->path);
    r->path = settled;
    return 0;
}

static int check_sandbox(struct session *s, const char *id, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s", id);
    return sbx_call(s->client, "GET", path, NULL, NULL, err);
}

int remote_stat(struct session *s, const struct remote *r, enum remote_kind *ret,
                struct sbx_error *err)
{
    _cleanup_free_ char *path =
        sbx_path_format("/v1/sandboxes/%s/files/stat?path=%s", r->id, r->path);
    _cleanup_json_ json_t *st = NULL;
    if (session_call(s, "GET", path, NULL, &st, err) == 0) {
        const char *type = json_string_value(json_object_get(st, "type"));
        bool dir =
            json_is_true(json_object_get(st, "is_dir")) || (type && strncmp(type, "dir", 3) == 0);
        *ret = dir ? REMOTE_DIRECTORY : REMOTE_OTHER;
        return 0;
    }
    if (strcmp(err->code, "not_found") != 0 || check_sandbox(s, r->id, err) < 0)
        return -1;
    *ret = REMOTE_ABSENT;
    return 0;
}
