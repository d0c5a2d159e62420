/* SPDX-License-Identifier: Apache-2.0 */
#include "api/audit-access.h"

#include <stdio.h>

#include "api/handlers.h"
#include "base/clock.h"
#include "base/json.h"
#include "audit/audit.h"

#define WINDOW_MS   60000
#define RECORDS_MAX 60 /* in a window */
#define PATH_SHOWN  200

static void tell_suppressed(struct access_audit *l, struct audit *a)
{
    if (!l->suppressed)
        return;
    _cleanup_json_ json_t *details = json_pack("{s:i}", "more", (int)l->suppressed);
    struct audit_record r = {.kind = "login_failure", .outcome = "counted", .details = details};
    audit_note(a, &r);
    l->suppressed = 0;
}

/* Whether one more is recorded by itself. */
static bool has_room(struct access_audit *l, struct audit *a)
{
    int64_t now = clock_mono_ms();
    if (now - l->window_ms >= WINDOW_MS) {
        tell_suppressed(l, a);
        l->window_ms = now;
        l->recorded = 0;
    }
    if (l->recorded < RECORDS_MAX) {
        l->recorded++;
        return true;
    }
    l->suppressed++;
    return false;
}

void access_audit_refused(struct access_audit *l, const struct api_request *req,
                          const struct error *err)
{
    struct audit *a = req->services->audit;
    bool login = err->code == ERROR_UNAUTHORIZED;
    if (!a || (!login && err->code != ERROR_FORBIDDEN) || !has_room(l, a))
        return;
    char path[PATH_SHOWN + 1];
    snprintf(path, sizeof(path), "%s", http_request_path(req->http));
    _cleanup_json_ json_t *details =
        json_pack("{s:s, s:o, s:o}", "method", http_request_method_name(req->http), "path",
                  json_message(path), "reason", json_message(err->message));
    struct audit_record r = {.kind = login ? "login_failure" : "refusal",
                             .who = login ? NULL : req->who,
                             .outcome = "deny",
                             .rule = login ? "keys" : "roles",
                             .details = details};
    audit_note(a, &r);
}
