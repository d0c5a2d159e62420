/* SPDX-License-Identifier: Apache-2.0 */
/* Where the link of a sandbox is, for the direct carrier (broker-route.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "net/pin.h"

struct kube_broker;
struct route_lookup;

struct route {
    char address[46]; /* in digits */
    uint8_t pin[PIN_SIZE];
    int64_t barred_until_ms; /* it did not lead there; 0: it does */
};

/* What is known; NULL: nothing. */
const struct route *route_find(const struct kube_broker *b, const char *id);
/* The sandbox is not reached this way: for a while, no stream to it tries again. */
void route_bar(struct kube_broker *b, const char *id);
bool route_is_barred(const struct kube_broker *b, const char *id);
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
