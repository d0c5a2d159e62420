/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/addresses.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "proto/kube.h"
#include "proto/net.h"
#include "runtime/kube/proof.h"
#include "runtime/runtime.h"
#include "runtime/spec.h"

/* Whatever their ports are. */
static bool ranges_meet(const struct net_range *a, const struct net_range *b)
{
    struct net_range one = *a, other = *b;
    one.port_first = other.port_first = 0;
    one.port_last = other.port_last = UINT16_MAX;
    return net_range_covers(&one, &other) || net_range_covers(&other, &one);
}

static int refuse_denied(const struct net_range *r, const struct net_range *denied,
                         struct error *err)
{
    char text[NET_RANGE_TEXT_SIZE], part[NET_RANGE_TEXT_SIZE];
    net_range_format(r, text);
    net_range_format(denied, part);
    return error_unsupported(err, "network.cidrs",
                             "%s has %s in it, which is denied: the networks of a pod have no "
                             "exceptions; name those around it",
                             text, part);
}

/* What is denied is no part of what is asked for: there is no rule against a part of a network. */
static int check_denied(const struct net_range *r, const struct spec *s,
                        const struct net_config *network, struct error *err)
{
    struct net_range denied;
    for (uint32_t i = 0; network && i < network->n_denied; i++)
        if (ranges_meet(r, &network->denied[i]))
            return refuse_denied(r, &network->denied[i], err);
    for (char *const *text = s->denied_hosts; text && *text; text++)
        if (net_range_parse(*text, &denied) == 0 && ranges_meet(r, &denied))
            return refuse_denied(r, &denied, err);
    return 0;
}

/* A pod shows that its policy holds by not reaching the witness. */
static int check_witness(const struct net_range *r, const struct proof_report *proof,
                         struct error *err)
{
    struct net_range witness;
    char text[NET_RANGE_TEXT_SIZE];
    if (!*proof->witness || net_range_parse(proof->witness, &witness) < 0 ||
        !ranges_meet(r, &witness))
        return 0;
    net_range_format(r, text);
    return error_set(
        err, ERROR_UNENFORCEABLE, 0,
        "the network %s has pods of the cluster in it, and so the one that each sandbox "
        "must not reach: its wall could not be tried",
        text);
}

int pod_addresses_check(const struct spec *s, const struct net_config *network,
                        const struct proof_report *proof, struct error *err)
{
    struct net_range range;
    char why[sizeof(err->message)];
    uint32_t n = 0;
    int r = 0;
    if (s->lent && s->lent[0])
        return error_unsupported(err, "network", "the networks of a pod are fixed when it is made");
    for (char *const *text = s->cidrs; r >= 0 && text && *text; text++) {
        if (++n > NET_RANGES_MAX)
            return error_field(err, "cidrs", "more than %d networks", NET_RANGES_MAX);
        if (net_range_parse(*text, &range) < 0)
            return error_field(err, "cidrs", "'%.100s' is not a network", *text);
        if (network && net_ceiling_check(network, &range, 1, why, sizeof(why)) < 0)
            return error_set(err, ERROR_DENIED, 0, "%s", why);
        r = check_denied(&range, s, network, err);
        r = r < 0 ? r : check_witness(&range, proof, err);
    }
    return r;
}

void pod_addresses_fill(const struct spec *s, struct kube_order *o)
{
    for (char *const *text = s->cidrs; text && *text && o->n_ranges < NET_RANGES_MAX; text++)
        if (net_range_parse(*text, &o->ranges[o->n_ranges]) == 0)
            o->n_ranges++;
}
