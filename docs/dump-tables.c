/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the tables that manual pages are made of as JSON: the keys of the configuration, and those
 * of a policy file (docs/reference.py). */
#include <assert.h>
#include <jansson.h>
#include <stdio.h>

#include "base/alloc.h"
#include "config/config.h"
#include "identity/identity.h"
#include "policy/rules-internal.h"

static const char *const types[] = {
    [CONFIG_STRING] = "text", [CONFIG_PATH] = "path",           [CONFIG_CHOICE] = "choice",
    [CONFIG_ENUM] = "choice", [CONFIG_INT] = "number",          [CONFIG_CORES] = "cores",
    [CONFIG_BOOL] = "bool",   [CONFIG_DURATION] = "duration",   [CONFIG_SIZE] = "size",
    [CONFIG_LIST] = "list",   [CONFIG_PATHS] = "list of paths", [CONFIG_MAP] = "map",
};
static_assert(ELEMENTS(types) == _CONFIG_TYPE_MAX, "every type has a word");

static json_t *config_to_json(void)
{
    json_t *list = json_array();
    for (const struct config_key *k = config_keys; k < config_keys + config_n_keys; k++)
        if (!k->name)
            json_array_append_new(list, json_pack("{s:s}", "group", k->group));
        else if (!(k->flags & KEY_INTERNAL))
            json_array_append_new(list, json_pack("{s:s,s:s*,s:s,s:s*,s:s*,s:I,s:I,s:b,s:s}",
                                                  "name", k->name, "alias", k->alias, "type",
                                                  types[k->type], "default", k->fallback, "choices",
                                                  config_key_choices(k), "min", (json_int_t)k->min,
                                                  "max", (json_int_t)k->max, "secret",
                                                  !!(k->flags & KEY_SECRET), "help", k->help));
    return list;
}

static json_t *rules_to_json(const struct rules_key *(*key_at)(size_t index))
{
    json_t *list = json_array();
    const struct rules_key *k;
    for (size_t i = 0; (k = key_at(i)); i++)
        json_array_append_new(
            list, json_pack("{s:s,s:s,s:s}", "name", k->name, "value", k->value, "help", k->help));
    return list;
}

static json_t *words_to_json(const char *(*word_at)(int index), int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        if (word_at(i))
            json_array_append_new(list, json_string(word_at(i)));
    return list;
}

static const char *verdict_at(int i)
{
    return verdict_name((enum verdict)i);
}

static const char *risk_at(int i)
{
    return risk_name((enum risk)i);
}

static const char *limit_at(int i)
{
    return rules_limit(i)->name;
}

static json_t *policy_to_json(void)
{
    return json_pack(
        "{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:[iiiii]}", "file", rules_to_json(rules_file_key),
        "rule", rules_to_json(rules_rule_key), "require", rules_to_json(rules_require_key), "test",
        rules_to_json(rules_case_key), "verdicts", words_to_json(verdict_at, _VERDICT_MAX), "risks",
        words_to_json(risk_at, _RISK_MAX), "limits", words_to_json(limit_at, _RULES_LIMIT_MAX),
        "roles", roles_to_json(ROLES_ALL), "maxima", RULES_FILE_MAX, RULES_MAX, RULES_TESTS_MAX,
        RULES_LIST_MAX, RULES_PATTERN_MAX);
}

int main(void)
{
    json_t *all = json_pack("{s:o,s:o}", "config", config_to_json(), "policy", policy_to_json());
    json_dumpf(all, stdout, JSON_COMPACT);
    json_decref(all);
    return 0;
}
