/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's pairs: where the secret of each comes from, and its hosts and header.
 *
 *   NAME=FROM HOST[,HOST...] HEADER
 *   openai=file:/etc/mas-sandbox/openai.key api.openai.com Authorization: Bearer {}
 *
 * FROM is file:PATH, env:VARIABLE or credential:NAME (a systemd credential). Only mas-sandboxd
 * reads them, before it gives up its rights, and it keeps only seals of them. */
#pragma once

#include <stdint.h>

#include "secret/seal.h"

struct error;
struct pair;

/* The hosts alone, for a process that cannot read the secret. */
int source_read_hosts(const char *item, struct pair *ret, struct error *err);
/* NAME=BASE64 of each item, sealed, into a vector that the caller frees. */
int source_seal_all(char *const *items, const uint8_t public_key[SEAL_KEY_SIZE], char ***ret,
                    struct error *err);
/* Whether all of them can be read. */
int source_check_all(char *const *items, struct error *err);
