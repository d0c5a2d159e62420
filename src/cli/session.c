/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/output.h"
#include "cli/private-daemon.h"
#include "libsbx/sbx.h"

#define PROBE_TIMEOUT_MS 2000
#define APPROVAL_POLL_MS 500

/* Whether a mas-sandboxd of root's or this user's listens at the default address. It is asked
 * without a token: one that wants a token says so, and that is answer enough. */
static bool default_daemon_answers(void)
{
    struct sbx_response r;
    struct sbx_client *c = sbx_client_new("", "", NULL);
    if (!c)
        return false;
    sbx_client_set_timeout(c, PROBE_TIMEOUT_MS);
    int got = sbx_request(c, "GET", "/v1/status", NULL, &r, NULL);
    sbx_client_free(c);
    if (got < 0)
        return false;
    _cleanup_json_ json_t *root = json_loadb(r.body, r.body_len, 0, NULL);
    bool ours = r.status == 401 || (r.status == 200 && json_object_get(root, "runtimes"));
    sbx_response_done(&r);
    return ours;
}

static int start_private(struct session *s, struct sbx_error *err)
{
    s->daemon = private_daemon_start(err);
    if (!s->daemon)
        return -1;
    s->client = sbx_client_new(private_daemon_address(s->daemon), "", err);
    return s->client ? 0 : -1;
}

/* address: "" for the default one. */
static int open_address(const struct args *a, const char *address, struct session *s,
                        struct sbx_error *err)
{
    s->client = sbx_client_new(address, a->token, err);
    if (!s->client)
        return -1;
    const char *ca = a->ca_file;
    return ca ? sbx_client_set_ca_file(s->client, ca, err) : 0;
}

/* A call that is one request can be repeated; for others the daemon waits. */
static int set_approval(const struct args *a, struct session *s, struct sbx_error *err)
{
    const char *wanted = a->approval;
    s->wait = !wanted || strcmp(wanted, "wait") == 0;
    if (!wanted || strcmp(wanted, "return") == 0)
        return 0;
    return sbx_client_set_approval(s->client, wanted, err);
}

int session_open(const struct args *a, bool may_start, struct session *ret, struct sbx_error *err)
{
    struct session s = {0};
    const char *named = a->addr ? a->addr : getenv("MAS_SANDBOX_URL");
    bool is_named = named && *named;
    int r = may_start && !is_named && !default_daemon_answers()
                ? start_private(&s, err)
                : open_address(a, is_named ? named : "", &s, err);
    if (r == 0)
        r = set_approval(a, &s, err);
    if (r < 0)
        session_close(&s);
    else
        *ret = s;
    return r;
}

void session_close(struct session *s)
{
    sbx_client_free(s->client);
    private_daemon_stop(s->daemon);
    *s = (struct session){0};
}

/* Until a person has decided about id. 0: approved. */
static int await_approval(struct session *s, const char *id, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/v1/approvals/%s", id);
    cli_warn("waiting for approval %s (sbx approvals show %s)", id, id);
    for (;;) {
        struct sbx_response r;
        if (sbx_call(s->client, "GET", path, NULL, &r, err) < 0)
            return -1;
        _cleanup_json_ json_t *a = json_loadb(r.body, r.body_len, 0, NULL);
        sbx_response_done(&r);
        const char *status = json_string_value(json_object_get(a, "status"));
        const char *reason = json_string_value(json_object_get(a, "reason"));
        if (status && strcmp(status, "approved") == 0)
            return 0;
        if (!status || strcmp(status, "pending") != 0)
            return cli_set_error(err, "policy_denied", "approval %s is %s%s%s", id,
                                 status ? status : "gone", reason ? ": " : "",
                                 reason ? reason : "");
        struct pollfd p = {.fd = -1};
        if (poll(&p, 1, APPROVAL_POLL_MS) < 0 && errno != EINTR)
            return cli_set_error(err, NULL, "poll: %s", strerror(errno));
    }
}

/* The request is repeated with the approval's id, and only this request: the id is taken off the
 * client again, because an approval is for one call. */
static int call_daemon(struct session *s, const char *method, const char *path, const char *body,
                       struct sbx_response *ret, struct sbx_error *err)
{
    int r = sbx_call(s->client, method, path, body, ret, err);
    if (r == 0 || !s->wait || strcmp(err->code, "pending_approval") != 0)
        return r;
    char id[sizeof(err->approval_id)];
    memcpy(id, err->approval_id, sizeof(id));
    if (await_approval(s, id, err) < 0 || sbx_client_set_approval(s->client, id, err) < 0)
        return -1;
    r = sbx_call(s->client, method, path, body, ret, err);
    sbx_client_set_approval(s->client, NULL, NULL);
    return r;
}

int session_call(struct session *s, const char *method, const char *path, json_t *body,
                 json_t **ret, struct sbx_error *err)
{
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    struct sbx_response r;
    if (call_daemon(s, method, path, text, &r, err) < 0)
        return -1;
    json_error_t e;
    json_t *root = ret ? json_loadb(r.body, r.body_len, JSON_ALLOW_NUL, &e) : NULL;
    sbx_response_done(&r);
    if (ret && !root)
        return cli_set_error(err, NULL, "the daemon's answer is not JSON: %s", e.text);
    if (ret)
        *ret = root;
    return 0;
}
