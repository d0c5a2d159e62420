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

static const struct limit_row {
    const char *name;
    size_t offset; /* of its member in struct rules_limits */
    size_t size;
    double unit; /* how much of the member one of it is */
    bool whole;  /* there is no half of it */
} limit_rows[] = {
#define ROW(name, member, unit, whole)                                                             \
    {                                                                                              \
        name, offsetof(struct rules_limits, member),                                               \
            sizeof(((struct rules_limits *)NULL)->member), unit, whole                             \
    }
    [LIMIT_MEMORY_MB] = ROW("memory_mb", memory_bytes, 1 << 20, false),
    [LIMIT_DISK_MB] = ROW("disk_mb", disk_bytes, 1 << 20, false),
    [LIMIT_IO_MB_PER_S] = ROW("io_mb_per_s", io_bytes_per_s, 1 << 20, false),
    [LIMIT_CPU_CORES] = ROW("cpu_cores", cpu_millicores, 1000, false),
    [LIMIT_MAX_PROCESSES] = ROW("max_processes", processes, 1, true),
    [LIMIT_OPEN_FILES] = ROW("open_files", open_files, 1, true),
    [LIMIT_TIMEOUT_S] = ROW("timeout_s", timeout_ns, 1e9, false),
#undef ROW
};
static_assert(ELEMENTS(limit_rows) == _LIMIT_FIELD_MAX, "a row per limit");

const char *limit_field_name(enum limit_field f)
{
    return limit_rows[f].name;
}

uint64_t limit_field_raw(const struct rules_limits *l, enum limit_field f)
{
    const char *member = (const char *)l + limit_rows[f].offset;
    return limit_rows[f].size == sizeof(uint32_t) ? *(const uint32_t *)member
                                                  : *(const uint64_t *)member;
}

double limit_field_get(const struct rules_limits *l, enum limit_field f)
{
    uint64_t raw = limit_field_raw(l, f);
    return raw ? (double)raw / limit_rows[f].unit : HUGE_VAL;
}

bool limit_field_cap(struct rules_limits *l, enum limit_field f, double value)
{
    const struct limit_row *row = &limit_rows[f];
    char *member = (char *)l + row->offset;
    if (limit_field_get(l, f) <= value)
        return true;
    double raw = floor(value * row->unit),
           most = row->size == sizeof(uint32_t) ? UINT32_MAX : (double)INT64_MAX;
    if (raw < 1 || (row->whole && value != floor(value)))
        return false;
    if (row->size == sizeof(uint32_t))
        *(uint32_t *)member = (uint32_t)fmin(raw, most);
    else
        *(uint64_t *)member = raw < most ? (uint64_t)raw : INT64_MAX;
    return true;
}

json_t *rules_obligations_to_json(const struct rules_obligations *o)
{
    json_t *json = json_object(), *limits = json_object();
    for (int f = 0; f < _LIMIT_FIELD_MAX; f++) {
        double v = limit_field_get(&o->caps, (enum limit_field)f);
        if (v < HUGE_VAL)
            json_object_set_new(limits, limit_field_name((enum limit_field)f),
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

static void rule_done(struct rules_rule *r)
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
        rule_done(&rs->rules[i]);
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
