/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kube-stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/random.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "kube/access.h"
#include "kube/ceiling.h"
#include "proto/handover.h"
#include "proto/kube.h"

static char *copy_text(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static char **copy_list(char **list)
{
    return list ? strv_copy(list) : NULL;
}

/* A limit of 0 means that there is no limit. */
static struct kube_ceiling make_ceiling(const struct config *c)
{
    const struct kube_config *k = &c->kube;
    const struct limits *most = &c->max_limits;
    bool streams = config_has_streams(c);
    return (struct kube_ceiling){
        .prefix = copy_text(k->prefix),
        .instance = copy_text(k->instance),
        .home = copy_text(k->home),
        .images = copy_list(k->images),
        .runtime_classes = copy_list(k->runtime_classes),
        .storage_classes = copy_list(k->storage_classes),
        .networks = copy_list(c->network_cidrs),
        .link_image = copy_text(k->link_image),
        .priority_class = copy_text(k->priority_class),
        .lease_namespace = copy_text(k->lease_namespace),
        .shared_namespace = copy_text(k->shared_namespace),
        .direct_port = k->direct_port,
        .direct_from = copy_text(k->direct_from),
        .uid_first = k->uid_first,
        .uid_count = k->uid_count,
        .cpu_millicores = most->cpu_millicores ? most->cpu_millicores : UINT32_MAX,
        .memory_bytes = most->memory_bytes ? most->memory_bytes : KUBE_QUANTITY_MAX,
        .disk_bytes = k->disk_bytes,
        .orphan_s = (uint32_t)(k->orphan_ms / 1000),
        .host_path = k->host_path ? copy_text(c->api.cache_hostpath) : NULL,
        .stream_image = streams ? copy_text(c->stream_sidecar_image) : NULL,
        .stream_endpoint = streams ? copy_text(c->stream_endpoint) : NULL,
        .stream_events_dir = streams ? copy_text(c->stream_events_dir) : NULL,
        .node_disk = k->node_disk,
        .own_users = k->own_users,
        .writable_root = k->writable_root,
    };
}

static int load_access(const struct config *c, struct kube_access *ret, struct error *err)
{
    struct kube_access_options options = {.context = c->kube.context,
                                          .allow_plugin = c->kube.exec_plugins};
    if (c->kube.config_file)
        return kube_access_load_config(ret, c->kube.config_file, &options, err);
    return kube_access_load_pod(ret, KUBE_POD_DIR, getenv("KUBERNETES_SERVICE_HOST"),
                                getenv("KUBERNETES_SERVICE_PORT"), err);
}

/* For the relay to a broker that runs elsewhere: nothing of the cluster is known here. */
static int seal_relay(const struct config *c, struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(HANDOVER_CONFIG_MAX);
    _cleanup_json_ json_t *settings =
        json_pack("{s:s, s:s, s:s}", "relay", c->kube.socket, "log_level", c->log_level,
                  "log_format", c->log_format);
    int r = json_format(settings, &text);
    if (r >= 0)
        r = fd_sealed_memory("mas-kube-settings", text.data, text.len);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "hand the broker's socket over") : r;
}

int kube_stage_seal(const struct config *c, const char *state_dir, struct error *err)
{
    _cleanup_kube_access_ struct kube_access access = {0};
    _cleanup_kube_ceiling_ struct kube_ceiling ceiling = {0}, same = {0};
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(HANDOVER_CONFIG_MAX);
    if (!kube_is_configured(&c->kube))
        return -1;
    if (c->kube.home && !kube_label_is_valid(c->kube.home, KUBE_NAME_SIZE - 1))
        return error_set(err, ERROR_INVALID, 0,
                         "the cluster: kube_home has at most %d lower-case letters, digits and '-'",
                         KUBE_NAME_SIZE - 1);
    if (c->kube.socket)
        return seal_relay(c, err);
    ceiling = make_ceiling(c);
    _cleanup_json_ json_t *object = kube_ceiling_format(&ceiling);
    int r = kube_ceiling_parse(&same, object, err); /* which is where it is checked */
    if (r >= 0)
        r = load_access(c, &access, err);
    if (r < 0) {
        error_prefix(err, "the cluster");
        return r;
    }
    /* Of this start of the daemon: a broker that dies does not hold back the one after it. */
    char holder[24];
    snprintf(holder, sizeof(holder), "%08x%08x", random_below(UINT32_MAX),
             random_below(UINT32_MAX));
    _cleanup_json_ json_t *settings =
        json_pack("{s:o, s:O, s:s, s:s, s:s}", "access", kube_access_format(&access), "ceiling",
                  object, "holder", holder, "log_level", c->log_level, "log_format", c->log_format);
    if (c->kube.direct_port) {
        _cleanup_free_ char *key = xasprintf("%s/kube-direct.key", state_dir);
        json_object_set_new(settings, "direct_key", json_string(key));
    }
    r = json_format(settings, &text);
    if (r >= 0)
        r = fd_sealed_memory("mas-kube-settings", text.data, text.len);
    explicit_bzero(text.data, text.len);
    return r < 0 ? error_set(err, ERROR_INTERNAL, -r, "hand the cluster's credential over") : r;
}
