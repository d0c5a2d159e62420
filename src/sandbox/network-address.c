/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a sandbox's network that is by address, and changes of it.
 *
 * What packets may reach is decided by rules that the runtime has installed. A change asks the
 * runtime first and is put into the spec, and the row, when it holds: a change that failed has
 * changed nothing. A control plane that dies between the two leaves a row that says less or more
 * than the rules, so the next one sends what the row says. The same is tried again at every tick
 * until it is done, as is the end of an address that was lent. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "gateway/rule.h"
#include "proto/net.h"
#include "sandbox/internal.h"

bool sandbox_is_by_address(const struct sandbox *sb)
{
    return spec_has_addresses(&sb->spec) || sb->effective.network_by_address;
}

/* A packet has an address and a port, and nothing that other rules are about. */
static int check_lent(const char *text, struct error *err)
{
    struct rule_list l = {0};
    bool good = rule_list_add_full(&l, text) >= 0 && l.rules[0].kind == RULE_NETWORK &&
                !l.rules[0].http && !l.rules[0].ask;
    rule_list_done(&l);
    return good ? 0
                : error_unsupported(
                      err, "allow",
                      "this sandbox has a network by address: only an address with a port can be "
                      "added to it");
}

/* What is reached by address after a change. */
static void addresses_after(const struct sandbox *sb, const struct network_change *c,
                            char ***ret_cidrs, char ***ret_lent)
{
    *ret_cidrs = network_keep_texts(sb->spec.cidrs, c);
    *ret_lent = network_keep_texts(sb->spec.lent, c);
    for (char *const *text = sb->spec.network ? NULL : c->allow; text && *text; text++)
        if (!sandbox_network_covers(sb, *text))
            network_add_text(ret_lent, *text);
}

static int check_added(const struct sandbox *sb, const struct network_change *c, struct error *err)
{
    struct spec next = {.network = sb->spec.network,
                        .denied_hosts = strv_copy(sb->spec.denied_hosts)};
    addresses_after(sb, c, &next.cidrs, &next.lent);
    for (char *const *text = c->deny; text && *text; text++)
        network_add_text(&next.denied_hosts, *text);
    int r = sb->ops->check_addresses(sb->instance, &next, err);
    spec_done(&next);
    return r;
}

int address_change_check(const struct sandbox *sb, const struct network_change *c,
                         struct error *err)
{
    int r = 0;
    /* What is sent once more, after mas-net was away, is no other caller's change. */
    if (sb->addresses_changing)
        return error_set(err, sb->addresses_unsent ? ERROR_UNAVAILABLE : ERROR_CONFLICT, 0,
                         "the network of sandbox %s is being changed", sb->id);
    if (!sb->ops->change_addresses)
        return error_unsupported(
            err, "network", "the networks of a sandbox of runtime '%s' are fixed when it is made",
            sb->ops->name);
    if (!sb->instance)
        return error_set(err, ERROR_CONFLICT, 0, "sandbox %s is not running", sb->id);
    for (char *const *text = sb->spec.network ? NULL : c->allow; r >= 0 && text && *text; text++)
        r = check_lent(*text, err);
    bool adds = (c->allow && *c->allow) || (c->deny && *c->deny);
    return r >= 0 && adds ? check_added(sb, c, err) : r;
}

/* --- changing */

/* What the spec has when the runtime has done its part. */
struct address_change {
    struct sandbox *sandbox; /* referenced */
    struct network_rules rules;
    char **cidrs, **lent;
    network_change_fn fn;
    void *data;
};

static void address_change_free(struct address_change *ch)
{
    strv_free(ch->rules.hosts);
    strv_free(ch->rules.denied);
    strv_free(ch->cidrs);
    strv_free(ch->lent);
    sandbox_unref(ch->sandbox);
    free(ch);
}

static void address_change_apply(struct address_change *ch)
{
    struct sandbox *sb = ch->sandbox;
    strv_free(sb->spec.cidrs);
    strv_free(sb->spec.lent);
    sb->spec.cidrs = steal_ptr(ch->cidrs);
    sb->spec.lent = steal_ptr(ch->lent);
    network_set_rules(sb, steal_ptr(ch->rules.hosts), steal_ptr(ch->rules.denied));
}

