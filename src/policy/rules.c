/* SPDX-License-Identifier: Apache-2.0 */
/* Rulesets as values: made from bytes, counted, known by the hash of their bytes. */
#include "policy/rules.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sha256.h"
#include "base/strbuf.h"
#include "policy/rules-internal.h"
#include "runtime/runtime.h"

static const char *const verdict_names[] = {"allow", "ask", "deny"};
static const char *const risk_names[] = {"low", "medium", "high", "critical"};
static_assert(ELEMENTS(verdict_names) == _VERDICT_MAX, "a name per verdict");
static_assert(ELEMENTS(risk_names) == _RISK_MAX, "a name per risk");

const char *verdict_name(enum verdict v)
{
    return verdict_names[v];
}

const char *risk_name(enum risk r)
{
    return risk_names[r];
}

static int find_name(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

int verdict_find(const char *name)
{
    return find_name(verdict_names, ELEMENTS(verdict_names), name);
}

int risk_find(const char *name)
{
    return find_name(risk_names, ELEMENTS(risk_names), name);
}

/* The registry is the only one that knows how strong a runtime is. */
int rules_runtime_rank(const char *name)
{
    const struct runtime_ops *ops = runtime_find(name);
    return ops ? (int)ops->isolation : -1;
}

/* --- limits by name */

const struct limit *rules_limit(int index)
{
    static const struct limit timeout = {.name = "timeout_s",
                                         .wall = -1,
                                         .offset = offsetof(struct rules_limits, timeout_ns),
                                         .size = sizeof(int64_t),
                                         .unit = 1e9};
    static_assert(offsetof(struct rules_limits, box) == 0, "the table's offsets hold here, too");
    return index == RULES_LIMIT_TIMEOUT ? &timeout : &limit_table[index];
}

double rules_limit_get(const struct rules_limits *l, int index)
{
    const struct limit *row = rules_limit(index);
    uint64_t raw = limit_get(row, l);
    return raw ? limit_in_unit(row, raw) : HUGE_VAL;
}

bool rules_limit_cap(struct rules_limits *l, int index, double value)
{
    const struct limit *row = rules_limit(index);
    uint64_t raw = limit_from_unit(row, value);
    if (rules_limit_get(l, index) <= value)
        return true;
    if (!raw || (row->whole && value != floor(value)))
        return false;
    limit_set(row, l, raw);
    return true;
}

json_t *rules_obligations_to_json(const struct rules_obligations *o)
{
    json_t *json = json_object(), *limits = json_object();
    for (int i = 0; i < _RULES_LIMIT_MAX; i++) {
        double v = rules_limit_get(&o->caps, i);
        if (v < HUGE_VAL)
            json_object_set_new(limits, rules_limit(i)->name,
                                v == floor(v) ? json_integer((json_int_t)v) : json_real(v));
    }
    if (*o->min_runtime)
        json_object_set_new(json, "min_runtime", json_string(o->min_runtime));
    if (json_object_size(limits))
        json_object_set(json, "limits", limits);
    json_decref(limits);
    if (o->strip_network)
        json_object_set_new(json, "strip_network", json_true());
    if (o->redact_args)
        json_object_set_new(json, "redact_args", json_true());
    return json;
}

/* --- life */

static void rules_rule_done(struct rules_rule *r)
{
    free(r->id);
    free(r->reason);
    strv_free(r->keys);
    strv_free(r->tools);
    strv_free(r->runtimes);
    strv_free(r->findings);
    strv_free(r->paths);
    strv_free(r->reads);
    strv_free(r->writes);
    strv_free(r->images);
    strv_free(r->images_except);
    for (size_t i = 0; i < r->n_commands; i++)
        command_pattern_done(&r->commands[i]);
    free(r->commands);
    rule_list_done(&r->hosts);
}

struct ruleset *ruleset_ref(struct ruleset *rs)
{
    if (rs)
        rs->refs++;
    return rs;
}

void ruleset_unref(struct ruleset *rs)
{
    if (!rs || --rs->refs > 0)
        return;
    for (size_t i = 0; i < rs->n_rules; i++)
        rules_rule_done(&rs->rules[i]);
    for (size_t i = 0; i < rs->n_cases; i++)
        rules_case_done(&rs->cases[i]);
    free(rs->rules);
    free(rs->cases);
    free(rs->name);
    free(rs->workspace);
    free(rs->home);
    free(rs);
}

const char *ruleset_revision(const struct ruleset *rs)
{
    return rs ? rs->revision : "";
}

size_t ruleset_count(const struct ruleset *rs)
{
    return rs ? rs->n_rules : 0;
}

bool ruleset_names(const struct ruleset *rs, const char *rule)
{
    for (size_t i = 0; rs && i < rs->n_rules; i++)
        if (strcmp(rs->rules[i].id, rule) == 0)
            return true;
    return rs && (strcmp(rule, "default") == 0 || strcmp(rule, "unknown") == 0);
}

struct ruleset *ruleset_parse(const char *text, size_t len, const char *name, struct error *err)
{
    if (len > RULES_FILE_MAX) {
        error_set(err, ERROR_INVALID, 0, "%s: larger than %d bytes", name, RULES_FILE_MAX);
        return NULL;
    }
    struct node *root = node_parse(text, len, name, RULES_DEPTH_MAX, err);
    if (!root)
        return NULL;
    struct ruleset *rs = new0(struct ruleset);
    rs->refs = 1;
    rs->name = xstrdup(name);
    int r = rules_parse_tree(rs, root, err);
    node_free(root);
    if (r < 0) {
        ruleset_unref(rs);
        return NULL;
    }
    struct sha256 hash;
    uint8_t digest[SHA256_SIZE];
    char hex[SHA256_HEX_SIZE];
    sha256_init(&hash);
    sha256_update(&hash, text, len);
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
    snprintf(rs->revision, sizeof(rs->revision), "%s", hex);
    return rs;
}

struct ruleset *ruleset_load(const char *path, struct error *err)
{
    _cleanup_strbuf_ struct strbuf text = STRBUF_INIT(RULES_FILE_MAX);
    int r = fd_read_file_at(AT_FDCWD, path, &text);
    if (r < 0) {
        if (r == -EFBIG)
            error_set(err, ERROR_INVALID, 0, "%s: larger than %d bytes", path, RULES_FILE_MAX);
        else
            error_set(err, r == -ENOENT ? ERROR_NOT_FOUND : ERROR_INVALID, -r, "%s", path);
        return NULL;
    }
    return ruleset_parse(text.data ? text.data : "", text.len, path, err);
}
