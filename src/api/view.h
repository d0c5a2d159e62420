/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as the API shows them. Every function returns a new reference. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "runtime/runtime.h"
#include "sandbox/exec.h"
#include "sandbox/journal.h"
#include "sandbox/sandbox.h"

json_t *view_time(int64_t real_ns); /* RFC 3339; null for 0 */
/* Every runtime of this build: whether it works here, why not, and what it enforces. */
json_t *view_runtimes(struct runtime_host *host);
/* Whether the host allows namespaces, and why not. */
json_t *view_namespaces(struct runtime_host *host);
json_t *view_sandbox(const struct sandbox *sb);
json_t *view_exec(const struct exec *e);
/* A finished exec with its output, at most max bytes of each stream. */
json_t *view_result(struct exec *e, size_t max);
/* the sbx API's event. Bytes that are no UTF-8 are U+FFFD in "data" and exact in "data_base64". */
json_t *view_event(struct exec *e, const struct journal_event *ev);
