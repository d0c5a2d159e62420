/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/digits.h"
#include "base/error.h"
#include "base/json.h"

static const char *const outcome_names[] = {
    [KUBE_DONE] = "done",           [KUBE_INVALID] = "invalid",
    [KUBE_FORBIDDEN] = "forbidden", [KUBE_UNAUTHORIZED] = "unauthorized",
    [KUBE_NOT_FOUND] = "not_found", [KUBE_TERMINATING] = "namespace_terminating",
    [KUBE_NO_API] = "no_such_api",  [KUBE_EXISTS] = "exists",
    [KUBE_CONFLICT] = "conflict",   [KUBE_EXPIRED] = "expired",
    [KUBE_BUSY] = "busy",           [KUBE_TOO_LARGE] = "too_large",
    [KUBE_FAILED] = "failed",       [KUBE_UNREACHABLE] = "unreachable",
    [KUBE_LATE] = "late",           [KUBE_UNTRUSTED] = "untrusted",
    [KUBE_STRANGE] = "strange",
};
static_assert(ELEMENTS(outcome_names) == _KUBE_OUTCOME_MAX, "a name for every outcome");

const char *kube_outcome_name(enum kube_outcome outcome)
{
    return outcome_names[outcome];
}

bool kube_is_unknown(enum kube_outcome outcome)
{
    return outcome >= KUBE_UNREACHABLE;
}

bool kube_may_pass(enum kube_outcome outcome)
{
    return outcome == KUBE_BUSY || outcome == KUBE_FAILED || kube_is_unknown(outcome);
}

