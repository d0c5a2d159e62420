/* SPDX-License-Identifier: Apache-2.0 */
/* A kubeconfig: lists of clusters, users and contexts, each with a name. One context is taken. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "base/url.h"
#include "kube/access.h"
#include "policy/rules-yaml.h"

#define DEPTH_MAX       12
#define PLUGIN_ARGS_MAX 64
#define NAMES_MAX       400

struct config_reader {
    struct kube_access *access;
    const struct kube_access_options *options;
    const char *name, *dir;
    struct error *err;
};

/* A member of a cluster or of a user. */
struct config_member {
    const char *name;
    int (*take)(struct config_reader *r, const struct node *value, size_t offset);
    size_t offset; /* of a text of struct kube_access */
    const char *refused;
};

static int take_text(struct config_reader *r, const struct node *value, size_t offset)
{
    char **text = (char **)(void *)((char *)r->access + offset);
    if (value->type != NODE_TEXT)
        return node_error(value, r->name, r->err, "a text is expected here");
    if (!*value->text)
        return 0;
    free(*text);
    *text = xstrdup(value->text);
    return 0;
}

/* "...-data": base64 of what a file would have held; it counts before the file. */
static int take_data(struct config_reader *r, const struct node *value, size_t offset)
{
    char **text = (char **)(void *)((char *)r->access + offset);
    size_t len;
    if (value->type == NODE_TEXT && !*value->text)
        return 0;
    char *bytes = NULL;
    if (value->type != NODE_TEXT ||
        base64_decode(value->text, strlen(value->text), &bytes, &len) < 0)
        return node_error(value, r->name, r->err, "base64 is expected here");
    if (!kube_is_text(bytes, len)) {
        free(bytes);
        return node_error(value, r->name, r->err, "base64 of a PEM text is expected here");
    }
    free(*text);
    *text = bytes;
    return 0;
}

static char *path_beside(const struct config_reader *r, const char *path)
{
    return *path == '/' ? xstrdup(path) : xasprintf("%s/%s", r->dir, path);
}

static int take_file(struct config_reader *r, const struct node *value, size_t offset)
{
    char **text = (char **)(void *)((char *)r->access + offset);
    if (value->type != NODE_TEXT)
        return node_error(value, r->name, r->err, "a path is expected here");
    if (!*value->text || *text) /* the data was there before it */
        return 0;
    _cleanup_free_ char *path = path_beside(r, value->text);
    int e = kube_file_read(path, text);
    return e < 0 ? node_error(value, r->name, r->err, "%s: %s", path, strerror(-e)) : 0;
}

static int take_ca_file(struct config_reader *r, const struct node *value, size_t offset)
{
    bool is_data = r->access->ca != NULL;
    int e = take_file(r, value, offset);
    if (e == 0 && !is_data && *value->text)
        r->access->ca_file = path_beside(r, value->text);
    return e;
}

static int take_token_file(struct config_reader *r, const struct node *value, size_t offset)
{
    (void)offset;
    if (value->type != NODE_TEXT)
        return node_error(value, r->name, r->err, "a path is expected here");
    if (!*value->text)
        return 0;
    free(r->access->token_file);
    r->access->token_file = path_beside(r, value->text);
    free(steal_ptr(r->access->token));
    int e = kube_token_read(r->access->token_file, &r->access->token);
    return e < 0 ? node_error(value, r->name, r->err, "%s: %s", r->access->token_file, strerror(-e))
                 : 0;
}

static int take_nothing(struct config_reader *r, const struct node *value, size_t offset)
{
    (void)r;
    (void)value;
    (void)offset;
    return 0;
}

/* false may stand there. */
static int refuse_insecure(struct config_reader *r, const struct node *value, size_t offset)
{
    (void)offset;
    if (value->type == NODE_TEXT && strcmp(value->text, "false") == 0)
        return 0;
    return node_error(
        value, r->name, r->err,
        "insecure-skip-tls-verify is refused: any server that answers at this address would get "
        "the credential; name the server's certificate-authority instead");
}

