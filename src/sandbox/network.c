/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a sandbox's network, which can change while it runs.
 *
 * They are in its spec, and with it in its row. Who may change them is decided above
 * (tool/network-change.h); here a change is put into the spec, ends the connections that it does
 * not allow any more, and is written down. Networks by address are in network-address.c. A sandbox
 * that may reach nothing any more keeps its proxy and a rule for a name that never exists, so that
 * it is not taken for one without a list. */
#include "sandbox/network.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "gateway/gateway-client.h"
#include "gateway/rule.h"
#include "sandbox/internal.h"

static int64_t now_s(void)
{
    return clock_seen_ns() / 1000000000;
}

char **network_policy_denied(const struct manager *m, const char *owner, const struct spec *spec)
{
    const struct manager_options *o = &m->options;
    return o->find_denied_hosts ? o->find_denied_hosts(o->on_exec_data, owner, spec) : NULL;
}

/* A new list of both. */
static char **join_texts(char *const *first, char *const *then)
{
    size_t n = strv_length(first), more = strv_length(then);
    char **all = xcalloc(n + more + 1, sizeof(*all));
    for (size_t i = 0; i < n; i++)
        all[i] = xstrdup(first[i]);
    for (size_t i = 0; i < more; i++)
        all[n + i] = xstrdup(then[i]);
    return all;
}

char **sandbox_denied_hosts(const struct sandbox *sb)
{
    _cleanup_strv_ char **more = network_policy_denied(sb->manager, sb->owner, &sb->spec);
    return join_texts(sb->spec.denied_hosts, more);
}

int network_check_room(const struct manager *m, const char *owner, const struct spec *spec,
                       const struct gateway_rules *own, struct error *err)
{
    _cleanup_strv_ char **more = network_policy_denied(m, owner, spec);
    _cleanup_strv_ char **denied = join_texts(own->denied, more);
    struct gateway_rules rules = *own;
    rules.denied = denied;
    return gateway_rules_check(&rules, err);
}

bool sandbox_shares_kernel(const struct sandbox *sb)
{
    return sb->ops->isolation < ISOLATION_VIRTUAL_MACHINE && !sb->ops->lives_elsewhere;
}

static struct rule_list parse_rules(char *const *texts)
{
    struct rule_list l = {0};
    for (; texts && *texts; texts++)
        rule_list_add_full(&l, *texts);
    return l;
}

/* --- texts */

void network_add_text(char ***list, const char *text)
{
    size_t n = strv_length(*list);
    for (size_t i = 0; i < n; i++)
        if (strcmp((*list)[i], text) == 0)
            return;
    *list = xrealloc(*list, (n + 2) * sizeof(**list));
    (*list)[n] = xstrdup(text);
    (*list)[n + 1] = NULL;
}

/* Whether one of the words is the name of the rule, its host and port, or the whole of its text. */
static bool text_is_called_any(const char *text, char *const *words)
{
    struct rule_list l = {0};
    bool called = false;
    if (!words || !*words)
        return false;
    const struct rule *rule = rule_list_add_full(&l, text) < 0 ? NULL : l.rules;
    _cleanup_free_ char *host = rule ? rule_format_host(rule) : NULL;
    for (; !called && *words; words++)
        called = strcmp(text, *words) == 0 || (host && strcmp(host, *words) == 0) ||
                 (rule && rule->id && strcmp(rule->id, *words) == 0);
    rule_list_done(&l);
    return called;
}

static bool network_text_is_called(const char *text, const char *word)
{
    char *const words[] = {(char *)word, NULL};
    return text_is_called_any(text, words);
}

static bool has_ended(const char *text)
{
    struct rule_list l = {0};
    bool ended =
        rule_list_add_full(&l, text) >= 0 && l.rules[0].until_s && l.rules[0].until_s <= now_s();
    rule_list_done(&l);
    return ended;
}

