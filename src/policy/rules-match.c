/* SPDX-License-Identifier: Apache-2.0 */
/* One rule against one thing that a call does. Conditions are all to hold; for an allow rule
 * surely, for any other possibly. */
#include <string.h>

#include "base/alloc.h"
#include "base/url.h"
#include "policy/finding.h"
#include "identity/identity.h"
#include "policy/rules-internal.h"

/* --- the call as a whole */

static bool in_globs(char *const *globs, const char *text, size_t *budget)
{
    for (; text && *globs; globs++)
        if (glob_match_name(*globs, text, budget) == MATCH_YES)
            return true;
    return false;
}

/* What was not looked at may hold anything: a rule that allows is not met by that, any other is. */
static bool may_hide(const struct rules_rule *rule, const struct finding *f)
{
    return strcmp(f->id, FINDING_NOT_FULLY_CHECKED) == 0 &&
           !(rule->has_verdict && rule->verdict == VERDICT_ALLOW);
}

static bool match_findings(const struct rules_rule *rule, struct rules_look *l)
{
    if (!rule->findings && rule->severity < 0)
        return true;
    for (size_t i = 0; i < l->call->n_findings; i++) {
        const struct finding *f = &l->call->findings[i];
        if (may_hide(rule, f))
            return true;
        if (rule->severity >= 0 && (int)f->severity < rule->severity)
            continue;
        if (!rule->findings || in_globs(rule->findings, f->id, &l->budget) ||
            in_globs(rule->findings, f->check, &l->budget))
            return true;
    }
    return false;
}

static bool match_limits(const struct rules_rule *rule, const struct rules_call *call)
{
    for (size_t i = 0; i < rule->n_limits; i++) {
        const struct limit_test *t = &rule->limits[i];
        double v = rules_limit_get(&call->limits, t->index);
        bool holds = t->op == LIMIT_ABOVE      ? v > t->value
                     : t->op == LIMIT_AT_LEAST ? v >= t->value
                     : t->op == LIMIT_BELOW    ? v < t->value
                                               : v <= t->value;
        if (!holds)
            return false;
    }
    return true;
}

static bool match_time(const struct rules_rule *rule, const struct rules_look *l)
{
    int64_t local = l->call->now_s + l->rs->utc_offset_s;
    int64_t day = local / 86400 - (local % 86400 < 0);
    int minute = (int)((local - day * 86400) / 60);
    int weekday = (int)(((day + 4) % 7 + 7) % 7); /* 1970-01-01 was a Thursday */
    if (rule->days && !(rule->days & (1u << weekday)))
        return false;
    bool found = rule->n_hours == 0;
    for (size_t i = 0; i < rule->n_hours && !found; i++) {
        int from = rule->hours[i].from, to = rule->hours[i].to;
        found = from <= to ? minute >= from && minute < to : minute >= from || minute < to;
    }
    return found;
}

bool rules_match_call(const struct rules_rule *rule, struct rules_look *l)
{
    const struct rules_call *call = l->call;
    if (rule->keys && !(call->who && (in_globs(rule->keys, call->who->name, &l->budget) ||
                                      in_globs(rule->keys, call->who->key, &l->budget))))
        return false;
    if (rule->roles && !(call->who && (call->who->roles & rule->roles)))
        return false;
    if (rule->tools && !in_globs(rule->tools, call->tool, &l->budget))
        return false;
    if (rule->capabilities && !(call->capabilities & rule->capabilities))
        return false;
    if (rule->runtimes && !in_globs(rule->runtimes, call->runtime, &l->budget))
        return false;
    return rules_match_image(rule, l) && match_limits(rule, call) && match_findings(rule, l) &&
           match_time(rule, l);
}

/* --- paths */

enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_ANY };

static enum match match_globs(char *const *globs, const char *path, size_t *budget)
{
    enum match m = MATCH_NO;
    for (; globs && *globs && m < MATCH_YES; globs++)
        m = match_or(m, glob_match_path(*globs, path, budget));
    return m;
}

/* What is read or written is not known of a word: then a condition on one of them may hold. */
static enum match match_path(const struct rules_rule *rule, const char *path, enum access access,
                             size_t *budget)
{
    enum match m = match_globs(rule->paths, path, budget);
    if (access != ACCESS_WRITE) {
        enum match r = match_globs(rule->reads, path, budget);
        m = match_or(m, access == ACCESS_ANY ? match_and(r, MATCH_MAYBE) : r);
    }
    if (access != ACCESS_READ) {
        enum match w = match_globs(rule->writes, path, budget);
        m = match_or(m, access == ACCESS_ANY ? match_and(w, MATCH_MAYBE) : w);
    }
    return m;
}

