#include "guard/rules.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct ruleset *ruleset_parse(const char *text, size_t len, const char *name, struct error *err)
{
    (void)text;
    (void)len;
    error_set(err, ERROR_UNSUPPORTED, 0, "%s: policies are not read yet", name);
    return NULL;
}

struct ruleset *ruleset_load(const char *path, struct error *err)
{
    return ruleset_parse("", 0, path, err);
}

struct ruleset *ruleset_ref(struct ruleset *rs)
{
    return rs;
}

void ruleset_unref(struct ruleset *rs)
{
    (void)rs;
}

const char *ruleset_revision(const struct ruleset *rs)
{
    (void)rs;
    return "";
}

size_t ruleset_count(const struct ruleset *rs)
{
    (void)rs;
    return 0;
}

static const char *const verdict_names[] = {"allow", "ask", "deny"};
static const char *const risk_names[] = {"low", "medium", "high", "critical"};

const char *verdict_name(enum verdict v)
{
    return verdict_names[v];
}

const char *risk_name(enum risk r)
{
    return risk_names[r];
}

int verdict_find(const char *name)
{
    for (int i = 0; i < _VERDICT_MAX; i++)
        if (strcmp(verdict_names[i], name) == 0)
            return i;
    return -1;
}

int risk_find(const char *name)
{
    for (int i = 0; i < _RISK_MAX; i++)
        if (strcmp(risk_names[i], name) == 0)
            return i;
    return -1;
}

void ruleset_decide(const struct ruleset *rs, const struct rules_call *call,
                    struct rules_decision *ret)
{
    (void)call;
    *ret = (struct rules_decision){.verdict = rs ? VERDICT_ASK : VERDICT_ALLOW};
    snprintf(ret->rule, sizeof(ret->rule), "%s", rs ? "default" : "no policy");
    snprintf(ret->reason, sizeof(ret->reason), "%s", rs ? "no rule" : "there is no policy");
}

json_t *rules_obligations_to_json(const struct rules_obligations *o)
{
    return json_pack("{s:b}", "strip_network", o->strip_network);
}

json_t *ruleset_explain(const struct ruleset *rs, const struct rules_call *call)
{
    struct rules_decision d;
    ruleset_decide(rs, call, &d);
    return json_pack("{s:s,s:s,s:s}", "verdict", verdict_name(d.verdict), "rule", d.rule, "reason",
                     d.reason);
}

int rules_runtime_rank(const char *name)
{
    return strcmp(name, "process") == 0 ? 0 : 1;
}
