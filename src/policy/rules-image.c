/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on what a sandbox's root is made of.
 *
 * A call has the names of its image (struct rules_call): first how the caller named it, in full
 * (`registry/name:tag`, with what the caller left out), then every other name that the same image
 * is known by. A pattern is about the first; what asks or denies is about all of them, so that an
 * image is not another one by another name. A whole `sha256:...` is the image, however named. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "policy/rules-internal.h"

#define DIGEST_PREFIX "sha256:"
#define DIGEST_LEN    (7 + 64)

/* --- patterns */

static bool is_digest(const char *text)
{
    return strncmp(text, DIGEST_PREFIX, 7) == 0 && strlen(text) == DIGEST_LEN &&
           strspn(text + 7, "0123456789abcdef") == 64;
}

static const char *pattern_complaint(const char *pattern)
{
    /* "registry" in "registry/...": what has a dot, a colon or a star in it. */
    size_t n = strcspn(pattern, "/");
    size_t registry = pattern[n] && strcspn(pattern, ".:*") < n ? n : 0;
    for (const char *c = pattern; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return "a space or a control character in it";
    if (strstr(pattern, "://"))
        return "write it without 'docker://'";
    for (size_t i = 0; i < registry; i++)
        if (isupper((unsigned char)pattern[i]))
            return "registries are compared in lower case";
    if (strncmp(pattern, DIGEST_PREFIX, 7) == 0 && glob_is_literal(pattern) && !is_digest(pattern))
        return "a digest has 64 of 0-9 and a-f";
    const char *dot = strchr(pattern, '.'), *star = strchr(pattern, '*');
    if (!strchr(pattern, '/') && dot && star && dot < star)
        return "it would mean other registries as well: end the registry's name with '/'";
    return NULL;
}

static int parse_patterns(struct rules_parse *p, const struct node *n, char ***ret)
{
    int r = rules_parse_list(p, n, ret);
    for (size_t i = 0; r >= 0 && (*ret)[i]; i++) {
        const char *why = pattern_complaint((*ret)[i]);
        if (why)
            r = rules_fail(p, n->type == NODE_LIST ? &n->items[i] : n,
                           "'%.100s' is not an image pattern: %s", (*ret)[i], why);
    }
    return r;
}

int rules_parse_images(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return parse_patterns(p, n, &rule->images);
}

int rules_parse_images_except(struct rules_parse *p, const struct node *n, struct rules_rule *rule)
{
    return parse_patterns(p, n, &rule->images_except);
}

/* --- matching */

/* Behind the name of a pattern that has neither tag nor digest there may be any. */
static bool leaves_tag_open(const char *pattern)
{
    const char *slash = strrchr(pattern, '/'), *last = slash ? slash : pattern;
    return !strpbrk(last, ":@");
}

static enum match match_name(const char *pattern, const char *name, size_t *budget)
{
    enum match whole = glob_match_name(pattern, name, budget);
    if (whole == MATCH_YES || !leaves_tag_open(pattern))
        return whole;
    const char *slash = strrchr(name, '/');
    size_t len = (size_t)(slash ? slash - name : 0);
    len += strcspn(name + len, ":@");
    _cleanup_free_ char *bare = xstrndup(name, len);
    return match_or(whole, glob_match_name(pattern, bare, budget));
}

static bool has_digest(char *const *patterns, const char *digest)
{
    for (; digest && *patterns; patterns++)
        if (is_digest(*patterns) && strcmp(*patterns + 7, digest) == 0)
            return true;
    return false;
}

/* Also by the digest that a name ends with: it may be that of an index. */
static enum match match_any(char *const *patterns, const char *name, size_t *budget)
{
    const char *at = strstr(name, "@" DIGEST_PREFIX);
    enum match m = has_digest(patterns, at ? at + 8 : NULL) ? MATCH_YES : MATCH_NO;
    for (; *patterns && m != MATCH_YES; patterns++)
        m = match_or(m, match_name(*patterns, name, budget));
    return m;
}

/* By how it was asked for, surely; or (widely) by any of its names, possibly. */
static bool is_listed(char *const *patterns, struct rules_look *l, bool widely)
{
    const struct rules_call *call = l->call;
    enum match m = has_digest(patterns, call->image_digest) ? MATCH_YES : MATCH_NO;
    for (char *const *name = call->image_names; *name && m != MATCH_YES; name++)
        if (widely || name == call->image_names)
            m = match_or(m, match_any(patterns, *name, &l->budget));
    return m >= (widely ? MATCH_MAYBE : MATCH_YES);
}

bool rules_match_image(const struct rules_rule *rule, struct rules_look *l)
{
    const struct rules_call *call = l->call;
    bool allows = rule->has_verdict && rule->verdict == VERDICT_ALLOW;
    if (!rule->images && !rule->images_except)
        return true;
    if (!call->image_names || !call->image_names[0])
        return false;
    if (rule->images && !is_listed(rule->images, l, !allows))
        return false;
    if (!rule->images_except)
        return true;
    /* The host's programs are no image. */
    return strcmp(call->image_names[0], RULES_NO_IMAGE) != 0 &&
           !is_listed(rule->images_except, l, allows);
}

/* --- before there is anything to run */

static bool names_digest(char *const *patterns)
{
    for (; patterns && *patterns; patterns++)
        if (is_digest(*patterns))
            return true;
    return false;
}

/* Whether a rule is about images alone: others wait for the call that they are about. One that
 * spares digests has to wait for this one's. */
static bool is_about_images(const struct rules_rule *r, const struct rules_call *call)
{
    if (!call->image_digest && names_digest(r->images_except))
        return false;
    return r->has_verdict && r->verdict == VERDICT_DENY && (r->images || r->images_except) &&
           !r->needs_call;
}

const char *ruleset_denies_image(const struct ruleset *rs, const struct rules_call *call,
                                 const char **ret_reason)
{
    struct rules_look look = {.rs = rs, .call = call, .budget = RULES_STEPS_MAX};
    for (size_t i = 0; rs && i < rs->n_rules; i++)
        if (is_about_images(&rs->rules[i], call) && rules_match_call(&rs->rules[i], &look)) {
            *ret_reason = rs->rules[i].reason;
            return rs->rules[i].id;
        }
    return NULL;
}