/* What a server says goes into logs and errors. */
static void copy_printable(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
    for (char *p = out; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

void kube_result_fail(struct kube_result *ret, enum kube_outcome outcome, const char *fmt, ...)
{
    char text[KUBE_MESSAGE_SIZE];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    *ret = (struct kube_result){.outcome = outcome};
    copy_printable(ret->message, sizeof(ret->message), text);
}

uint32_t kube_parse_retry_after(const char *value, size_t len)
{
    char digits[16];
    uint64_t seconds;
    while (len && (*value == ' ' || *value == '\t'))
        value++, len--;
    while (len && strchr(" \t\r\n", value[len - 1]))
        len--;
    if (len == 0 || len >= sizeof(digits))
        return 0;
    memcpy(digits, value, len);
    digits[len] = 0;
    if (decimal_parse(digits, &seconds) < 0)
        return 0; /* a date, which API servers do not send */
    return seconds > KUBE_RETRY_MAX_S ? KUBE_RETRY_MAX_S : (uint32_t)seconds;
}

static bool has_cause(const json_t *status, const char *reason)
{
    size_t i;
    json_t *cause;
    json_array_foreach(json_object_get(json_object_get(status, "details"), "causes"), i,
                       cause) if (strcmp(json_member_text(cause, "reason"), reason) ==
                                  0) return true;
    return false;
}

/* A code alone; what a Status adds to it is refine_outcome()'s. */
static enum kube_outcome outcome_of_code(int http, bool is_status)
{
    if (http >= 200 && http < 300)
        return KUBE_DONE;
    switch (http) {
    case 400:
    case 405:
    case 406:
    case 415:
    case 422:
        return KUBE_INVALID;
    case 401:
        return KUBE_UNAUTHORIZED;
    case 403:
        return KUBE_FORBIDDEN;
    case 404:
        return is_status ? KUBE_NOT_FOUND : KUBE_NO_API;
    case 409:
        return KUBE_CONFLICT;
    case 410:
        return KUBE_EXPIRED;
    case 413:
        return KUBE_TOO_LARGE;
    case 429:
        return KUBE_BUSY;
    default:
        return KUBE_FAILED;
    }
}

static enum kube_outcome refine_outcome(enum kube_outcome plain, const struct kube_result *r,
                                        const json_t *status)
{
    if (plain == KUBE_CONFLICT && strcmp(r->reason, "AlreadyExists") == 0)
        return KUBE_EXISTS;
    if (plain == KUBE_FORBIDDEN && has_cause(status, "NamespaceTerminating"))
        return KUBE_TERMINATING;
    return plain;
}

static void take_details(struct kube_result *ret, const json_t *status)
{
    const json_t *details = json_object_get(status, "details");
    const json_t *retry = json_object_get(details, "retryAfterSeconds");
    size_t i;
    json_t *cause;
    copy_printable(ret->reason, sizeof(ret->reason), json_member_text(status, "reason"));
    copy_printable(ret->message, sizeof(ret->message), json_member_text(status, "message"));
    json_array_foreach(json_object_get(details, "causes"), i, cause) if (!ret->field[0])
        copy_printable(ret->field, sizeof(ret->field), json_member_text(cause, "field"));
    if (ret->retry_after_s == 0 && json_is_integer(retry)) {
        json_int_t s = json_integer_value(retry);
        ret->retry_after_s = s < 0 ? 0 : s > KUBE_RETRY_MAX_S ? KUBE_RETRY_MAX_S : (uint32_t)s;
    }
}

static bool is_status_object(const json_t *o)
{
    return json_is_object(o) && strcmp(json_member_text(o, "kind"), "Status") == 0;
}

void kube_result_parse(struct kube_result *ret, int http, const char *body, size_t len,
                       uint32_t retry_after_s)
{
    struct error err = {0};
    *ret = (struct kube_result){.http = http, .retry_after_s = retry_after_s};
    if (http >= 200 && http < 300)
        return;
    _cleanup_json_ json_t *o = len ? json_parse_any(body, len, &err) : NULL;
    ret->is_status = is_status_object(o);
    ret->outcome = outcome_of_code(http, ret->is_status);
    if (ret->is_status) {
        take_details(ret, o);
        ret->outcome = refine_outcome(ret->outcome, ret, o);
    } else {
        char text[KUBE_MESSAGE_SIZE];
        snprintf(text, sizeof(text), "status %d%s%.*s", http, len ? ": " : "",
                 len > 200 ? 200 : (int)len, len ? body : "");
        copy_printable(ret->message, sizeof(ret->message), text);
    }
}

void kube_result_from_status(struct kube_result *ret, const json_t *status)
{
    *ret = (struct kube_result){.outcome = KUBE_STRANGE};
    if (!json_is_object(status)) {
        kube_result_fail(ret, KUBE_STRANGE, "no Status object where one belongs");
        return;
    }
    const json_t *code = json_object_get(status, "code");
    ret->is_status = true;
    ret->http =
        json_is_integer(code) && json_integer_value(code) >= 100 && json_integer_value(code) <= 599
            ? (int)json_integer_value(code)
            : 0;
    take_details(ret, status);
    if (strcmp(json_member_text(status, "status"), "Success") == 0)
        ret->outcome = KUBE_DONE;
    else if (ret->http >= 300)
        ret->outcome = refine_outcome(outcome_of_code(ret->http, true), ret, status);
    else
        ret->outcome = KUBE_FAILED;
}

/* causes[reason=ExitCode].message is the code as a text. */
static int find_exit_code(const json_t *status)
{
    size_t i;
    json_t *cause;
    json_array_foreach(json_object_get(json_object_get(status, "details"), "causes"), i, cause)
    {
        uint64_t code;
        if (strcmp(json_member_text(cause, "reason"), "ExitCode") == 0)
            return decimal_parse(json_member_text(cause, "message"), &code) == 0 && code <= 255
                       ? (int)code
                       : -1;
    }
    return -1;
}

void kube_exit_parse(struct kube_exit *ret, const char *text, size_t len)
{
    struct error err = {0};
    *ret = (struct kube_exit){.kind = KUBE_EXIT_UNKNOWN};
    _cleanup_json_ json_t *status = len ? json_parse_any(text, len, &err) : NULL;
    if (!json_is_object(status)) {
        kube_result_fail(&ret->why, KUBE_STRANGE, "the status channel does not hold a Status");
        return;
    }
    kube_result_from_status(&ret->why, status);
    if (ret->why.outcome == KUBE_DONE) {
        ret->kind = KUBE_EXIT_CODE;
        return;
    }
    if (strcmp(json_member_text(status, "status"), "Failure") != 0)
        return; /* neither word: nothing is known */
    ret->code = find_exit_code(status);
    bool ended = strcmp(ret->why.reason, "NonZeroExitCode") == 0 && ret->code >= 0;
    ret->kind = ended ? KUBE_EXIT_CODE : KUBE_EXIT_FAILED;
    ret->code = ended ? ret->code : 0;
}
