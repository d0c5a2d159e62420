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

void sandbox_ask_network(struct sandbox *sb, const struct target *t)
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
    o->ask_network(o->on_exec_data, sb, t, on_answered, q);
}
