/* SPDX-License-Identifier: Apache-2.0 */
/* Where the link of a sandbox is, for the direct carrier (broker-route.c). */
#pragma once

#include <stdint.h>

#include "net/pin.h"

struct kube_broker;
struct route_lookup;

struct route {
    char address[46]; /* in digits */
    uint8_t pin[PIN_SIZE];
};

/* What is known; NULL: nothing. */
const struct route *route_find(const struct kube_broker *b, const char *id);
void route_forget(struct kube_broker *b, const char *id);
void routes_free(struct kube_broker *b);
/* Asks the cluster. on_done comes once, never from within, with a route, which is known from then
 * on, or with NULL and the reason. It is gone afterwards. */
struct route_lookup *route_look_up(struct kube_broker *b, const char *id,
                                   void (*on_done)(void *data, const struct route *route,
                                                   const char *why),
                                   void *data);
/* Nothing is called back any more. NULL is fine. */
void route_cancel(struct route_lookup *l);
