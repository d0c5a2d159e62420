/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kube/pool.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "proto/kube.h"
#include "runtime/kube/cluster.h"
#include "runtime/kube/pod-spec.h"

#define RECORD_START "{\"pool\":\""
#define RECORD_END   "\"}"

void pool_order_fill(const struct cluster_options *o, const struct spec *spec,
                     struct kube_order *order)
{
    pod_order_fill(spec, o->image, order);
    if (o->cpu_request_millicores < order->cpu_millicores)
        order->cpu_request_millicores = o->cpu_request_millicores;
    if (o->memory_request_bytes < order->memory_bytes)
        order->memory_request_bytes = o->memory_request_bytes;
}

void pool_record_format(const struct cluster_options *o, const struct spec *spec,
                        char out[POOL_RECORD_SIZE])
{
    static struct kube_order order; /* too large for a stack, and used up at once */
    uint8_t digest[SHA256_SIZE];
    char hash[SHA256_HEX_SIZE];
    struct sha256 s;
    memset(&order, 0, sizeof(order));
    pool_order_fill(o, spec, &order);
    order.nonce = 0;
    sha256_init(&s);
    sha256_update(&s, &order, sizeof(order));
    sha256_final(&s, digest);
    sha256_hex(digest, hash);
    snprintf(out, POOL_RECORD_SIZE, RECORD_START "%s" RECORD_END, hash);
}

bool pool_is_record(const char *text, size_t len)
{
    size_t before = strlen(RECORD_START), behind = strlen(RECORD_END);
    return len == before + SHA256_HEX_SIZE - 1 + behind &&
           memcmp(text, RECORD_START, before) == 0 &&
           memcmp(text + len - behind, RECORD_END, behind) == 0;
}
