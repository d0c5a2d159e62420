/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes and execs through the /sandboxes routes. */
#include "libsbx/internal.h"

#include <string.h>

/* Calls and parses the answer as an object. */
static json_t *call_object(struct sbx_client *c, const char *method, const char *path,
                           const char *body, struct sbx_error *err)
{
    struct sbx_response resp;
    if (sbx_call(c, method, path, body, &resp, err) < 0)
        return NULL;
    json_t *root = libsbx_parse(resp.body, resp.body_len, err);
    sbx_response_done(&resp);
    return root;
}

void sbx_sandbox_done(struct sbx_sandbox *s)
{
    free(s->id);
    free(s->name_space);
    free(s->pod_name);
    free(s->phase);
    *s = (struct sbx_sandbox){0};
}

static int sandbox_request(struct sbx_client *c, const char *method, const char *path,
                           const char *body, struct sbx_sandbox *ret, struct sbx_error *err)
{
    _cleanup_json_ json_t *root = call_object(c, method, path, body, err);
    if (!root)
        return -1;
    char *id = libsbx_dup_member(root, "id");
    if (!id)
        return libsbx_fail(err, "internal", "the daemon's answer has no id");
    *ret = (struct sbx_sandbox){.id = id,
                                .name_space = libsbx_dup_member(root, "namespace"),
                                .pod_name = libsbx_dup_member(root, "pod_name"),
                                .phase = libsbx_dup_member(root, "phase")};
    return 0;
}

int sbx_sandbox_create(struct sbx_client *c, const char *spec, struct sbx_sandbox *ret,
                       struct sbx_error *err)
{
    return sandbox_request(c, "POST", "/sandboxes", spec ? spec : "{}", ret, err);
}

int sbx_sandbox_get(struct sbx_client *c, const char *id, struct sbx_sandbox *ret,
                    struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/sandboxes/%s", id);
    return sandbox_request(c, "GET", path, NULL, ret, err);
}

int sbx_sandbox_pause(struct sbx_client *c, const char *id, int on, struct sbx_error *err)
{
    _cleanup_free_ char *path =
        sbx_path_format(on ? "/v1/sandboxes/%s/pause" : "/v1/sandboxes/%s/resume", id);
    return sbx_call(c, "POST", path, NULL, NULL, err);
}

int sbx_sandbox_delete(struct sbx_client *c, const char *id, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/sandboxes/%s", id);
    return sbx_call(c, "DELETE", path, NULL, NULL, err);
}

static json_t *post_exec(struct sbx_client *c, const char *id, const char *const argv[], bool async,
                         int timeout_s, struct sbx_error *err)
{
    json_t *command = json_array();
    for (size_t i = 0; argv[i]; i++)
        if (json_array_append_new(command, json_string(argv[i])) < 0) {
            json_decref(command);
            libsbx_fail(err, "invalid_request", "argument %zu is not UTF-8", i);
            return NULL;
        }
    _cleanup_json_ json_t *req = json_pack("{s:o, s:b}", "command", command, "async", async);
    if (timeout_s > 0)
        json_object_set_new(req, "timeout_seconds", json_integer(timeout_s));
    _cleanup_free_ char *body = libsbx_dump(req);
    _cleanup_free_ char *path = sbx_path_format("/sandboxes/%s/exec", id);
    return call_object(c, "POST", path, body, err);
}

int sbx_exec(struct sbx_client *c, const char *id, const char *const argv[], int timeout_s,
             struct sbx_exec_result *ret, struct sbx_error *err)
{
    _cleanup_json_ json_t *root = post_exec(c, id, argv, false, timeout_s, err);
    if (!root)
        return -1;
    libsbx_exec_result_parse(root, ret);
    return 0;
}

int sbx_exec_start(struct sbx_client *c, const char *id, const char *const argv[], int timeout_s,
                   char **ret_exec_id, struct sbx_error *err)
{
    _cleanup_json_ json_t *root = post_exec(c, id, argv, true, timeout_s, err);
    if (!root)
        return -1;
    char *exec_id = libsbx_dup_member(root, "exec_id");
    if (!exec_id)
        return libsbx_fail(err, "internal", "the daemon's answer has no exec_id");
    *ret_exec_id = exec_id;
    return 0;
}

void sbx_exec_status_done(struct sbx_exec_status *s)
{
    free(s->sandbox_id);
    free(s->exec_id);
    free(s->status);
    free(s->started_at);
    free(s->finished_at);
    free(s->error);
    *s = (struct sbx_exec_status){0};
}

static int status_request(struct sbx_client *c, const char *method, const char *path,
                          const char *body, struct sbx_exec_status *ret, struct sbx_error *err)
{
    _cleanup_json_ json_t *root = call_object(c, method, path, body, err);
    if (!root)
        return -1;
    char *status = libsbx_dup_member(root, "status");
    if (!status)
        return libsbx_fail(err, "internal", "the daemon's answer has no status");
    *ret = (struct sbx_exec_status){
        .sandbox_id = libsbx_dup_member(root, "sandbox_id"),
        .exec_id = libsbx_dup_member(root, "exec_id"),
        .status = status,
        .started_at = libsbx_dup_member(root, "started_at"),
        .finished_at = libsbx_dup_member(root, "finished_at"),
        .timeout_seconds = json_integer_value(json_object_get(root, "timeout_seconds")),
        .error = libsbx_dup_member(root, "error")};
    ret->has_exit_code = libsbx_int_member(root, "exit_code", &ret->exit_code);
    return 0;
}

int sbx_exec_get(struct sbx_client *c, const char *id, const char *exec_id,
                 struct sbx_exec_status *ret, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/sandboxes/%s/execs/%s", id, exec_id);
    return status_request(c, "GET", path, NULL, ret, err);
}

int sbx_exec_cancel(struct sbx_client *c, const char *id, const char *exec_id,
                    struct sbx_exec_status *ret, struct sbx_error *err)
{
    _cleanup_free_ char *path = sbx_path_format("/sandboxes/%s/execs/%s/cancel", id, exec_id);
    return status_request(c, "POST", path, "{}", ret, err);
}