char **network_keep_texts(char *const *texts, const struct network_change *c)
{
    char **kept = NULL;
    for (; texts && *texts; texts++)
        if (!has_ended(*texts) && !(c && (c->drop_all || text_is_called_any(*texts, c->drop))) &&
            strcmp(*texts, GATEWAY_HOST_NONE) != 0)
            network_add_text(&kept, *texts);
    return kept;
}

static bool ends_some_day(const char *text)
{
    return strstr(text, " until=") != NULL; /* nothing else in a rule has a space before it */
}

bool network_has_end(char *const *texts)
{
    for (; texts && *texts; texts++)
        if (ends_some_day(*texts))
            return true;
    return false;
}

char **network_keep_endless(char *const *texts)
{
    char **kept = NULL;
    for (; texts && *texts; texts++)
        if (!ends_some_day(*texts))
            network_add_text(&kept, *texts);
    return kept;
}

char **sandbox_allowed_hosts(const struct sandbox *sb)
{
    if (!sb->spec.network || !network_has_end(sb->spec.hosts))
        return strv_copy(sb->spec.hosts);
    char **kept = network_keep_texts(sb->spec.hosts, NULL);
    if (!kept)
        network_add_text(&kept, GATEWAY_HOST_NONE);
    return kept;
}

char **exec_allowed_hosts(const struct sandbox *sb, const struct exec *e)
{
    char **hosts = sandbox_allowed_hosts(sb);
    if (!e || !e->hosts)
        return hosts;
    char **both = gateway_hosts_intersect(hosts, e->hosts);
    strv_free(hosts);
    return both;
}

int sandbox_check_own_proxy(const struct sandbox *sb, struct error *err)
{
    if (spec_has_addresses(&sb->spec))
        return error_set(
            err, ERROR_UNSUPPORTED, 0,
            "a network by address is the same for all commands of its sandbox: one command cannot "
            "have less of it");
    const struct runner *r = sandbox_runner(sb); /* of one that is lost nothing is known */
    if (r && sb->resumed && !(runner_features(r) & RUNNER_OWN_PROXY))
        return error_set(err, ERROR_UNSUPPORTED, 0,
                         "a call with fewer hosts than its sandbox needs Landlock of ABI 4 (Linux "
                         "6.7) inside it, which sandbox %s does not have",
                         sb->id);
    return 0;
}

/* --- calls that the sandbox's network suits as it is */

int network_check_bound(const struct sandbox *sb, char *const *bound, struct error *err)
{
    if (!bound)
        return 0;
    _cleanup_strv_ char **now = network_keep_texts(sb->spec.hosts, NULL);
    return gateway_hosts_cover(bound, now)
               ? 0
               : error_set(err, ERROR_CONFLICT, 0,
                           "the network of sandbox %s was widened meanwhile, beyond the hosts of "
                           "this call: make it again",
                           sb->id);
}

/* Nothing holds such a call to its own hosts, because they were those of its sandbox at least. One
 * that an earlier control plane started may be known to the runner alone, until it has told of it.
 */
static int check_bounds(const struct sandbox *sb, char *const *allow, struct error *err)
{
    if (!sb->spec.network || !allow || !*allow)
        return 0;
    if (sb->restored && !sb->resumed)
        return error_set(
            err, ERROR_CONFLICT, 0,
            "the runner of sandbox %s has not yet reported its running commands: the network can "
            "be widened after that%s",
            sb->id, sb->paused ? ", for which the sandbox has to be resumed" : "");
    list_for_each(e, &sb->running, struct exec, phase_node) {
        if (e->bound && !gateway_hosts_cover(e->bound, allow))
            return error_set(
                err, ERROR_CONFLICT, 0,
                "exec %s is running with a policy that allows fewer hosts: the network of its "
                "sandbox can be widened beyond them when it has ended",
                e->id);
    }
    return 0;
}

/* --- changing */

