/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/decide.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "proto/intercept.h"

/* Reads n texts, and moves *at behind them. */
static int read_rules(const struct intercept_connection *record, uint32_t n, size_t *at,
                      struct rule_list *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *text = record->rules + *at;
        const char *end = memchr(text, 0, record->rules_len - *at);
        if (!end || rule_list_add_full(ret, text) < 0)
            return -EINVAL;
        *at += (size_t)(end - text) + 1;
    }
    return 0;
}

int decider_init(struct decider *d, const struct intercept_connection *record, size_t size,
                 int verdict_fd)
{
    const size_t before = offsetof(struct intercept_connection, rules);
    size_t at = 0;
    *d = (struct decider){.decides = true, .verdict_fd = verdict_fd};
    if (size < before || record->rules_len > sizeof(record->rules) ||
        record->rules_len != size - before || !memchr(record->address, 0, sizeof(record->address)))
        return -EINVAL;
    int r = target_parse_host(record->host, strlen(record->host), &d->target);
    r = r < 0 ? r : address_parse(record->address, &d->address);
    r = r < 0 ? r : read_rules(record, record->n_allowed, &at, &d->allowed);
    r = r < 0 ? r : read_rules(record, record->n_denied, &at, &d->denied);
    if (r < 0 || at != record->rules_len) {
        rule_list_done(&d->allowed);
        return -EINVAL;
    }
    d->target.port = record->port;
    d->decides = record->decides;
    return 0;
}

void decider_done(struct decider *d)
{
    rule_list_done(&d->allowed);
    rule_list_done(&d->denied);
    fd_close(&d->verdict_fd);
}

static void tell_gateway(struct decider *d, enum intercept_refusal refusal, const struct rule *rule)
{
    struct intercept_verdict verdict = {.version = INTERCEPT_VERSION, .refusal = refusal};
    _cleanup_free_ char *text = !rule      ? xstrdup("")
                                : rule->id ? xstrdup(rule->id)
                                           : rule_format(rule);
    snprintf(verdict.rule, sizeof(verdict.rule), "%s", text);
    fd_send_msg(d->verdict_fd, &verdict, sizeof(verdict), NULL, 0);
}

const char *decider_check(struct decider *d, const struct head_request *request)
{
    static const char *const why[_INTERCEPT_REFUSAL_MAX] = {
        [INTERCEPT_DENIED] = "host_not_allowed: this method or path of the host is denied in this "
                             "sandbox",
        [INTERCEPT_NOT_ALLOWED] = "host_not_allowed: the host is not allowed with this method or "
                                  "path in this sandbox",
        [INTERCEPT_ASKS] = "approval_needed: this needs a person's approval: try again when it was "
                           "given",
    };
    if (!d->decides)
        return NULL;
    _cleanup_free_ char *name = xstrndup(request->method.at, request->method.len);
    _cleanup_free_ char *path = xstrndup(request->target.at, request->target.len);
    struct rule_request q = {
        .target = &d->target, .method = name, .path = path, .overrides = request->overrides};
    const struct rule *denial = rule_list_find_denial(&d->denied, &q, &d->address);
    const struct rule *allowance = rule_list_find_allowance(&d->allowed, &q);
    enum intercept_refusal refusal = denial           ? INTERCEPT_DENIED
                                     : !allowance     ? INTERCEPT_NOT_ALLOWED
                                     : allowance->ask ? INTERCEPT_ASKS
                                                      : 0;
    if (!refusal)
        return NULL;
    tell_gateway(d, refusal, denial ? denial : allowance);
    if (request->overrides && refusal != INTERCEPT_ASKS)
        return "host_not_allowed: the host is not allowed with a header that names another method or "
               "path";
    return why[refusal];
}
