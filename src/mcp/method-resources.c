/* SPDX-License-Identifier: Apache-2.0 */
/* resources/list, read, templates/list, subscribe and unsubscribe. */
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/map.h"
#include "mcp/internal.h"

#define URI_MAX 4096

void method_resources_list(struct mcp_call *call)
{
    const struct mcp *m = call->session->mcp;
    _cleanup_json_ json_t *all = json_array();
    for (size_t i = 0; i < m->o.n_catalogs; i++) {
        const struct mcp_catalog *c = m->o.catalogs[i];
        for (size_t k = 0; k < c->n_resources; k++)
            if (c->resources[k].list)
                c->resources[k].list(call->session, all);
    }
    call_finish_page(call, "resources", all);
}

void method_resources_templates(struct mcp_call *call)
{
    call_finish_page(call, "resourceTemplates", call->session->mcp->template_list);
}

/* Who serves the call's uri, or NULL after failing the call. */
static const struct mcp_resource_provider *find_provider(struct mcp_call *call,
                                                         const char **ret_uri)
{
    const char *uri = call_param_string(call, "uri");
    if (!uri)
        return NULL;
    const struct mcp_resource_provider *p =
        strlen(uri) <= URI_MAX ? catalog_find_provider(call->session->mcp, uri) : NULL;
    if (!p)
        mcp_call_fail_rpc(call, RPC_RESOURCE_NOT_FOUND, "there is no resource '%.200s'", uri);
    *ret_uri = uri;
    return p;
}

void method_resources_read(struct mcp_call *call)
{
    const char *uri;
    const struct mcp_resource_provider *p = find_provider(call, &uri);
    if (p)
        p->read(call, uri);
}

void method_resources_subscribe(struct mcp_call *call)
{
    struct error err = {0};
    struct mcp_session *s = call->session;
    const char *uri;
    const struct mcp_resource_provider *p = find_provider(call, &uri);
    if (!p)
        return;
    if (!p->check_subscribe || p->check_subscribe(s, uri, &err) < 0) {
        mcp_call_fail_rpc(
            call, RPC_INVALID_PARAMS, "%s",
            error_is_set(&err)
                ? err.message
                : "changes of this resource are not announced, so it cannot be subscribed to");
    } else if (!map_find(s->subscriptions, uri) &&
               map_count(s->subscriptions) >= s->mcp->o.config.max_subscriptions) {
        mcp_call_fail_rpc(call, RPC_INVALID_PARAMS,
                          "the session has %zu subscriptions (mcp_max_subscriptions)",
                          s->mcp->o.config.max_subscriptions);
    } else {
        map_put(s->subscriptions, uri, s);
        mcp_call_finish(call, json_object());
    }
}

void method_resources_unsubscribe(struct mcp_call *call)
{
    const char *uri = call_param_string(call, "uri");
    if (!uri)
        return;
    map_remove(call->session->subscriptions, uri);
    mcp_call_finish(call, json_object());
}
