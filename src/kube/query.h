/* SPDX-License-Identifier: Apache-2.0 */
/* Queries of request targets. */
#pragma once

#include "base/strbuf.h"

#define KUBE_TARGET_MAX (32u << 10)

/* Appends "?name=value" or "&name=value", the value percent-encoded. 0 or -EFBIG. */
int kube_query_add(struct strbuf *target, const char *name, const char *value);