static void on_addresses_changed(void *data, const struct error *err)
{
    struct address_change *ch = data;
    struct sandbox *sb = ch->sandbox;
    bool lives = sb->state == SANDBOX_READY || sb->state == SANDBOX_CREATING;
    struct error gone = {0};
    sb->addresses_changing = false;
    fault_point("network.replaced");
    if (!err && !lives) { /* its row is being removed, and is not to come back */
        sandbox_check_ready(sb, &gone);
        err = &gone;
    }
    if (err) {
        /* mas-net may have put it into force before it died: what the row says is sent again. */
        sb->addresses_unsent = true;
        if (lives)
            sandbox_watch_network(sb);
        ch->fn(ch->data, err);
    } else {
        address_change_apply(ch);
        network_write_row(sb, ch->fn, ch->data);
    }
    address_change_free(ch);
}

static bool lists_are_equal(char *const *a, char *const *b)
{
    size_t n = strv_length(a);
    if (strv_length(b) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

static bool changes_rules(const struct address_change *ch)
{
    const struct spec *s = &ch->sandbox->spec;
    return !lists_are_equal(s->cidrs, ch->cidrs) || !lists_are_equal(s->lent, ch->lent) ||
           !lists_are_equal(s->denied_hosts, ch->rules.denied);
}

/* Takes ch. The runtime has one change at a time (addresses_changing): a second one under way could
 * be put into force before the first, and the row would say the other. */
static int address_change_send(struct address_change *ch, struct error *err)
{
    struct sandbox *sb = ch->sandbox;
    struct spec next = {.network = sb->spec.network,
                        .cidrs = ch->cidrs,
                        .lent = ch->lent,
                        .denied_hosts = ch->rules.denied};
    int r = sb->ops->change_addresses(sb->instance, &next, on_addresses_changed, ch, err);
    if (r < 0)
        address_change_free(ch);
    else
        sb->addresses_changing = true;
    return r;
}

static struct address_change *address_change_new(struct sandbox *sb, network_change_fn fn,
                                                 void *data)
{
    struct address_change *ch = new0(struct address_change);
    ch->sandbox = sandbox_ref(sb);
    ch->fn = fn;
    ch->data = data;
    return ch;
}

int address_change_start(struct sandbox *sb, const struct network_change *c,
                         const struct network_rules *rules, network_change_fn fn, void *data,
                         struct error *err)
{
    struct address_change *ch = address_change_new(sb, fn, data);
    ch->rules = *rules;
    addresses_after(sb, c, &ch->cidrs, &ch->lent);
    if (changes_rules(ch))
        return address_change_send(ch, err);
    address_change_apply(ch);
    network_write_row(sb, fn, data);
    address_change_free(ch);
    return 0;
}

/* --- what the sandbox has by itself */

/* Has a reference to the sandbox. */
static void on_sent(void *data, const struct error *err)
{
    struct sandbox *sb = data;
    if (err && sb->state == SANDBOX_READY)
        log_warn("network by address is not what its row says yet id=%s: %s", sb->id, err->message);
    else
        sb->addresses_unsent = false;
    if (sb->state == SANDBOX_READY || sb->state == SANDBOX_CREATING)
        sandbox_watch_network(sb);
    sandbox_unref(sb);
}

/* The spec as it is, without what has ended. */
static void addresses_settle(struct sandbox *sb)
{
    struct error err = {0};
    struct network_rules rules = {strv_copy(sb->spec.hosts), strv_copy(sb->spec.denied_hosts)};
    struct address_change *ch = address_change_new(sb, on_sent, sandbox_ref(sb));
    ch->rules = rules;
    ch->cidrs = network_keep_texts(sb->spec.cidrs, NULL);
    ch->lent = network_keep_texts(sb->spec.lent, NULL);
    if (address_change_send(ch, &err) < 0)
        on_sent(sb, &err);
}

void sandbox_send_addresses(struct sandbox *sb)
{
    sb->addresses_unsent = true;
    sandbox_watch_network(sb);
    sandbox_expire_addresses(sb);
}

void sandbox_expire_addresses(struct sandbox *sb)
{
    if (!sb->instance || !sb->ops->change_addresses || sb->addresses_changing ||
        !(sb->state == SANDBOX_READY || sb->state == SANDBOX_CREATING))
        return;
    _cleanup_strv_ char **kept = network_keep_texts(sb->spec.lent, NULL);
    if (sb->addresses_unsent || strv_length(kept) != strv_length(sb->spec.lent))
        addresses_settle(sb);
}