/* --- exec plugins */

static int take_strings(struct config_reader *r, const struct node *list, char ***v, size_t n)
{
    for (size_t i = 0; list && list->type == NODE_LIST && i < list->n_items; i++) {
        if (list->items[i].type != NODE_TEXT || n >= PLUGIN_ARGS_MAX)
            return node_error(list, r->name, r->err, "a list of at most %d texts is expected here",
                              PLUGIN_ARGS_MAX);
        (*v)[n++] = xstrdup(list->items[i].text);
    }
    return 0;
}

static int take_environment(struct config_reader *r, const struct node *list)
{
    char **v = r->access->plugin_env = xcalloc(PLUGIN_ARGS_MAX + 1, sizeof(*v));
    for (size_t i = 0; list && list->type == NODE_LIST && i < list->n_items; i++) {
        const struct node *name = node_find(&list->items[i], "name");
        const struct node *value = node_find(&list->items[i], "value");
        if (!name || name->type != NODE_TEXT || !value || value->type != NODE_TEXT ||
            strchr(name->text, '=') || i >= PLUGIN_ARGS_MAX)
            return node_error(list, r->name, r->err, "a list of names and values is expected here");
        v[i] = xasprintf("%s=%s", name->text, value->text);
    }
    return 0;
}

static int take_plugin(struct config_reader *r, const struct node *value, size_t offset)
{
    const struct node *command = node_find(value, "command");
    const struct node *version = node_find(value, "apiVersion");
    const struct node *mode = node_find(value, "interactiveMode");
    (void)offset;
    if (!r->options->allow_plugin)
        return node_error(value, r->name, r->err,
                          "a program (exec) is to fetch the credential: refused unless "
                          "exec_plugins allows it");
    if (!command || command->type != NODE_TEXT || !*command->text)
        return node_error(value, r->name, r->err, "exec has no command");
    if (!version || version->type != NODE_TEXT ||
        (strcmp(version->text, "client.authentication.k8s.io/v1") != 0 &&
         strcmp(version->text, "client.authentication.k8s.io/v1beta1") != 0))
        return node_error(value, r->name, r->err,
                          "exec: apiVersion must be client.authentication.k8s.io/v1 or v1beta1");
    if (mode && mode->type == NODE_TEXT && strcmp(mode->text, "Always") == 0)
        return node_error(
            mode, r->name, r->err,
            "exec: interactiveMode must not be Always: no person is at the daemon to answer");
    r->access->plugin_version = xstrdup(version->text);
    r->access->plugin = xcalloc(PLUGIN_ARGS_MAX + 2, sizeof(char *));
    /* With a slash it is a path, beside the file; without, PATH says. */
    r->access->plugin[0] =
        strchr(command->text, '/') ? path_beside(r, command->text) : xstrdup(command->text);
    int e = take_strings(r, node_find(value, "args"), &r->access->plugin, 1);
    return e < 0 ? e : take_environment(r, node_find(value, "env"));
}

/* --- members */

#define TEXT_OF(member) offsetof(struct kube_access, member)

/* In this order: data before the file that it stands for. */
static const struct config_member cluster_members[] = {
    {"server", take_text, TEXT_OF(server), NULL},
    {"tls-server-name", take_text, TEXT_OF(server_name), NULL},
    {"proxy-url", take_text, TEXT_OF(proxy), NULL},
    {"insecure-skip-tls-verify", refuse_insecure, 0, NULL},
    {"certificate-authority-data", take_data, TEXT_OF(ca), NULL},
    {"certificate-authority", take_ca_file, TEXT_OF(ca), NULL},
    {"disable-compression", take_nothing, 0, NULL},
    {"extensions", take_nothing, 0, NULL},
    {0},
};

