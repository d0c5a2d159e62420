/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept/decide.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "proto/intercept.h"

/* Reads n of the texts, which have len bytes in all, and moves *at behind them. */
static int read_rules(const char *texts, size_t len, uint32_t n, size_t *at, struct rule_list *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *text = texts + *at;
        const char *end = memchr(text, 0, len - *at);
        if (!end || rule_list_add_full(ret, text) < 0)
            return -EINVAL;
        *at += (size_t)(end - text) + 1;
    }
    return 0;
}

/* Only a memory file that no process can change any more is read: reading anything else could take
 * any time. */
static int read_file(int fd, size_t len, char **ret)
{
    const int wanted = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
    int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & wanted) != wanted || len > INTERCEPT_RULES_MAX)
        return -EINVAL;
    _cleanup_free_ char *text = xcalloc(1, len + 1);
    if (pread(fd, text, len + 1, 0) != (ssize_t)len)
        return -EINVAL;
    *ret = steal_ptr(text);
    return 0;
}

int decider_init(struct decider *d, const struct intercept_connection *record, size_t size,
                 int rules_fd, int verdict_fd)
{
    const size_t before = offsetof(struct intercept_connection, rules);
    size_t at = 0, len = record->rules_len;
    _cleanup_free_ char *file = NULL;
    bool fits = len <= sizeof(record->rules);
    *d = (struct decider){.decides = true, .verdict_fd = verdict_fd};
    if (size != before + (fits ? len : 0) || !memchr(record->address, 0, sizeof(record->address)))
        return -EINVAL;
    int r = fits ? 0 : read_file(rules_fd, len, &file);
    const char *texts = fits ? record->rules : file;
    r = r < 0 ? r : target_parse_host(record->host, strlen(record->host), &d->target);
    r = r < 0 ? r : address_parse(record->address, &d->address);
    r = r < 0 ? r : read_rules(texts, len, record->n_allowed, &at, &d->allowed);
    r = r < 0 ? r : read_rules(texts, len, record->n_denied, &at, &d->denied);
    if (r < 0 || at != len) {
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
    struct intercept_verdict verdict = {.version = INTERCEPT_CONNECTION_VERSION,
                                        .refusal = refusal};
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
