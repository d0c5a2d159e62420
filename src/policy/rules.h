/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's policy file: who may do what, decided before anything runs (docs/policy.md).
 *
 * A ruleset is immutable once parsed and counted by references, so that a call keeps the revision
 * it was decided by while a newer one is loaded. Rules are matched against a whole call and, where
 * the call runs a command, against every simple command that its shell line could run
 * (shell/shell.h). Strictest wins: deny, then ask, then allow, then the file's default. What cannot
 * be known about a command is never allowed but by a rule that says `command: "*"`. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limit.h"

struct error;
struct finding;
struct identity;
struct ruleset;

#define RULES_FILE_MAX    (1024 * 1024) /* bytes of a policy file */
#define RULES_MAX         1024          /* rules of a file */
#define RULES_TESTS_MAX   4096          /* cases of a file */
#define RULES_LIST_MAX    256           /* items of one list of a rule */
#define RULES_PATTERN_MAX 1024          /* bytes of one pattern */
#define RULES_DEPTH_MAX   8             /* nesting of the YAML */
#define RULES_ID_MAX      63
#define RULES_NO_IMAGE    "none" /* the name of the host's programs among images */

enum verdict { VERDICT_ALLOW, VERDICT_ASK, VERDICT_DENY, _VERDICT_MAX }; /* strictest is highest */
enum risk { RISK_LOW, RISK_MEDIUM, RISK_HIGH, RISK_CRITICAL, _RISK_MAX };

const char *verdict_name(enum verdict v);
const char *risk_name(enum risk r);
int verdict_find(const char *name); /* or -1 */
int risk_find(const char *name);    /* or -1 */

/* Limits that a call asks for, or that a rule caps: those of its sandbox, and its own. */
struct rules_limits {
    struct limits box;
    int64_t timeout_ns;
};
enum { RULES_LIMIT_TIMEOUT = _LIMIT_MAX, _RULES_LIMIT_MAX };
/* The row of a limit by enum limit_index, or by RULES_LIMIT_TIMEOUT; of a struct rules_limits. */
const struct limit *rules_limit(int index);

/* One call as far as it is known before it runs. All of it is borrowed. */
struct rules_call {
    const struct identity *who; /* NULL means the anonymous caller, with no role */
    const char *tool;           /* "exec", "shell", "code", "file.read", "calculator", ... */
    unsigned capabilities;      /* enum capability */
    /* Of what runs as a command, and NULL for tools that are code of ours: ("sh", "-c", LINE) is
     * parsed, and so is every wrapper. */
    char *const *argv;
    const char *cwd; /* where a command starts; NULL if it is not known */
    /* KEY=VALUE that the caller sets for it, and for its sandbox: some change what a command means.
     */
    char *const *env;
    char *const *sandbox_env;
    const struct rules_path {
        const char *path; /* absolute; links resolved where they are known */
        bool write;
        bool tree; /* a directory, with all that is below it */
    } * paths;
    size_t n_paths;
    const char *host; /* of a URL tool; NULL for others */
    uint16_t port;
    /* Of a sandbox's network: a rule of gateway/rule.h with all that it opens. NULL for others. */
    const char *reach;
    const char *runtime;
    /* What its root is made of: first in full as the caller named it, then what else the image is
     * called; "none" for the host's programs. NULL: nothing that has a root. */
    char *const *image_names;
    const char *image_digest; /* 64 hexadecimal digits; NULL if there is none or none is known */
    struct rules_limits limits;
    const struct finding *findings; /* policy/finding.h */
    size_t n_findings;
    int64_t now_s; /* wall clock */
};

/* What must hold when the call runs, from every rule that matched; the strictest of each. */
struct rules_obligations {
    char min_runtime[32]; /* "" or a name: this or a stronger one (rules_runtime_rank()) */
    struct rules_limits caps;
    bool strip_network;
    bool redact_args; /* in the audit; output is never in it but as a hash */
};

struct rules_decision {
    enum verdict verdict;
    enum risk risk;   /* critical: approving it takes a second person */
    char rule[64];    /* id of the rule that decided; "default", "unknown" or "no policy" */
    char reason[256]; /* in words for the caller; valid UTF-8 */
    char would[64];   /* the rule that would have decided otherwise; "" for none */
    struct rules_obligations obligations;
};

/* NULL with err set: "policy.yaml:12:5: ..." in its message. text need not be NUL-terminated. */
struct ruleset *ruleset_parse(const char *text, size_t len, const char *name, struct error *err);
struct ruleset *ruleset_load(const char *path, struct error *err);
struct ruleset *ruleset_ref(struct ruleset *rs);
void ruleset_unref(struct ruleset *rs); /* NULL is fine */
/* SHA-256 of the file's bytes in hex; "" without a ruleset. */
const char *ruleset_revision(const struct ruleset *rs);
size_t ruleset_count(const struct ruleset *rs); /* rules */
/* Whether a decision can be by this name: a rule's id, "default" or "unknown". */
bool ruleset_names(const struct ruleset *rs, const char *rule);

/* Always decides. Without a ruleset: allow, by "no policy". Bounded in time, touches no file. */
void ruleset_decide(const struct ruleset *rs, const struct rules_call *call,
                    struct rules_decision *ret);
/* The rule that denies an image whatever is run in it, by its id; NULL if there is none.
 * *ret_reason is what the rule says about that, or NULL. */
const char *ruleset_denies_image(const struct ruleset *rs, const struct rules_call *call,
                                 const char **ret_reason);
/* The hosts (gateway/rule.h) that rules deny to a call of the tool "network" such as this one,
 * whose reach is not looked at. The caller frees with strv_free(). */
char **ruleset_denied_hosts(const struct ruleset *rs, const struct rules_call *call);
/* The same decision with all that led to it, as a new JSON object: verdict, risk, rule, reason,
 * would, revision, obligations, and a list of the commands that were seen with each one's rule. */
json_t *ruleset_explain(const struct ruleset *rs, const struct rules_call *call);
/* {"min_runtime": ..., "limits": {...}, ...}: only what is set. A new reference. */
json_t *rules_obligations_to_json(const struct rules_obligations *o);

/* Runs the cases that are in the file. A list of {passed, line, what, expected, verdict, rule,
 * ...}. */
json_t *ruleset_test(const struct ruleset *rs, size_t *ret_failed);

/* How strong a runtime's wall is (enum isolation): 0 none, higher is stronger; -1: no runtime of
 * this build has that name. */
int rules_runtime_rank(const char *name);
