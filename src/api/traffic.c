/* SPDX-License-Identifier: Apache-2.0 */
#include "api/traffic.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/durable-reply.h"
#include "api/handlers.h"
#include "api/ports.h"
#include "audit/audit.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/url.h"
#include "base/weak.h"
#include "identity/keys.h"
#include "net/http.h"
#include "port/filter.h"
#include "port/host.h"
#include "port/token.h"

#define COOKIE_NAME  PORT_COOKIE_PREFIX "traffic"
#define LIFETIME_MAX (366 * 24 * 3600)

/* --- who asks */

/* The value of our cookie, copied out of a Cookie header; false: there is none. */
static bool find_cookie(struct http_request *http, char out[TRAFFIC_SECRET_SIZE])
{
    const char *name = http_request_is_tls(http) ? "__Host-" COOKIE_NAME "=" : COOKIE_NAME "=";
    const char *p = http_request_header(http, "Cookie");
    size_t n = strlen(name);
    while (p && *p) {
        p += strspn(p, "; ");
        size_t len = strcspn(p, ";");
        if (len > n && !strncmp(p, name, n) && len - n < TRAFFIC_SECRET_SIZE) {
            memcpy(out, p + n, len - n);
            out[len - n] = 0;
            return true;
        }
        p += len;
    }
    return false;
}

static bool is_own_origin(struct http_request *http, const char *origin)
{
    const char *host = http_request_header(http, "Host");
    /* A proxy that ends TLS in front of this daemon leaves "https" in the origin. */
    bool scheme = strncasecmp(origin, "https:", 6) == 0 ||
                  (!http_request_is_tls(http) && strncasecmp(origin, "http:", 5) == 0);
    return scheme && origin_is_of_host(origin, host);
}

/* A browser sends a cookie by itself, whichever page makes the request, and hosts below one domain
 * are of one site to it, so that SameSite does not tell their pages apart. Every page of a sandbox
 * has the origin "null", because it is served with a policy that says so: "null" is any of them,
 * and may be that of another sandbox. By a cookie such a page may look (it reads no answer of
 * another host), but not change anything and not open a connection. */
static bool may_use_cookie(struct http_request *http)
{
    enum http_method method = http_request_method(http);
    const char *origin = http_request_header(http, "Origin");
    const char *site = http_request_header(http, "Sec-Fetch-Site");
    bool looks =
        (method == HTTP_GET_ || method == HTTP_HEAD_) && !http_request_header(http, "Upgrade");
    if (origin && strcmp(origin, "null") != 0)
        return is_own_origin(http, origin);
    if (looks)
        return true;
    return !origin && site && (!strcmp(site, "same-origin") || !strcmp(site, "none"));
}

static const struct traffic_token *find_token(struct api_request *req, bool *ret_given)
{
    uint16_t port;
    char id[PORT_HOST_ID_SIZE], cookie[TRAFFIC_SECRET_SIZE];
    struct traffic_tokens *t = req->services->traffic;
    const char *header = http_request_header(req->http, "X-Mas-Traffic-Token");
    *ret_given = header;
    if (header)
        return traffic_token_identify(t, header);
    if (port_host_parse(http_request_header(req->http, "Host"), req->services->config.ports_domain,
                        &port, id) != 1 ||
        !find_cookie(req->http, cookie) || !may_use_cookie(req->http))
        return NULL;
    const struct traffic_token *found = traffic_token_identify_cookie(t, cookie, port);
    return found && strcmp(found->sandbox, id) == 0 ? found : NULL;
}

/* Whether the maker of a token could come by itself now. */
static int check_maker(const struct services *o, const struct identity *maker, int64_t rotations,
                       struct error *err)
{
    struct error ended = {0};
    const struct key *key = keys_find(o->keys, maker->key);
    bool there =
        keys_check_live(o->keys, maker, &ended) >= 0 && (!key || key->rotations == rotations);
    if (!*maker->key)
        there = !auth_is_needed(o);
    else if (strcmp(maker->key, IDENTITY_TOKEN) == 0)
        there = o->config.token;
    return there ? 0
                 : error_set(err, ERROR_UNAUTHORIZED, 0,
                             "the key that made this traffic token has ended or was rotated");
}

int traffic_identify(struct api_request *req, struct error *err)
{
    bool given;
    const struct traffic_token *t = find_token(req, &given);
    if (!t && !given)
        return 0;
    if (!t)
        return error_set(err, ERROR_UNAUTHORIZED, 0, "the traffic token is wrong, or has ended");
    struct identity *who = &req->identity;
    *who = keys_identity_of(req->services->keys, t->owner);
    if (check_maker(req->services, who, t->rotations, err) < 0)
        return -1;
    who->roles = ROLE_AGENT;
    snprintf(who->name, sizeof(who->name), "%s", t->id);
    snprintf(req->traffic, sizeof(req->traffic), "%s", t->id);
    return 1;
}