static bool is_allow(const struct rules_rule *rule)
{
    return rule->has_verdict && rule->verdict == VERDICT_ALLOW;
}

static bool globs_cover_tree(char *const *globs, const char *path, size_t *budget)
{
    for (; globs && *globs; globs++)
        if (glob_covers_tree(*globs, path, budget))
            return true;
    return false;
}

/* What is below a directory is not known: leave must be for all of it, and any other rule that can
 * match something there may be about it. */
static enum match match_tree(const struct rules_rule *rule, const char *path, enum access access,
                             size_t *budget)
{
    if (is_allow(rule)) {
        char *const *more = access == ACCESS_WRITE ? rule->writes : rule->reads;
        bool all =
            globs_cover_tree(rule->paths, path, budget) || globs_cover_tree(more, path, budget);
        return all ? MATCH_YES : MATCH_NO;
    }
    _cleanup_free_ char *below = xasprintf("%s/%c", strcmp(path, "/") ? path : "", SHELL_ANY);
    return match_and(match_path(rule, below, access, budget), MATCH_MAYBE);
}

static enum match match_call_path(const struct rules_rule *rule, const struct rules_path *p,
                                  size_t *budget)
{
    _cleanup_free_ char *path = rules_normalize(p->path);
    enum access access = p->write ? ACCESS_WRITE : ACCESS_READ;
    enum match m = match_path(rule, path, access, budget);
    if (!p->tree)
        return m;
    enum match below = match_tree(rule, path, access, budget);
    return is_allow(rule) ? match_and(m, below) : match_or(m, below);
}

/* All of them for an allow rule, one of them for any other. */
static enum match match_call_paths(const struct rules_rule *rule, struct rules_look *l)
{
    const struct rules_call *call = l->call;
    enum match all = call->n_paths ? MATCH_YES : MATCH_NO, any = MATCH_NO;
    for (size_t i = 0; i < call->n_paths; i++) {
        enum match m = match_call_path(rule, &call->paths[i], &l->budget);
        all = match_and(all, m);
        any = match_or(any, m);
    }
    return is_allow(rule) ? all : any;
}

/* What some programs do with the files among their arguments, unless a flag says otherwise. */
static const struct {
    const char *names;
    enum { OPENS_NOTHING, OPENS_TO_READ, OPENS_TO_WRITE } how;
    const char *unless; /* letters and words of flags */
} habits[] = {
    {"echo printf true false : exit sleep seq expr return kill shift wait test [ cd basename "
     "dirname "
     "pwd which",
     OPENS_NOTHING, ""},
    {"cat head tail less more grep egrep fgrep rg ls wc diff cmp stat file du df cut tr nl tac rev "
     "od "
     "md5sum sha1sum sha256sum sha512sum cksum strings realpath readlink comm join paste fold "
     "base64 "
     "column jq",
     OPENS_TO_READ, ""},
    {"tee touch rm rmdir mkdir truncate unlink chmod chown", OPENS_TO_WRITE, ""},
    {"sort tree", OPENS_TO_READ, "-o --output"},
    {"sed", OPENS_TO_READ, "-i --in-place"},
    {"find", OPENS_TO_READ, "-delete -fprint -fprint0 -fprintf -fls"},
};

static bool has_flag(const struct shell_command *c, const char *flags)
{
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        if (c->words[i].unknown && (c->words[i].splits || *t == '-'))
            return true;
        for (const char *f = flags; *t == '-' && *f;) {
            size_t n = strcspn(f, " ");
            bool letter = n == 2 && t[1] != '-' && strchr(t + 1, f[1]);
            if (letter || strncmp(t, f, n) == 0 || (n > 3 && strncmp(t, f, strlen(t)) == 0))
                return true;
            f += n + (f[n] == ' ');
        }
    }
    return c->more;
}

/* Index into habits, or -1. */
static int habit_of(const struct shell_command *c)
{
    for (size_t i = 0; i < ELEMENTS(habits); i++)
        if (c->kind == SHELL_NAME_KNOWN && !c->opaque &&
            shell_in_list(habits[i].names, c->name, strlen(c->name)))
            return *habits[i].unless && has_flag(c, habits[i].unless) ? -1 : (int)i;
    return -1;
}

static enum match match_path_from(const struct rules_rule *rule, const char *text, const char *cwd,
                                  enum access access, struct rules_look *l)
{
    size_t cost = strlen(text) + 64; /* of making the path */
    l->budget -= cost < l->budget ? cost : l->budget;
    if (!l->budget)
        return MATCH_MAYBE;
    _cleanup_free_ char *path = rules_word_path(l->rs, text, cwd);
    return match_path(rule, path, access, &l->budget);
}

