/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate authority of one sandbox.
 *
 * Its key is computed from the seed that the warden derives for the sandbox, so that an interceptor
 * that is started again issues under the same one. It may sign names of the given hosts and no
 * others (name constraints), and no addresses. What it issues lives for days, in memory only. */
#pragma once

#include <openssl/types.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/intercept.h"

struct ca;
struct error;
struct pair_host;
struct strbuf;

struct ca *ca_new(const uint8_t seed[INTERCEPT_SEED_SIZE], const char *label,
                  const struct pair_host *hosts, size_t n_hosts, struct error *err);
void ca_free(struct ca *ca);
/* The authority's certificate as PEM. */
int ca_format(const struct ca *ca, struct strbuf *out);
/* A server's context with a certificate for that host; borrowed, and kept for the next time. NULL
 * where it cannot be made. */
SSL_CTX *ca_find_context(struct ca *ca, const char *host);