struct sandbox *traffic_find_sandbox(struct api_request *req, const char *id_or_alias)
{
    struct sandbox *sb = sandbox_find(req->services->manager, req->owner, id_or_alias);
    return sb && traffic_token_find(req->services->traffic, sandbox_generation(sb), req->traffic)
               ? sb
               : NULL;
}

int traffic_check_place(const struct api_request *req, struct sandbox *sb, uint16_t port,
                        struct error *err)
{
    if (!*req->traffic)
        return 0;
    const struct traffic_token *t =
        traffic_token_find(req->services->traffic, sandbox_generation(sb), req->traffic);
    if (t && (!t->port || t->port == port))
        return 0;
    return error_set(err, ERROR_NOT_FOUND, 0, "the traffic token is for other ports");
}

/* --- routes */

/* On record before it is done. */
static int record_token(struct api_request *req, struct sandbox *sb, const char *outcome,
                        json_t *details, struct error *err)
{
    _cleanup_json_ json_t *owned = details;
    struct audit_record r = {.kind = "network",
                             .who = req->who,
                             .sandbox = sandbox_id(sb),
                             .tool = GATE_PORT_TOKEN,
                             .outcome = outcome,
                             .details = owned};
    return req->services->audit ? audit_write(req->services->audit, &r, NULL, err) : 0;
}

/* The sandbox, if it is the caller's own: a role that may look at all sandboxes may not open ways
 * into them. NULL after answering. */
static struct sandbox *find_own(struct api_request *req)
{
    struct error err = {0};
    struct sandbox *sb = api_find_sandbox(req);
    if (!sb || strcmp(sandbox_owner(sb), req->owner) == 0)
        return sb;
    error_set(&err, ERROR_FORBIDDEN, 0, "sandbox %s belongs to another key", sandbox_id(sb));
    api_fail(req, &err);
    return NULL;
}

static int parse_token(struct api_request *req, struct sandbox *sb, struct traffic_token *ret,
                       int64_t *ret_lifetime_s, struct error *err)
{
    const char *name = "";
    int64_t port = 0;
    *ret_lifetime_s = 0;
    int r = json_member_string(req->body, "name", &name, err);
    if (r < 0)
        return r;
    r = json_member_int(req->body, "port", 1, 65535, &port, err);
    if (r < 0)
        return r;
    r = json_member_int(req->body, "expires_in_s", 1, LIFETIME_MAX, ret_lifetime_s, err);
    if (r < 0)
        return r;
    if (strlen(name) > TRAFFIC_NAME_MAX)
        return error_field(err, "name", "'name' has at most %d bytes", TRAFFIC_NAME_MAX);
    *ret = (struct traffic_token){.port = (uint16_t)port};
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    snprintf(ret->sandbox, sizeof(ret->sandbox), "%s", sandbox_id(sb));
    snprintf(ret->generation, sizeof(ret->generation), "%s", sandbox_generation(sb));
    snprintf(ret->owner, sizeof(ret->owner), "%s", req->owner);
    const struct key *key = keys_find(req->services->keys, req->owner);
    ret->rotations = key ? key->rotations : 0;
    return 0;
}

int handle_traffic_add(struct api_request *req)
{
    struct traffic_token what;
    int64_t lifetime_s;
    char secret[TRAFFIC_SECRET_SIZE];
    struct sandbox *sb = find_own(req);
    if (!sb)
        return 0;
    if (parse_token(req, sb, &what, &lifetime_s, req->err) < 0 ||
        ports_check_gate(req, sb, GATE_PORT_TOKEN, req->err) < 0 ||
        record_token(req, sb, "token_made", json_pack("{s:i}", "port", (int)what.port), req->err) <
            0)
        return -1;
    struct durable_reply *p = durable_reply_new(req, 201);
    const struct traffic_token *t = traffic_token_add(req->services->traffic, &what, lifetime_s,
                                                      secret, durable_reply_send, p, req->err);
    if (!t) {
        durable_reply_free(p);
        return -1;
    }
    p->answer = traffic_token_to_json(t);
    json_object_set_new(p->answer, "token", json_string(secret));
    explicit_bzero(secret, sizeof(secret));
    return 0;
}

int handle_traffic_list(struct api_request *req)
{
    struct sandbox *sb = api_find_sandbox(req);
    if (sb)
        api_reply(req, 200,
                  json_pack("{s:o}", "tokens",
                            traffic_tokens_list(req->services->traffic, sandbox_generation(sb))));
    return 0;
}

static int say_unknown(struct api_request *req, struct sandbox *sb, struct error *err)
{
    return error_set(err, ERROR_NOT_FOUND, 0, "sandbox %s has no traffic token '%.40s'",
                     sandbox_id(sb), req->params[1]);
}

/* The token that the path names; NULL after answering. */
static const struct traffic_token *find_named(struct api_request *req, struct sandbox *sb)
{
    struct error err = {0};
    const struct traffic_token *t =
        traffic_token_find(req->services->traffic, sandbox_generation(sb), req->params[1]);
    if (t)
        return t;
    say_unknown(req, sb, &err);
    api_fail(req, &err);
    return NULL;
}

