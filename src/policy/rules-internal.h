/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the policy: rules.c (rulesets), rules-parse.c, rules-rule.c and
 * rules-value.c (from YAML), rules-pattern.c (commands), rules-match.c (one rule), rules-decide.c
 * (all of them), rules-case.c (tests in the file). */
#pragma once

#include "gateway/rule.h"
#include "policy/rules-glob.h"
#include "policy/rules-yaml.h"
#include "policy/rules.h"
#include "shell/shell.h"

#define RULES_STEPS_MAX  (4u * 1000 * 1000) /* of matching, for one decision */
#define RULES_HOURS_MAX  16
#define RULES_LIMITS_MAX 16

/* A command as rules write it: "git push *". */
struct command_pattern {
    char *text;
    char **words;
    size_t n_words;
    bool any; /* "*": every command, also one that is not known */
};

/* In the unit of its name; HUGE_VAL where there is no limit. */
double rules_limit_get(const struct rules_limits *l, int index);
/* Lowers a limit to value, in the unit of its name. False, with nothing changed, where the value is
 * less than the least that can be enforced: it would become 0, which means no limit. */
bool rules_limit_cap(struct rules_limits *l, int index, double value);

struct limit_test {
    int index; /* of rules_limit() */
    enum { LIMIT_ABOVE, LIMIT_BELOW, LIMIT_AT_LEAST, LIMIT_AT_MOST } op;
    double value;
};

struct rules_rule {
    char *id, *reason;
    size_t line;
    bool has_verdict, has_risk;
    bool needs_call; /* it has conditions on what a call does */
    enum verdict verdict;
    enum risk risk;
    char **keys, **tools, **runtimes, **findings; /* NULL if the rule does not ask for it */
    unsigned roles, capabilities;                 /* 0 if the rule does not ask for it */
    int severity;                                 /* -1 if the rule does not ask for it */
    struct command_pattern *commands;
    size_t n_commands;
    char **paths, **reads, **writes;
    char **images, **images_except;
    bool has_hosts;
    struct rule_list hosts;
    struct limit_test limits[RULES_LIMITS_MAX];
    size_t n_limits;
    unsigned days; /* bit 0 is Sunday; 0 if the rule does not ask for it */
    struct {
        int from, to; /* minutes of the day; to may be before from */
    } hours[RULES_HOURS_MAX];
    size_t n_hours;
    struct rules_obligations obligations;
};

struct rules_case {
    size_t line;
    char *title; /* what is tried, for people */
    char **argv;
    char *tool, *cwd, *host, *runtime, *key, *rule, *image;
    unsigned roles, capabilities;
    uint16_t port;
    struct rules_path *paths;
    size_t n_paths;
    struct rules_limits limits;
    int64_t now_s;
    enum verdict expect;
};

struct ruleset {
    int refs;
    char *name;
    char revision[65];
    enum verdict fallback; /* `default` */
    enum verdict unknown;
    int64_t utc_offset_s;
    char *workspace, *home; /* what relative patterns and "~" mean */
    struct rules_rule *rules;
    size_t n_rules;
    struct rules_case *cases;
    size_t n_cases;
};

/* A key of a policy file, as a row of its parser's tables has it. mas-policy(5) is made of them. */
struct rules_key {
    const char *name;
    const char *value; /* what is written behind it; mas-policy(5) explains words in capitals */
    const char *help;
};
/* By their place in the table; NULL behind the last. */
const struct rules_key *rules_file_key(size_t index);
const struct rules_key *rules_rule_key(size_t index);
const struct rules_key *rules_require_key(size_t index);
const struct rules_key *rules_case_key(size_t index);

/* rules-parse.c */
int rules_parse_tree(struct ruleset *rs, const struct node *root, struct error *err);
/* What else the parsers of cases need from it. */
struct rules_parse {
    struct ruleset *rs;
    struct error *err;
};
/* Refuses a file for what one of its nodes says. */
#define rules_fail(p, n, ...) node_error((n), (p)->rs->name, (p)->err, __VA_ARGS__)
/* rules-rule.c */
int rules_parse_rule(struct rules_parse *p, const struct node *n, struct rules_rule *rule);
int rules_parse_minutes(const char *text); /* of the day, from "09:30"; -1: it is no such text */
/* rules-value.c */
int rules_parse_text(struct rules_parse *p, const struct node *n, size_t max, const char **ret);
int rules_parse_list(struct rules_parse *p, const struct node *n, char ***ret);
int rules_parse_roles(struct rules_parse *p, const struct node *n, unsigned *ret);
int rules_parse_capabilities(struct rules_parse *p, const struct node *n, unsigned *ret);
int rules_parse_limits(struct rules_parse *p, const struct node *n, struct rules_limits *ret);
int rules_parse_verdict(struct rules_parse *p, const struct node *n, enum verdict *ret);
int rules_parse_risk(struct rules_parse *p, const struct node *n, enum risk *ret);
int rules_parse_bool(struct rules_parse *p, const struct node *n, bool *ret);
int rules_parse_number(struct rules_parse *p, const struct node *n, const char *text, double *ret);
int rules_find_limit(struct rules_parse *p, const struct node *key, int *ret);
/* rules-case.c */
int rules_case_parse(struct rules_parse *p, const struct node *n, struct rules_case *ret);
void rules_case_done(struct rules_case *c);

/* rules-pattern.c: -EINVAL for a text that is no pattern. */
int command_pattern_parse(const char *text, struct command_pattern *ret);
void command_pattern_done(struct command_pattern *p);
/* Surely this command and no other: what an allow rule needs. */
bool command_pattern_covers(const struct command_pattern *p, const struct shell_command *c,
                            size_t *budget);
/* This command, or one that it may turn out to be: what ask and deny rules need. named: an allow
 * rule has named this very path. */
enum match command_pattern_meets(const struct command_pattern *p, const struct shell_command *c,
                                 char *const *cwds, bool named, size_t *budget);

/* rules-path.c */
/* The absolute path, lexically normal, that a word of a command names; a hole where it is not
 * known. The caller frees it. */
char *rules_word_path(const struct ruleset *rs, const char *text, const char *cwd);
char *rules_normalize(const char *path);

/* rules-image.c */
int rules_parse_images(struct rules_parse *p, const struct node *n, struct rules_rule *rule);
int rules_parse_images_except(struct rules_parse *p, const struct node *n, struct rules_rule *rule);

/* rules-match.c */
struct rules_subject {                     /* one thing that a call does */
    const struct shell_command *command;   /* or */
    const struct shell_redirect *redirect; /* or neither: the call itself */
    const struct shell_command *owner;     /* of the redirection */
};
struct rules_look { /* what a decision carries along */
    const struct ruleset *rs;
    const struct rules_call *call;
    char *const *cwds; /* where its commands may be; NULL if it is not known */
    size_t budget;
};
/* Does the rule concern the call at all (who, tool, time, ...)? */
bool rules_match_call(const struct rules_rule *rule, struct rules_look *l);
bool rules_match_image(const struct rules_rule *rule, struct rules_look *l); /* rules-image.c */
enum match rules_match_subject(const struct rules_rule *rule, const struct rules_subject *s,
                               bool named, struct rules_look *l);
