/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/access.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "base/url.h"
#include "base/utf8.h"

static const struct {
    const char *name;
    size_t offset;
} texts[] = {
    {"server", offsetof(struct kube_access, server)},
    {"server_name", offsetof(struct kube_access, server_name)},
    {"proxy", offsetof(struct kube_access, proxy)},
    {"ca", offsetof(struct kube_access, ca)},
    {"ca_file", offsetof(struct kube_access, ca_file)},
    {"certificate", offsetof(struct kube_access, certificate)},
    {"key", offsetof(struct kube_access, key)},
    {"token", offsetof(struct kube_access, token)},
    {"token_file", offsetof(struct kube_access, token_file)},
    {"namespace", offsetof(struct kube_access, namespace_)},
    {"plugin_version", offsetof(struct kube_access, plugin_version)},
};

static char **text_of(const struct kube_access *a, size_t i)
{
    return (char **)(void *)((char *)(uintptr_t)a + texts[i].offset);
}

void kube_access_done(struct kube_access *a)
{
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        free(*text_of(a, i));
    strv_free(a->plugin);
    strv_free(a->plugin_env);
    *a = (struct kube_access){0};
}

json_t *kube_access_format(const struct kube_access *a)
{
    json_t *out = json_object();
    for (size_t i = 0; i < ELEMENTS(texts); i++)
        if (*text_of(a, i))
            json_object_set_new(out, texts[i].name, json_string(*text_of(a, i)));
    json_object_set_new(out, "plugin", json_from_strv(a->plugin));
    json_object_set_new(out, "plugin_env", json_from_strv(a->plugin_env));
    return out;
}

static int take_list(const json_t *object, const char *name, char ***ret, struct error *err)
{
    int r = json_member_strv(object, name, 256, ret, err);
    if (r >= 0 && *ret && !(*ret)[0]) {
        strv_free(*ret);
        *ret = NULL;
    }
    return r;
}

int kube_access_parse(struct kube_access *ret, const json_t *object, struct error *err)
{
    _cleanup_kube_access_ struct kube_access a = {0};
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ELEMENTS(texts); i++) {
        const char *value = NULL;
        r = json_member_string(object, texts[i].name, &value, err);
        if (value)
            *text_of(&a, i) = xstrdup(value);
    }
    r = r < 0 ? r : take_list(object, "plugin", &a.plugin, err);
    r = r < 0 ? r : take_list(object, "plugin_env", &a.plugin_env, err);
    if (r >= 0 && (!a.server || !a.ca))
        r = error_set(err, ERROR_INVALID, 0, "no server or no authority");
    if (r < 0)
        return r;
    *ret = a;
    a = (struct kube_access){0};
    return 0;
}

bool kube_is_text(const char *data, size_t len)
{
    return !memchr(data, 0, len) && utf8_valid_prefix(data, len) == len;
}

int kube_file_read(const char *path, char **ret)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(KUBE_FILE_MAX);
    int r = fd_read_file_at(AT_FDCWD, path, &b);
    if (r < 0)
        return r;
    if (b.len && !kube_is_text(b.data, b.len))
        return -EINVAL;
    *ret = strbuf_steal(&b);
    return 0;
}

int kube_token_read(const char *path, char **ret)
{
    _cleanup_free_ char *text = NULL;
    int r = kube_file_read(path, &text);
    if (r < 0)
        return r;
    const char *start = text + strspn(text, " \t\r\n");
    size_t len = strlen(start);
    while (len && strchr(" \t\r\n", start[len - 1]))
        len--;
    for (size_t i = 0; i < len; i++)
        if (start[i] <= ' ' || start[i] > '~')
            return -EINVAL;
    if (len == 0)
        return -EINVAL;
    *ret = xstrndup(start, len);
    return 0;
}

int kube_access_load_pod(struct kube_access *ret, const char *dir, const char *host,
                         const char *port, struct error *err)
{
    _cleanup_kube_access_ struct kube_access a = {0};
    char path[PATH_MAX];
    struct url url;
    if (!host || !*host || !port || !*port)
        return error_set(err, ERROR_INVALID, 0,
                         "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is "
                         "no pod of a cluster");
    a.server = xasprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host, port);
    if (url_parse(a.server, &url) < 0)
        return error_set(err, ERROR_INVALID, 0, "'%.200s' is not the address of a server",
                         a.server);
    a.ca_file = xasprintf("%s/ca.crt", dir);
    a.token_file = xasprintf("%s/token", dir);
    int r = kube_file_read(a.ca_file, &a.ca);
    if (r < 0)
        return error_set(err, ERROR_INVALID, -r, "%s", a.ca_file);
    r = kube_token_read(a.token_file, &a.token);
    if (r < 0)
        return error_set(err, ERROR_INVALID, -r, "%s", a.token_file);
    snprintf(path, sizeof(path), "%s/namespace", dir);
    kube_token_read(path, &a.namespace_); /* absent where no namespace is projected */
    *ret = a;
    a = (struct kube_access){0};
    return 0;
}
