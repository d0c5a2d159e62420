/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/upgrade: a control plane of the mas-sandboxd that is installed now takes over from this
 * one. The warden asks that program first, and has the last word. */
#include <errno.h>
#include <unistd.h>

#include "api/handlers.h"
#include "api/request.h"
#include "audit/audit.h"
#include "base/fd.h"
#include "base/weak.h"
#include "runtime/runtime.h"
#include "runtime/warden-client.h"

static void on_upgrade_reply(void *data, const struct plan_reply *reply, int fd)
{
    struct api_request *req = weak_unref(data);
    struct error err = {0};
    fd_close(&fd);
    if (!req)
        return;
    if (!reply)
        error_set(&err, ERROR_UNAVAILABLE, 0, "the warden is gone");
    else if (reply->error)
        error_set(&err, ERROR_CONFLICT, 0, "%s", reply->message);
    if (error_is_set(&err))
        api_fail(req, &err);
    else
        api_reply(req, 200,
                  json_pack("{s:s, s:s, s:I}", "status", "restarting", "version", reply->message,
                            "pid", (json_int_t)getpid()));
}

int handle_upgrade(struct api_request *req)
{
    struct plan plan = {.op = PLAN_UPGRADE};
    struct audit_record asked = {.kind = "config_change",
                                 .who = req->who,
                                 .outcome = "asked",
                                 .details_text = "{\"what\":\"upgrade\"}"};
    if (req->services->audit && audit_write(req->services->audit, &asked, NULL, req->err) < 0)
        return -1;
    warden_client_send(req->services->host->warden, &plan, on_upgrade_reply, api_later(req));
    return 0;
}