static const struct config_member user_members[] = {
    {"client-certificate-data", take_data, TEXT_OF(certificate), NULL},
    {"client-certificate", take_file, TEXT_OF(certificate), NULL},
    {"client-key-data", take_data, TEXT_OF(key), NULL},
    {"client-key", take_file, TEXT_OF(key), NULL},
    {"token", take_text, TEXT_OF(token), NULL},
    {"tokenFile", take_token_file, 0, NULL},
    {"exec", take_plugin, 0, NULL},
    {"extensions", take_nothing, 0, NULL},
    {"auth-provider", NULL, 0, "auth-provider was removed from Kubernetes 1.26; use exec"},
    {"username", NULL, 0, "passwords were removed from Kubernetes 1.19"},
    {"password", NULL, 0, "passwords were removed from Kubernetes 1.19"},
    {"as", NULL, 0, "impersonation is not supported"},
    {"as-uid", NULL, 0, "impersonation is not supported"},
    {"as-groups", NULL, 0, "impersonation is not supported"},
    {"as-user-extra", NULL, 0, "impersonation is not supported"},
    {0},
};

static const struct config_member context_members[] = {
    {"cluster", take_nothing, 0, NULL},
    {"user", take_nothing, 0, NULL},
    {"extensions", take_nothing, 0, NULL},
    {"namespace", take_text, TEXT_OF(namespace_), NULL},
    {0},
};

static const struct config_member *find_member(const struct config_member *all, const char *name)
{
    for (; all->name; all++)
        if (strcmp(all->name, name) == 0)
            return all;
    return NULL;
}

static int check_names(struct config_reader *r, const struct node *map,
                       const struct config_member *all)
{
    for (size_t i = 0; i + 1 < map->n_items; i += 2) {
        const struct config_member *m = find_member(all, map->items[i].text);
        if (!m)
            return node_error(&map->items[i], r->name, r->err, "'%.80s' is not known here",
                              map->items[i].text);
        if (m->refused)
            return node_error(&map->items[i], r->name, r->err, "'%s' is refused: %s", m->name,
                              m->refused);
    }
    return 0;
}

static int take_members(struct config_reader *r, const struct node *map,
                        const struct config_member *all)
{
    if (map->type != NODE_MAP)
        return node_error(map, r->name, r->err, "a map is expected here");
    int e = check_names(r, map, all);
    for (; e == 0 && all->name; all++) {
        const struct node *value = node_find(map, all->name);
        if (value && all->take)
            e = all->take(r, value, all->offset);
    }
    return e;
}

/* --- one context */

static void list_names(const struct node *list, char *out, size_t size)
{
    out[0] = 0;
    for (size_t i = 0; list && list->type == NODE_LIST && i < list->n_items; i++) {
        const struct node *name = node_find(&list->items[i], "name");
        size_t at = strlen(out);
        if (name && name->type == NODE_TEXT)
            snprintf(out + at, size - at, "%s%.60s", at ? ", " : "", name->text);
    }
}

/* The map that goes by a name: "contexts: [{name, context: {...}}]". */
static const struct node *find_named(struct config_reader *r, const struct node *root,
                                     const char *list_name, const char *member, const char *wanted)
{
    const struct node *list = node_find(root, list_name);
    char known[NAMES_MAX];
    for (size_t i = 0; list && list->type == NODE_LIST && i < list->n_items; i++) {
        const struct node *name = node_find(&list->items[i], "name");
        const struct node *value = node_find(&list->items[i], member);
        if (name && name->type == NODE_TEXT && value && strcmp(name->text, wanted) == 0)
            return value;
    }
    list_names(list, known, sizeof(known));
    error_set(r->err, ERROR_INVALID, 0, "%s: no %s '%.100s' (there are: %s)", r->name, member,
              wanted, known[0] ? known : "none");
    return NULL;
}

static const char *text_member(const struct node *map, const char *name)
{
    const struct node *n = node_find(map, name);
    return n && n->type == NODE_TEXT && *n->text ? n->text : NULL;
}

