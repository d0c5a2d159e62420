#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/output.h"
#include "cli/private-daemon.h"
#include "libsbx/sbx.h"

#define PROBE_TIMEOUT_MS 2000

/* Whether what listens there is a mas-sandboxd. One that wants a token counts: it is for its user
 * to give one, not for us to go around it. */
static bool answers(struct sbx_client *c)
{
    struct sbx_response r;
    sbx_client_set_timeout(c, PROBE_TIMEOUT_MS);
    int got = sbx_request(c, "GET", "/v1/status", NULL, &r, NULL);
    sbx_client_set_timeout(c, 0);
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

static int open_named(const struct args *a, const char *address, struct session *s,
                      struct sbx_error *err)
{
    s->client = sbx_client_new(address, a->text[FLAG_TOKEN], err);
    if (!s->client)
        return -1;
    const char *ca = a->text[FLAG_CA_FILE];
    return ca ? sbx_client_set_ca_file(s->client, ca, err) : 0;
}

int session_open(const struct args *a, bool may_start, struct session *ret, struct sbx_error *err)
{
    struct session s = {0};
    const char *named = a->text[FLAG_ADDR] ? a->text[FLAG_ADDR] : getenv("MAS_SANDBOX_URL");
    bool is_named = named && *named;
    int r = open_named(a, is_named ? named : SBX_CLI_ADDRESS, &s, err);
    if (r == 0 && may_start && !is_named && !answers(s.client)) {
        sbx_client_free(s.client);
        s.client = NULL;
        r = start_private(&s, err);
    }
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

int session_call(struct session *s, const char *method, const char *path, json_t *body,
                 json_t **ret, struct sbx_error *err)
{
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    struct sbx_response r;
    if (sbx_call(s->client, method, path, text, &r, err) < 0)
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
