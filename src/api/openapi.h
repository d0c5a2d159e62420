/* SPDX-License-Identifier: Apache-2.0 */
/* docs/openapi.json, compiled in. */
#pragma once

#include <stddef.h>

extern const char openapi_json[];
extern const size_t openapi_json_len;
