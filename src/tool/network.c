/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/network.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gateway/gateway-client.h"
#include "guard/gate.h"
#include "policy/policy.h"
#include "runtime/runtime.h"
#include "sandbox/sandbox.h"

int network_admit(struct gate *gate, const struct identity *who, const struct spec *spec,
                  struct sandbox_maker *ret, struct error *err)
{
    int r = spec->network ? gate_check_network(gate, who, spec->runtime, spec->hosts, err) : 0;
    if (r < 0)
        return r;
    r = gate_check_network(gate, who, spec->runtime, spec->cidrs, err);
    if (r < 0)
        return r;
    *ret = (struct sandbox_maker){
        .key = who->key, .address = who->address, .network_admitted = spec_has_network(spec)};
    return 0;
}

static bool has_hosts(const struct policy *p)
{
    return p->allowed_hosts && p->allowed_hosts[0];
}

int network_from_policies(struct spec *spec, const struct policy *const *policies, size_t n,
                          struct error *err)
{
    const struct runtime_ops *runtime = runtime_find(spec->runtime);
    char **hosts = NULL;
    bool enabled = runtime && runtime->has_proxy;
    for (size_t i = 0; i < n && enabled; i++) {
        if (!policies[i] || !policies[i]->has_network)
            continue;
        char **both = gateway_hosts_intersect(hosts, policies[i]->allowed_hosts);
        strv_free(hosts);
        hosts = both;
        enabled = policies[i]->network_enabled;
    }
    strv_free(spec->hosts);
    spec->hosts = enabled ? steal_ptr(hosts) : NULL;
    spec->network = spec->hosts && spec->hosts[0];
    strv_free(hosts);
    if (!spec->network || gateway_hosts_check(spec->hosts, "AllowedHosts", err) < 0)
        return spec->network ? -EINVAL : 0;
    return gateway_rules_check(&(struct gateway_rules){.hosts = spec->hosts,
                                                       .hosts_member = "AllowedHosts",
                                                       .proxy = true},
                               err);
}

bool network_is_within(const struct spec *spec, const struct policy *policy)
{
    if (policy->has_network && !policy->network_enabled)
        return false;
    if (spec_has_addresses(spec) && has_hosts(policy))
        return false; /* a list of names says nothing of packets */
    return !has_hosts(policy) || gateway_hosts_cover(policy->allowed_hosts, spec->hosts);
}

bool network_stays_within(const struct policy *own, const struct policy *policy)
{
    char *const all[] = {(char *)"*", NULL};
    return !has_hosts(policy) || gateway_hosts_cover(policy->allowed_hosts, all) ||
           (own && has_hosts(own) &&
            gateway_hosts_cover(policy->allowed_hosts, own->allowed_hosts));
}

char **network_narrow(const struct policy *const *policies, size_t n)
{
    char *const none[] = {(char *)GATEWAY_HOST_NONE, NULL};
    char **hosts = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!policies[i] || !policies[i]->has_network)
            continue;
        char *const *theirs =
            policies[i]->network_enabled ? (char *const *)policies[i]->allowed_hosts : none;
        char **both = gateway_hosts_intersect(hosts, theirs);
        strv_free(hosts);
        hosts = both;
    }
    return hosts;
}

char **network_denied_hosts(void *gate, const char *owner, const struct spec *spec)
{
    return gate_denied_hosts(gate, owner, spec->runtime, spec->network ? GATE_NETWORK : GATE_URL);
}
