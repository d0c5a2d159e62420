/* SPDX-License-Identifier: Apache-2.0 */
/* Networks that a pod reaches by address (spec.cidrs), as ranges of an order. The broker makes them
 * ipBlocks of the pod's NetworkPolicy, with what is not public kept out of each. */
#pragma once

struct error;
struct kube_order;
struct net_config;
struct proof_report;
struct spec;

/* 0, or negative with err set: what the operator does not allow, and what a NetworkPolicy cannot
 * say or a pod could not try. network: the operator's ceiling; NULL: there is none. */
int pod_addresses_check(const struct spec *s, const struct net_config *network,
                        const struct proof_report *proof, struct error *err);
/* Of a spec that was checked. */
void pod_addresses_fill(const struct spec *s, struct kube_order *o);
