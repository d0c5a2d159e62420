/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/oneshot.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/output.h"
#include "cli/relay.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "cli/spec.h"
#include "cli/remote.h"
#include "cli/transfer.h"
#include "libsbx/sbx.h"

/* More than a daemon gives a sandbox to become ready. */
#define REQUEST_TIMEOUT_MS 90000

static int copy_files_in(struct session *s, const struct args *a, const json_t *sandbox,
                         const char *id, struct sbx_error *err)
{
    for (char **f = a->file; f && *f; f++) {
        const char *colon = strrchr(*f, ':');
        if (!colon || colon == *f || !colon[1])
            return cli_set_error(err, "invalid_request", "-file needs LOCAL:PATH, not '%s'", *f);
        _cleanup_free_ char *local = xstrndup(*f, (size_t)(colon - *f));
        _cleanup_free_ char *remote = remote_path_in(sandbox, colon + 1);
        if (transfer_file_in(s, local, id, remote, err) < 0)
            return -1;
    }
    return 0;
}

int oneshot_create(struct session *s, const struct args *a, char **ret_id, struct sbx_error *err)
{
    /* From here on there is something to delete. */
    signals_fd();
    sbx_client_set_timeout(s->client, REQUEST_TIMEOUT_MS);
    json_t *spec = spec_sandbox(a, err);
    _cleanup_json_ json_t *answer = NULL;
    if (!spec || session_call(s, "POST", "/v1/sandboxes", spec, &answer, err) < 0)
        return -1;
    const char *id = json_string_value(json_object_get(answer, "id"));
    if (!id)
        return cli_set_error(err, NULL, "the daemon's answer has no id");
    if (copy_files_in(s, a, answer, id, err) < 0) {
        oneshot_end(s, a, id);
        return -1;
    }
    *ret_id = xstrdup(id);
    return 0;
}

static int start_exec(struct session *s, const struct args *a, const char *id, char *const argv[],
                      bool terminal, char **ret_exec_id, struct sbx_error *err)
{
    json_t *request = spec_exec(a, argv, terminal, err);
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s/exec", id);
    _cleanup_json_ json_t *answer = NULL;
    if (!request || session_call(s, "POST", path, request, &answer, err) < 0)
        return -1;
    const char *exec_id = json_string_value(json_object_get(answer, "exec_id"));
    if (!exec_id)
        return cli_set_error(err, NULL, "the daemon's answer has no exec_id");
    *ret_exec_id = xstrdup(exec_id);
    return 0;
}

int oneshot_exec(struct session *s, const struct args *a, const char *id, char *const argv[],
                 bool terminal, int *ret_code, struct sbx_error *err)
{
    _cleanup_free_ char *exec_id = NULL;
    struct relay_result result;
    if (start_exec(s, a, id, argv, terminal, &exec_id, err) < 0 ||
        relay_exec(s->client, id, exec_id, terminal, &result, err) < 0)
        return -1;
    *ret_code = exit_code_of(result.status, result.error, result.has_exit_code, result.exit_code);
    return 0;
}

void oneshot_end(struct session *s, const struct args *a, const char *id)
{
    struct sbx_error err;
    if (a->keep) {
        cli_warn("sandbox %s is kept", id);
        return;
    }
    _cleanup_free_ char *path = sbx_path_format("/v1/sandboxes/%s", id);
    if (sbx_call(s->client, "DELETE", path, NULL, NULL, &err) < 0)
        cli_warn("delete sandbox %s: %s", id, err.message);
}
