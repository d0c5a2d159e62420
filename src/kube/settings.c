/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/members.h"
#include "base/random.h"
#include "proto/kube.h"

#define HOST_SIZE 64

static const struct member settings_members[] = {
    {"access", MEMBER_OR_OTHER, NULL, NULL},
    {"kubeconfig", 0, NULL, NULL},
    {"context", 0, NULL, NULL},
    {"exec_plugins", 0, NULL, NULL},
    {"ceiling", MEMBER_OR_OTHER, NULL, NULL},
    {"direct_key", 0, NULL, NULL},
    {"holder", 0, NULL, NULL},
    {"relay", 0, NULL, NULL},
    {"log_level", 0, NULL, NULL},
    {"log_format", 0, NULL, NULL},
    {0},
};

static int load_access(struct kube_settings *s, const json_t *o, struct error *err)
{
    json_t *access = NULL;
    const char *kubeconfig = NULL;
    struct kube_access_options options = {0};
    int r = json_member_object(o, "access", &access, err);
    r = r < 0 ? r : json_member_string(o, "kubeconfig", &kubeconfig, err);
    r = r < 0 ? r : json_member_string(o, "context", &options.context, err);
    r = r < 0 ? r : json_member_bool(o, "exec_plugins", &options.allow_plugin, err);
    if (r < 0)
        return r;
    if (access)
        return kube_access_parse(&s->access, access, err);
    if (kubeconfig)
        return kube_access_load_config(&s->access, kubeconfig, &options, err);
    return kube_access_load_pod(&s->access, KUBE_POD_DIR, getenv("KUBERNETES_SERVICE_HOST"),
                                getenv("KUBERNETES_SERVICE_PORT"), err);
}

static int load_direct(struct kube_settings *s, const json_t *o, struct error *err)
{
    const char *path = NULL;
    int r = json_member_string(o, "direct_key", &path, err);
    if (r >= 0 && !path != !s->ceiling.direct_port)
        return error_set(err, ERROR_INVALID, 0,
                         "direct_key and the ceiling's direct_port go together");
    s->direct_key = path ? xstrdup(path) : NULL;
    return r;
}

static int load_holder(struct kube_settings *s, const json_t *o, struct error *err)
{
    char host[HOST_SIZE] = "", made[24];
    const char *number = made;
    s->holder_made_up = !json_object_get(o, "holder");
    snprintf(made, sizeof(made), "%08x%08x", random_below(UINT32_MAX), random_below(UINT32_MAX));
    int r = json_member_string(o, "holder", &number, err);
    if (r >= 0 && !kube_label_is_valid(number, HOST_SIZE - 1))
        return error_set(err, ERROR_INVALID, 0, "holder: letters, digits and '-'");
    gethostname(host, sizeof(host) - 1);
    for (char *p = host; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '.')
            *p = '-';
    s->holder = xasprintf("%s-%s", host, number);
    return r;
}

static int load_log(struct kube_settings *s, const json_t *o, struct error *err)
{
    const char *level = "info", *format = "text";
    int r = json_member_string(o, "log_level", &level, err);
    r = r < 0 ? r : json_member_string(o, "log_format", &format, err);
    if (r >= 0 && log_level_parse(level, &s->log_level) < 0)
        r = error_set(err, ERROR_INVALID, 0, "log_level: '%.40s' is not a level", level);
    if (r >= 0 && strcmp(format, "text") != 0 && strcmp(format, "json") != 0)
        r = error_set(err, ERROR_INVALID, 0, "log_format: text or json");
    s->log_json = strcmp(format, "json") == 0;
    return r;
}

static void kube_settings_done(struct kube_settings *s)
{
    kube_access_done(&s->access);
    kube_ceiling_done(&s->ceiling);
    free(s->direct_key);
    free(s->holder);
    free(s->relay);
}

/* Whatever else is named would have no effect. */
static int load_relay(struct kube_settings *s, const json_t *o, struct error *err)
{
    static const char *const others[] = {"access",  "kubeconfig", "context", "exec_plugins",
                                         "ceiling", "direct_key", "holder"};
    const char *path = NULL;
    int r = json_member_string(o, "relay", &path, err);
    for (size_t i = 0; r >= 0 && path && i < ELEMENTS(others); i++)
        if (json_object_get(o, others[i]))
            return error_set(err, ERROR_INVALID, 0, "%s: not beside relay", others[i]);
    s->relay = path ? xstrdup(path) : NULL;
    return r;
}

int kube_settings_parse(struct kube_settings *ret, const char *text, size_t len, struct error *err)
{
    const struct members_check strict = {0};
    struct kube_settings s = {.log_level = LOG_INFO};
    json_t *ceiling = NULL;
    _cleanup_json_ json_t *o = json_parse_object(text, len, err);
    int r = o ? members_check(&strict, o, settings_members, "", err) : -1;
    r = r < 0 ? r : load_relay(&s, o, err);
    r = r < 0 ? r : load_log(&s, o, err);
    if (r >= 0 && s.relay) {
        *ret = s;
        return 0;
    }
    r = r < 0 ? r : json_member_object(o, "ceiling", &ceiling, err);
    if (r >= 0 && !ceiling)
        r = error_set(err, ERROR_INVALID, 0, "ceiling: it is missing: nothing would be allowed");
    r = r < 0 ? r : error_within(err, kube_ceiling_parse(&s.ceiling, ceiling, err), "ceiling");
    r = r < 0 ? r : load_direct(&s, o, err);
    r = r < 0 ? r : load_holder(&s, o, err);
    r = r < 0 ? r : load_access(&s, o, err);
    if (r < 0)
        kube_settings_done(&s);
    else
        *ret = s;
    return r < 0 ? r : 0;
}