/* From every place where the command may be: all for an allow rule, one for any other. */
static enum match match_text_path(const struct rules_rule *rule, const struct shell_command *c,
                                  const char *text, enum access access, struct rules_look *l)
{
    if (c->moved || !l->cwds)
        return match_path_from(rule, text, NULL, access, l);
    enum match m = is_allow(rule) ? MATCH_YES : MATCH_NO;
    for (char *const *cwd = l->cwds; *cwd; cwd++) {
        enum match one = match_path_from(rule, text, *cwd, access, l);
        m = is_allow(rule) ? match_and(m, one) : match_or(m, one);
    }
    return m;
}

/* A flag may hold a path behind its '=' or its letter; "" when it cannot. */
static const char *path_in_flag(const char *flag)
{
    const char *equals = strchr(flag, '=');
    return equals ? equals + 1 : flag[1] && flag[1] != '-' && flag[2] ? flag + 2 : "";
}

/* name=path, rev:path, host:path, @path: a path may be behind any of these. */
static enum match match_behind(const struct rules_rule *rule, const struct shell_command *c,
                               const char *text, enum access access, struct rules_look *l)
{
    enum match m = MATCH_NO;
    for (int n = 0; n < 4 && m < MATCH_YES && (text = strpbrk(text, "=:@")); n++)
        if (*++text)
            m = match_or(m, match_text_path(rule, c, text, access, l));
    return m;
}

static enum match match_command_paths(const struct rules_rule *rule, const struct shell_command *c,
                                      struct rules_look *l)
{
    enum match all = MATCH_YES, any = MATCH_NO;
    if (!c->n_words)
        return is_allow(rule) ? MATCH_NO : MATCH_MAYBE;
    int habit = habit_of(c);
    for (size_t i = 0; i < c->n_redirects; i++) { /* files that options name */
        const struct shell_redirect *r = &c->redirects[i];
        enum match m = r->inside ? match_text_path(rule, c, r->target.text,
                                                   r->write ? ACCESS_WRITE : ACCESS_READ, l)
                                 : MATCH_NO;
        all = r->inside ? match_and(all, m) : all;
        any = match_or(any, m);
    }
    if (c->transparent || (habit >= 0 && habits[habit].how == OPENS_NOTHING))
        return is_allow(rule) ? all : any;
    enum access access = habit < 0                             ? ACCESS_ANY
                         : habits[habit].how == OPENS_TO_WRITE ? ACCESS_WRITE
                                                               : ACCESS_READ;
    if (c->more) {
        all = match_and(all, MATCH_MAYBE);
        any = match_or(any, MATCH_MAYBE);
    }
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        bool flag = t[0] == '-';
        const char *text = flag ? path_in_flag(t) : t;
        enum match m = *text || !flag ? match_text_path(rule, c, text, access, l) : MATCH_NO;
        if (!is_allow(rule))
            any = match_or(any, match_behind(rule, c, t, access, l));
        any = match_or(any, m);
        if (!flag || c->words[i].unknown || strpbrk(t, "/="))
            all = match_and(all, m);
    }
    return is_allow(rule) ? all : any;
}

/* --- hosts */

static bool host_in_rule(const struct rules_rule *rule, const char *host, size_t len, uint16_t port)
{
    struct target t = {.port = port};
    return target_parse_host(host, len, &t) >= 0 && rule_list_has_host(&rule->hosts, &t);
}

/* The host of a URL, of user@host:path, or a bare one. */
static bool word_names_host(const struct rules_rule *rule, const char *text)
{
    struct url_parts p;
    uint16_t port = 0;
    url_split(text, &p);
    if (p.port)
        target_parse_port(p.port, p.port_len, &port);
    static const uint16_t usual[] = {443, 80, 22, 21, 9418};
    if (port)
        return host_in_rule(rule, p.host, p.host_len, port);
    for (size_t i = 0; i < ELEMENTS(usual); i++)
        if (host_in_rule(rule, p.host, p.host_len, usual[i]))
            return true;
    return false;
}

static bool may_dial(const struct shell_command *c)
{
    static const char *const names[] = {"curl",  "wget", "git",  "ssh",    "scp",     "sftp",
                                        "rsync", "nc",   "ncat", "telnet", "ftp",     "http",
                                        "socat", "ping", "dig",  "host",   "nslookup"};
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(c->name, names[i]) == 0)
            return true;
    return c->kind != SHELL_NAME_KNOWN;
}