static bool list_has_called(char *const *texts, const char *word)
{
    for (; texts && *texts; texts++)
        if (network_text_is_called(*texts, word))
            return true;
    return false;
}

bool sandbox_network_has(const struct sandbox *sb, const char *word)
{
    const struct spec *s = &sb->spec;
    return list_has_called(s->hosts, word) || list_has_called(s->cidrs, word) ||
           list_has_called(s->lent, word);
}

/* The rules that a change leaves. */
static struct network_rules rules_after(const struct sandbox *sb, const struct network_change *c)
{
    struct network_rules after = {network_keep_texts(sb->spec.hosts, c),
                                  strv_copy(sb->spec.denied_hosts)};
    for (char *const *text = sb->spec.network ? c->allow : NULL; text && *text; text++)
        network_add_text(&after.hosts, *text);
    for (char *const *text = c->deny; text && *text; text++)
        network_add_text(&after.denied, *text);
    return after;
}

static int check_gateway(const struct sandbox *sb, const struct network_change *c,
                         struct error *err)
{
    bool adds = (c->allow && *c->allow) || (c->deny && *c->deny);
    if (!sb->spec.network || !adds)
        return 0; /* what only drops makes room, however much of it is missing */
    struct network_rules after = rules_after(sb, c);
    bool denies = c->deny && *c->deny; /* otherwise it is what was allowed that makes too many */
    if (!after.hosts)
        network_add_text(&after.hosts, GATEWAY_HOST_NONE);
    struct gateway_rules rules = {.hosts = after.hosts,
                                  .denied = after.denied,
                                  .intercepted = sb->spec.intercept_hosts,
                                  .hosts_member = "allow",
                                  .denied_member = denies ? "deny" : "allow",
                                  .proxy = true};
    int r = network_check_room(sb->manager, sb->owner, &sb->spec, &rules, err);
    strv_free(after.hosts);
    strv_free(after.denied);
    return r;
}

int sandbox_check_network(const struct sandbox *sb, const struct network_change *c,
                          struct error *err)
{
    bool nothing = c->drop_all && !(c->allow && *c->allow) && !(c->deny && *c->deny);
    bool addresses = sandbox_is_by_address(sb);
    if (!sb->spec.network && !addresses && nothing)
        return 0; /* which it has already */
    if (!sb->spec.network && !addresses)
        return error_set(err, ERROR_CONFLICT, 0,
                         "sandbox %s was made without a network, and cannot get one", sb->id);
    if (sb->state != SANDBOX_READY && sb->state != SANDBOX_CREATING)
        return sandbox_check_ready(sb, err);
    int r = addresses ? address_change_check(sb, c, err) : 0;
    if (r < 0)
        return r;
    r = interceptor_check_rules(sb, c->allow, err);
    if (r < 0)
        return r;
    r = interceptor_check_rules(sb, c->deny, err);
    if (r < 0)
        return r;
    r = check_bounds(sb, c->allow, err);
    if (r < 0)
        return r;
    for (char *const *word = c->drop; word && *word; word++)
        if (!sandbox_network_has(sb, *word))
            return error_field(err, "drop", "no rule that allows is called '%.100s'", *word);
    return check_gateway(sb, c, err);
}

bool sandbox_network_covers(const struct sandbox *sb, const char *rule)
{
    const struct spec *s = &sb->spec;
    char *const one[] = {(char *)rule, NULL};
    if (s->network || !sandbox_is_by_address(sb))
        return gateway_hosts_cover(s->hosts, one);
    return gateway_hosts_cover(s->cidrs, one) || gateway_hosts_cover(s->lent, one);
}

/* In the list of those that on_tick() looks at, while a rule of it ends. */
void sandbox_watch_network(struct sandbox *sb)
{
    list_remove(&sb->expiring_node);
    if ((sb->spec.network && network_has_end(sb->spec.hosts)) || network_has_end(sb->spec.lent) ||
        sb->addresses_unsent || sb->network_unwritten)
        list_append(&sb->manager->expiring, &sb->expiring_node);
}

