/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that several tools share. */
#pragma once

#include <jansson.h>
#include <stdint.h>

struct error;
struct toolnet;

/* "timeout": seconds as a number, or a text such as "30s" or "30"; absent or 0 is the default. */
int args_timeout(const struct toolnet *net, const json_t *args, int64_t *ret_ms, struct error *err);
/* A string that must be there and not be empty. */
int args_string(const json_t *args, const char *key, const char **ret, struct error *err);
