/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about where a sandbox's commands want to go, for rules that ask a person first.
 *
 * A connection does not wait for its answer: it is refused, and a later one finds the rule that the
 * answer has made. So a command that tries in a loop would ask in a loop: what a question that is
 * open would allow is not asked for again, and a sandbox has few questions. Hosts are in the one
 * form that everything compares them in, which is ASCII: no name can look like another one to the
 * person who decides. */
#include <string.h>

#include "base/alloc.h"
#include "base/target.h"
#include "gateway/rule.h"
#include "sandbox/internal.h"

#define QUESTIONS_MAX 5 /* of one sandbox */

struct network_question {
    struct sandbox *sandbox; /* referenced */
    struct list node;
    char *opens; /* with a yes */
};

static void on_answered(void *data, const struct error *err)
{
    struct network_question *q = data;
    (void)err; /* the caller that put the question has recorded it */
    list_remove(&q->node);
    sandbox_unref(q->sandbox);
    free(q->opens);
    free(q);
}

/* --- what a yes opens */

/* What a rule says of requests, as text. The caller frees. */
static char *format_requests(const struct rule *rule)
{
    struct rule requests = {.http = rule->http, .methods = rule->methods, .paths = rule->paths};
    return rule_format_attributes(&requests, xstrdup(""));
}

/* Text that has no room left may have been cut short. */
static bool is_cut(const char *told)
{
    return strlen(told) == GATEWAY_RULE_SIZE - 1;
}

static bool has_id(const struct rule *rule, const char *told)
{
    return rule->id && strcmp(rule->id, told) == 0;
}

static bool has_text(const struct rule *rule, const char *told)
{
    _cleanup_free_ char *text = rule_format(rule);
    return strcmp(text, told) == 0 || (is_cut(told) && strncmp(text, told, strlen(told)) == 0);
}

/* The text has the host that a call is narrowed to, and says the same of requests: that is between
 * the host and `ask`. */
static bool has_requests(const struct rule *rule, const char *told)
{
    _cleanup_free_ char *requests = format_requests(rule);
    const char *from = told + strcspn(told, " "), *to = strstr(from, " ask");
    size_t len = to ? (size_t)(to - from) : strlen(from);
    return strncmp(requests, from, len) == 0 && (to ? !requests[len] : is_cut(told));
}

/* For a rule that has been changed since the gateway went by it. */
static bool has_anything(const struct rule *rule, const char *told)
{
    (void)rule;
    (void)told;
    return true;
}

/* The rule that the gateway meant, which asks about this target; NULL: none does. What fits better
 * goes before what comes first, because a person must not be asked about another rule. */
static const struct rule *find_asking(const struct rule_list *l, const struct target *t,
                                      const char *told)
{
    static bool (*const ways[])(const struct rule *rule,
                                const char *told) = {has_id, has_text, has_requests, has_anything};
    for (size_t w = 0; w < ELEMENTS(ways); w++)
        for (size_t i = 0; i < l->n; i++)
            if (l->rules[i].ask && rule_is_about(&l->rules[i], t, NULL) &&
                ways[w](&l->rules[i], told))
                return &l->rules[i];
    return NULL;
}

/* The host and port of the target, with the methods and paths of the rule that asks: a yes to some
 * requests is none to others. The caller frees. */
static char *format_question(const struct sandbox *sb, const struct target *t, const char *told)
{
    char host[TARGET_TEXT_SIZE];
    struct rule_list l = {0};
    target_format_host(t, host);
    for (char **text = sb->spec.hosts; text && *text; text++)
        rule_list_add_full(&l, *text);
    const struct rule *asking = find_asking(&l, t, told);
    _cleanup_free_ char *requests = asking ? format_requests(asking) : xstrdup("");
    rule_list_done(&l);
    return xasprintf("%s:%u%s", host, t->port, requests);
}

/* --- asking */

void sandbox_ask_network(struct sandbox *sb, const struct target *t, const char *rule)
{
    const struct manager_options *o = &sb->manager->options;
    _cleanup_free_ char *opens = format_question(sb, t, rule);
    size_t n = 0;
    list_for_each(q, &sb->network_questions, struct network_question, node) {
        if (strcmp(q->opens, opens) == 0)
            return;
        n++;
    }
    if (!o->ask_network || n >= QUESTIONS_MAX || sb->state != SANDBOX_READY)
        return;
    struct network_question *q = new0(struct network_question);
    q->sandbox = sandbox_ref(sb);
    q->opens = xstrdup(opens); /* an answer may come at once, and frees it */
    list_append(&sb->network_questions, &q->node);
    o->ask_network(o->on_exec_data, sb, opens, on_answered, q);
}