static int check_proxy(struct config_reader *r)
{
    const char *proxy = r->access->proxy;
    if (!proxy || strncmp(proxy, "http://", 7) == 0 || strncmp(proxy, "socks5://", 9) == 0)
        return 0;
    return error_set(r->err, ERROR_INVALID, 0,
                     "%s: proxy-url: only http:// and socks5:// proxies are supported", r->name);
}

static int check_access(struct config_reader *r)
{
    struct kube_access *a = r->access;
    struct url url;
    int e = a->server ? url_parse(a->server, &url) : -EINVAL;
    if (e < 0)
        return error_set(r->err, ERROR_INVALID, 0, "%s: server is not an https:// address",
                         r->name);
    if (!url.tls || url.has_user || strpbrk(url.rest, "?#"))
        return error_set(r->err, ERROR_INVALID, 0,
                         "%s: server must be an https:// address without a user or a query: "
                         "without TLS the credential could be read on the way",
                         r->name);
    memcpy(a->server, "https://", strlen("https://")); /* in whatever case it was */
    for (size_t n = strlen(a->server); n && a->server[n - 1] == '/'; n--)
        a->server[n - 1] = 0;
    if (!a->ca)
        return error_set(r->err, ERROR_INVALID, 0,
                         "%s: the cluster has no certificate-authority; the authorities of the "
                         "host are not used for it",
                         r->name);
    if (!a->certificate != !a->key)
        return error_set(r->err, ERROR_INVALID, 0,
                         "%s: client-certificate and client-key go together", r->name);
    if (!a->certificate && !a->token && !a->plugin)
        return error_set(r->err, ERROR_INVALID, 0, "%s: the user has no credential", r->name);
    for (const char *p = a->token; p && *p; p++)
        if (*p <= ' ' || *p > '~')
            return error_set(r->err, ERROR_INVALID, 0, "%s: token: not the text of a token",
                             r->name);
    return check_proxy(r);
}

static int take_context(struct config_reader *r, const struct node *root)
{
    const char *name =
        r->options->context ? r->options->context : text_member(root, "current-context");
    if (!name)
        return error_set(r->err, ERROR_INVALID, 0,
                         "%s: no context is named, and there is no "
                         "current-context",
                         r->name);
    const struct node *context = find_named(r, root, "contexts", "context", name);
    if (!context)
        return -EINVAL;
    int e = take_members(r, context, context_members);
    const char *cluster = text_member(context, "cluster"), *user = text_member(context, "user");
    if (e == 0 && (!cluster || !user))
        e = node_error(context, r->name, r->err, "the context has no cluster or no user");
    if (e < 0)
        return e;
    const struct node *found = find_named(r, root, "clusters", "cluster", cluster);
    e = found ? take_members(r, found, cluster_members) : -EINVAL;
    if (e < 0)
        return e;
    found = find_named(r, root, "users", "user", user);
    e = found ? take_members(r, found, user_members) : -EINVAL;
    return e < 0 ? e : check_access(r);
}

int kube_access_parse_config(struct kube_access *ret, const char *text, size_t len,
                             const char *name, const char *dir,
                             const struct kube_access_options *options, struct error *err)
{
    _cleanup_kube_access_ struct kube_access a = {0};
    struct config_reader r = {
        .access = &a, .options = options, .name = name, .dir = dir, .err = err};
    struct node *root = node_parse(text, len, name, DEPTH_MAX, err);
    if (!root)
        return -EINVAL;
    int e = take_context(&r, root);
    node_free(root);
    if (e < 0)
        return e;
    *ret = a;
    a = (struct kube_access){0};
    return 0;
}

int kube_access_load_config(struct kube_access *ret, const char *path,
                            const struct kube_access_options *options, struct error *err)
{
    _cleanup_free_ char *text = NULL, *dir = xstrdup(path);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = 0;
    int r = kube_file_read(path, &text);
    if (r < 0)
        return error_set(err, ERROR_INVALID, -r, "%s", path);
    return kube_access_parse_config(ret, text, strlen(text), path, slash ? dir : ".", options, err);
}