static enum match match_command_hosts(const struct rules_rule *rule, const struct shell_command *c)
{
    enum match all = MATCH_NO, any = MATCH_NO;
    bool others = false;
    if (!c->n_words)
        return is_allow(rule) ? MATCH_NO : MATCH_MAYBE;
    for (size_t i = 1; i < c->n_words; i++) {
        const char *t = c->words[i].text;
        bool named = !c->words[i].unknown && word_names_host(rule, t);
        if (named && strstr(t, "://"))
            all = MATCH_YES;
        else if (t[0] != '-' || c->words[i].unknown)
            others = true;
        if (named)
            any = MATCH_YES;
        else if (c->words[i].unknown && may_dial(c))
            any = match_or(any, MATCH_MAYBE);
    }
    if (c->more && may_dial(c))
        any = match_or(any, MATCH_MAYBE);
    return is_allow(rule) ? others || c->more ? MATCH_NO : all : any;
}

/* --- all of it */

static bool has_paths(const struct rules_rule *rule)
{
    return rule->paths || rule->reads || rule->writes;
}

static bool says_any_command(const struct rules_rule *rule)
{
    for (size_t i = 0; i < rule->n_commands; i++)
        if (rule->commands[i].any)
            return true;
    return false;
}

/* What opens many hosts is allowed where a rule has all of them, and denied or asked about where a
 * rule has any of them. */
static bool reach_in_rule(const struct rules_rule *rule, const char *reach)
{
    struct rule_list l = {0};
    bool found = false;
    if (rule_list_add(&l, reach) < 0)
        return !is_allow(rule);
    for (size_t i = 0; i < rule->hosts.n && !found; i++) {
        struct rule both;
        if (!rule_intersect(&rule->hosts.rules[i], &l.rules[0], &both))
            continue;
        _cleanup_free_ char *met = rule_format(&both), *whole = rule_format(&l.rules[0]);
        rule_done(&both);
        found = !is_allow(rule) || strcmp(met, whole) == 0;
    }
    rule_list_done(&l);
    return found;
}

static enum match match_call(const struct rules_rule *rule, struct rules_look *l)
{
    enum match m = MATCH_YES;
    if (rule->n_commands && !(l->call->argv && says_any_command(rule)))
        return MATCH_NO;
    if (has_paths(rule))
        m = match_call_paths(rule, l);
    if (rule->has_hosts && l->call->reach)
        return reach_in_rule(rule, l->call->reach) ? m : MATCH_NO;
    if (rule->has_hosts &&
        !(l->call->host && host_in_rule(rule, l->call->host, strlen(l->call->host), l->call->port)))
        return MATCH_NO;
    return m;
}

static enum match match_redirect(const struct rules_rule *rule, const struct rules_subject *s,
                                 struct rules_look *l)
{
    const struct shell_word *w = &s->redirect->target;
    if (rule->has_hosts)
        return MATCH_NO;
    if (rule->n_commands && !says_any_command(rule))
        return MATCH_NO;
    if (!has_paths(rule))
        return w->unknown && is_allow(rule) && !says_any_command(rule) ? MATCH_MAYBE : MATCH_YES;
    return match_text_path(rule, s->owner, w->text, s->redirect->write ? ACCESS_WRITE : ACCESS_READ,
                           l);
}

static enum match match_commands(const struct rules_rule *rule, const struct shell_command *c,
                                 bool named, struct rules_look *l)
{
    enum match m = MATCH_NO;
    for (size_t i = 0; i < rule->n_commands && m < MATCH_YES; i++) {
        const struct command_pattern *p = &rule->commands[i];
        if (is_allow(rule))
            m = command_pattern_covers(p, c, &l->budget) ? MATCH_YES : MATCH_NO;
        else
            m = match_or(m, command_pattern_meets(p, c, l->cwds, named, &l->budget));
    }
    return m;
}

static enum match match_command(const struct rules_rule *rule, const struct shell_command *c,
                                bool named, struct rules_look *l)
{
    enum match m = MATCH_YES;
    if (rule->n_commands)
        m = match_commands(rule, c, named, l);
    else if (is_allow(rule) && (has_paths(rule) || rule->has_hosts))
        return MATCH_NO; /* an allow rule that names only paths or hosts allows no program to run */
    else if (is_allow(rule) && (c->opaque || c->kind != SHELL_NAME_KNOWN))
        return MATCH_MAYBE;
    if (m != MATCH_NO && has_paths(rule))
        m = match_and(m, match_command_paths(rule, c, l));
    if (m != MATCH_NO && rule->has_hosts)
        m = match_and(m, match_command_hosts(rule, c));
    return m;
}

enum match rules_match_subject(const struct rules_rule *rule, const struct rules_subject *s,
                               bool named, struct rules_look *l)
{
    if (!l->budget)
        return MATCH_MAYBE;
    if (s->command)
        return match_command(rule, s->command, named, l);
    return s->redirect ? match_redirect(rule, s, l) : match_call(rule, l);
}
