/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as the API takes them: "TERM", "SIGTERM" or 15. */
#pragma once

#include <jansson.h>

struct error;

int signal_parse(const json_t *value, int *ret, struct error *err);
