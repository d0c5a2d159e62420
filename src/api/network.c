/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox that runs: what it may reach, and changing that. */
#include <string.h>

#include "api/handlers.h"
#include "api/network-json.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "runtime/spec.h"
#include "sandbox/sandbox.h"
#include "tool/network-change.h"

#define DROP_MAX   128
#define CHANGE_MAX 128

int handle_network_get(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (sb)
        api_reply(req, 200, network_json_view(sandbox_spec(sb)));
    return 0;
}

/* --- changing it */

struct change_call {
    struct api_request *req; /* NULL once its client has left */
    struct sandbox *sandbox; /* referenced */
    struct widening *widening;
};

static void on_changed(void *data, const struct error *err)
{
    struct change_call *c = data;
    struct api_request *req = c->req;
    struct sandbox *sb = c->sandbox;
    free(c);
    if (req) {
        req->state = NULL;
        req->on_abort = NULL;
    }
    if (req && err)
        api_fail(req, err);
    else if (req)
        api_reply(req, 200, network_json_view(sandbox_spec(sb)));
    sandbox_unref(sb);
}

static void on_change_abort(struct api_request *req)
{
    struct change_call *c = req->state;
    network_change_abandon(c->widening);
    sandbox_unref(c->sandbox);
    free(c);
}

static int parse_mode(const json_t *body, bool *ret_none, struct error *err)
{
    const char *mode = NULL;
    int r = json_member_string(body, "mode", &mode, err);
    if (r < 0)
        return r;
    if (mode && strcmp(mode, "none") != 0)
        return error_field(err, "mode", "'mode' can be \"none\", which takes all rules away");
    *ret_none = mode != NULL;
    return 0;
}

/* Each rule of a change is compared with all that the sandbox has. */
static int check_length(const json_t *body, const char *key, struct error *err)
{
    if (json_array_size(json_object_get(body, key)) <= CHANGE_MAX)
        return 0;
    return error_field(err, key, "a change has at most %d rules of each kind", CHANGE_MAX);
}

int handle_network_change(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    _cleanup_strv_ char **allow = NULL, **deny = NULL, **drop = NULL;
    bool none = false;
    if (!sb)
        return 0;
    const struct network_reading how = {sandbox_spec(sb)->intercept, clock_seen_ns() / 1000000000};
    int r = check_length(req->body, "allow", req->err);
    if (r < 0)
        return r;
    r = check_length(req->body, "deny", req->err);
    if (r < 0)
        return r;
    r = network_json_rules(req->body, "allow", &how, &allow, req->err);
    if (r < 0)
        return r;
    r = network_json_rules(req->body, "deny", &how, &deny, req->err);
    if (r < 0)
        return r;
    if (spec_has_addresses(sandbox_spec(sb)))
        r = network_json_check_denied(deny, req->err);
    if (r < 0)
        return r;
    r = json_member_strv(req->body, "drop", DROP_MAX, &drop, req->err);
    if (r < 0)
        return r;
    r = parse_mode(req->body, &none, req->err);
    if (r < 0)
        return r;
    if (!none && !(allow && *allow) && !(deny && *deny) && !(drop && *drop))
        return error_set(req->err, ERROR_INVALID, 0,
                         "'allow', 'deny', 'drop' or 'mode' is missing");
    if (r < 0)
        return r;
    struct change_call *c = new0(struct change_call);
    c->req = req;
    c->sandbox = sandbox_ref(sb);
    req->state = c;
    req->on_abort = on_change_abort;
    struct widening_request change = {.gate = req->services->gate,
                                      .sandbox = sb,
                                      .who = req->who,
                                      .terms = &req->terms,
                                      .now_s = how.now_s,
                                      .change = {allow, deny, drop, none}};
    struct widening *w = network_change_start(&change, on_changed, c);
    if (w)
        c->widening = w;
    return 0;
}
