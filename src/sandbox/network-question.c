/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about where a sandbox's commands want to go, for rules that ask a person first.
 *
 * A connection does not wait for its answer: it is refused, and a later one finds the rule that the
 * answer has made. So a command that tries in a loop would ask in a loop: there is one question for
 * a sandbox and host at a time, and few for a sandbox. Hosts are in the one form that everything
 * compares them in, which is ASCII: no name can look like another one to the person who decides. */
#include <string.h>

#include "base/alloc.h"
#include "base/target.h"
#include "gateway/rule.h"
#include "sandbox/internal.h"

#define QUESTIONS_MAX 5 /* of one sandbox */

struct network_question {
    struct sandbox *sandbox; /* referenced */
    struct list node;
    char host[TARGET_HOST_MAX + 1];
};

static void on_answered(void *data, const struct error *err)
{
    struct network_question *q = data;
    (void)err; /* the caller that put the question has recorded it */
    list_remove(&q->node);
    sandbox_unref(q->sandbox);
    free(q);
}

/* --- what a yes opens */

/* What a rule says of requests, as text. The caller frees. */
static char *format_requests(const struct rule *rule)
{
    struct rule requests = {.http = rule->http, .methods = rule->methods, .paths = rule->paths};
    return rule_format_attributes(&requests, xstrdup(""));
}

/* Whether the gateway meant this one: by its name, or by what it says of requests. A text may be
 * cut short, and have the host that a call is narrowed to. */
static bool is_meant(const struct rule *rule, const char *told)
{
    _cleanup_free_ char *requests = format_requests(rule), *text = rule_format(rule);
    return (rule->id && strcmp(rule->id, told) == 0) || strncmp(text, told, strlen(told)) == 0 ||
           (*requests && strstr(told, requests));
}

/* The host and port of the target, with the methods and paths of the rule that asks: a yes to some
 * requests is none to others. The caller frees. */
static char *format_question(const struct sandbox *sb, const struct target *t, const char *told)
{
    char host[TARGET_TEXT_SIZE];
    struct rule_list l = {0};
    const struct rule *asking = NULL;
    bool meant = false;
    target_format_host(t, host);
    for (char **text = sb->spec.hosts; text && *text; text++)
        rule_list_add_full(&l, *text);
    for (size_t i = 0; i < l.n && !meant; i++) {
        const struct rule *rule = &l.rules[i];
        if (!rule->ask || !rule_is_about(rule, t, NULL))
            continue;
        meant = is_meant(rule, told);
        asking = meant || !asking ? rule : asking;
    }
    _cleanup_free_ char *requests = asking ? format_requests(asking) : xstrdup("");
    rule_list_done(&l);
    return xasprintf("%s:%u%s", host, t->port, requests);
}

/* --- asking */

void sandbox_ask_network(struct sandbox *sb, const struct target *t, const char *rule)
{
    const struct manager_options *o = &sb->manager->options;
    size_t n = 0;
    list_for_each(q, &sb->network_questions, struct network_question, node) {
        if (strcmp(q->host, t->host) == 0)
            return;
        n++;
    }
    if (!o->ask_network || n >= QUESTIONS_MAX || sb->state != SANDBOX_READY)
        return;
    struct network_question *q = new0(struct network_question);
    q->sandbox = sandbox_ref(sb);
    memcpy(q->host, t->host, sizeof(q->host));
    list_append(&sb->network_questions, &q->node);
    _cleanup_free_ char *opens = format_question(sb, t, rule);
    o->ask_network(o->on_exec_data, sb, opens, on_answered, q);
}