void network_set_rules(struct sandbox *sb, char **hosts, char **denied)
{
    if (!hosts && sb->spec.network)
        network_add_text(&hosts, GATEWAY_HOST_NONE);
    strv_free(sb->spec.hosts);
    strv_free(sb->spec.denied_hosts);
    sb->spec.hosts = hosts;
    sb->spec.denied_hosts = denied;
    gateway_packet_drop(sb);
    sandbox_watch_network(sb);
    gateway_reports_check(sb);
}

/* A change holds while the daemon lives, also where it cannot be written; it is written again at
 * every tick until it would hold after a restart too. */
struct row_write {
    struct sandbox *sandbox; /* referenced */
    network_change_fn fn;
    void *data;
};

static void on_row_written(void *data, const struct error *err)
{
    struct row_write w = *(struct row_write *)data;
    struct sandbox *sb = w.sandbox;
    free(data);
    sb->network_unwritten = err && err->code != ERROR_TOO_LARGE;
    if (sb->state == SANDBOX_READY || sb->state == SANDBOX_CREATING)
        sandbox_watch_network(sb);
    if (w.fn)
        w.fn(w.data, err);
    sandbox_unref(sb);
}

void network_write_row(struct sandbox *sb, network_change_fn fn, void *data)
{
    if (!persist_wants_sandbox(sb)) {
        if (fn)
            fn(data, NULL);
        return;
    }
    struct row_write *w = new0(struct row_write);
    *w = (struct row_write){sandbox_ref(sb), fn, data};
    persist_sandbox(sb, on_row_written, w);
}

int sandbox_change_network(struct sandbox *sb, const struct network_change *c, network_change_fn fn,
                           void *data, struct error *err)
{
    int r = sandbox_check_network(sb, c, err);
    if (r < 0)
        return r;
    bool addresses = sandbox_is_by_address(sb);
    if (!sb->spec.network && !addresses) {
        fn(data, NULL);
        return 0;
    }
    struct network_rules after = rules_after(sb, c);
    if (addresses)
        return address_change_start(sb, c, &after, fn, data, err);
    network_set_rules(sb, after.hosts, after.denied);
    network_write_row(sb, fn, data);
    return 0;
}

void sandbox_expire_networks(struct manager *m)
{
    list_for_each_safe(sb, &m->expiring, struct sandbox, expiring_node) {
        sandbox_expire_addresses(sb);
        if (sb->network_unwritten && sb->state == SANDBOX_READY) {
            sb->network_unwritten = false;
            network_write_row(sb, NULL, NULL);
        }
        char **kept = sb->spec.network ? network_keep_texts(sb->spec.hosts, NULL) : NULL;
        if (!sb->spec.network || strv_length(kept) == strv_length(sb->spec.hosts)) {
            strv_free(kept);
            continue;
        }
        network_set_rules(sb, kept, strv_copy(sb->spec.denied_hosts));
        if (sb->state == SANDBOX_READY)
            network_write_row(sb, NULL, NULL);
    }
}

/* --- what was allowed before */

/* Method and path of a request are not known here: where only rules about them have its host, the
 * connection ends. Such connections are short, because each has one request. */
bool sandbox_still_allows(const struct sandbox *sb, const struct target *t, const struct address *a)
{
    _cleanup_strv_ char **allowed = sandbox_allowed_hosts(sb), **denied = sandbox_denied_hosts(sb);
    struct rule_list allow = parse_rules(allowed), deny = parse_rules(denied);
    struct rule_request q = {.target = t};
    const struct rule *rule = rule_list_find_allowance(&allow, &q);
    bool good = rule && !rule->ask && !rule_list_find_denial(&deny, &q, a);
    rule_list_done(&allow);
    rule_list_done(&deny);
    return good;
}
