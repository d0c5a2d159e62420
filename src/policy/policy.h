/* SPDX-License-Identifier: Apache-2.0 */
/* A request's own policy (the MAS API): what one call, or all calls of one sandbox, may do. It only
 * ever narrows. Keys are taken in any letter case, with or without underscores; null means not set.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum capability { CAPABILITY_NETWORK = 1, CAPABILITY_FILE = 2, CAPABILITY_UNSAFE = 4 };

struct policy {
    char **allowed_tools; /* NULL if it is not set, as for every list */
    char **allowed_caps;
    char *workdir;
    char **allowed_paths;
    char **env_whitelist;
    bool has_network, network_enabled;
    char **allowed_hosts;
    int64_t timeout_ns;    /* 0 if it is not set */
    uint64_t memory_bytes; /* 0 if it is not set */
    int64_t max_concurrent;
};

void policy_init(struct policy *p);
void policy_done(struct policy *p);
/* The most that MemoryLimit may ask for in a request: as much as memory_mb, 16 TiB. */
#define POLICY_MEMORY_MAX (1ULL << 44)

/* json may be NULL: an empty policy. */
int policy_parse(const json_t *json, struct policy *ret, struct error *err);
/* The same for one that a caller sends now, with limits that stored ones of versions before may
 * exceed. */
int policy_parse_request(const json_t *json, struct policy *ret, struct error *err);
/* A new reference. policy_parse() makes the same policy from it. */
json_t *policy_format(const struct policy *p);

/* ERROR_DENIED with the contract's words: tool not allowed, capability not allowed, network
 * disabled. caps is a set of enum capability. */
int policy_check_tool(const struct policy *p, const char *tool, unsigned caps, struct error *err);
/* "host not allowed" when AllowedHosts is set and has no rule (gateway/rule.h) for it. The gateway
 * decides again, about every connection. */
int policy_check_host(const struct policy *p, const char *host, uint16_t port, struct error *err);
/* AllowedPaths and Workdir together; NULL when neither is set. */
char **policy_paths(const struct policy *p);
/* Those of env (KEY=VALUE) that the whitelist lets through; all of them when there is none. */
char **policy_filter_env(const struct policy *p, char *const *env);