/* Its time was over before it was revoked or linked: it is answered as one that is not there. */
static int token_is_over(struct durable_reply *p, struct api_request *req, struct sandbox *sb)
{
    durable_reply_free(p);
    return say_unknown(req, sb, req->err);
}

int handle_traffic_revoke(struct api_request *req)
{
    struct sandbox *sb = find_own(req);
    const struct traffic_token *t = sb ? find_named(req, sb) : NULL;
    if (!t)
        return 0;
    char id[TRAFFIC_ID_SIZE];
    snprintf(id, sizeof(id), "%s", t->id);
    if (record_token(req, sb, "token_revoked", json_pack("{s:s}", "token", id), req->err) < 0)
        return -1;
    struct durable_reply *p = durable_reply_new(req, 200);
    p->answer = json_pack("{s:s, s:b}", "id", id, "revoked", 1);
    if (traffic_token_revoke(req->services->traffic, sandbox_generation(sb), id, durable_reply_send,
                             p) < 0)
        return token_is_over(p, req, sb);
    return 0;
}

/* --- links */

static json_t *make_url(struct api_request *req, struct sandbox *sb, unsigned port,
                        const char *secret)
{
    const char *host = http_request_header(req->http, "Host");
    const char *at = host ? strrchr(host, ':') : NULL;
    bool number = at && at[1] && !at[1 + strspn(at + 1, "0123456789")];
    char url[512];
    snprintf(url, sizeof(url), "%s://%u-%s.%s%s%s?code=%s",
             http_request_is_tls(req->http) ? "https" : "http", port, sandbox_id(sb),
             req->services->config.ports_domain, number ? at : "", TRAFFIC_ENTER, secret);
    return json_string(url);
}

int handle_traffic_link(struct api_request *req)
{
    int64_t port = 0;
    char secret[TRAFFIC_SECRET_SIZE], expires[CLOCK_RFC3339_SIZE];
    struct sandbox *sb = find_own(req);
    const struct traffic_token *t = sb ? find_named(req, sb) : NULL;
    if (!t)
        return 0;
    int r = json_member_int(req->body, "port", 1, 65535, &port, req->err);
    if (r < 0)
        return r;
    if (!port && !(port = t->port))
        return error_field(req->err, "port",
                           "'port' is missing: it is needed because the token is for any port");
    if (t->port && t->port != port)
        return error_field(req->err, "port", "the token is for port %u", t->port);
    if (!req->services->config.ports_domain)
        return error_set(
            req->err, ERROR_UNSUPPORTED, 0,
            "links work only where sandboxes have host names of their own (ports_domain)");
    r = ports_check_gate(req, sb, GATE_PORT_TOKEN, req->err);
    if (r < 0)
        return r;
    r = record_token(req, sb, "link_made",
                     json_pack("{s:s, s:I}", "token", t->id, "port", (json_int_t)port), req->err);
    if (r < 0)
        return r;
    struct durable_reply *p = durable_reply_new(req, 201);
    clock_format_rfc3339(clock_real_ns() + TRAFFIC_LINK_S * INT64_C(1000000000), expires);
    if (traffic_link_make(req->services->traffic, t, (uint16_t)port, secret, durable_reply_send,
                          p) < 0)
        return token_is_over(p, req, sb);
    p->answer = json_pack("{s:o, s:s}", "url", make_url(req, sb, (unsigned)port, secret),
                          "expires_at", expires);
    return 0;
}

/* The browser goes on to the server's root, with the cookie and without the code in its address. */
static void on_entered(void *data, const struct error *err)
{
    struct durable_reply *p = data;
    struct api_request *req = weak_get(p->req);
    if (req && err) {
        api_fail(req, err);
    } else if (req) {
        http_response_header(req->http, "Set-Cookie", json_string_value(p->answer));
        http_response_header(req->http, "Location", "/");
        http_response_header(req->http, "Cache-Control", "no-store");
        http_response_header(req->http, "Referrer-Policy", "no-referrer");
        api_reply_text(req, p->status, "text/plain", "", 0);
    }
    durable_reply_free(p);
}

void traffic_enter(struct api_request *req, const char *sandbox, uint16_t port)
{
    struct error err = {0};
    char secret[TRAFFIC_SECRET_SIZE], cookie[TRAFFIC_SECRET_SIZE + 128];
    const char *code = http_request_query(req->http, "code");
    bool tls = http_request_is_tls(req->http);
    struct durable_reply *p = durable_reply_new(req, 303);
    p->answer = json_null();
    if (http_request_method(req->http) == HTTP_GET_ && code &&
        traffic_link_use(req->services->traffic, code, sandbox, port, secret, on_entered, p)) {
        snprintf(cookie, sizeof(cookie), "%s" COOKIE_NAME "=%s; Path=/; HttpOnly; SameSite=Lax%s",
                 tls ? "__Host-" : "", secret, tls ? "; Secure" : "");
        p->answer = json_string(cookie);
        return;
    }
    durable_reply_free(p);
    error_set(&err, ERROR_FORBIDDEN, 0,
              "this link was used already, is too old, or is for another port");
    api_fail(req, &err);
}
