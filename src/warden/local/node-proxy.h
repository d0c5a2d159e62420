/* SPDX-License-Identifier: Apache-2.0 */
/* node-proxy.js, which is PLAN_NODE_PROXY in every sandbox's root. */
#pragma once

#include <stddef.h>

extern const char node_proxy_js[];
extern const size_t node_proxy_js_len;
