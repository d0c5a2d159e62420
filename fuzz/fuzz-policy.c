/* SPDX-License-Identifier: Apache-2.0 */
/* Request policies from hostile JSON: what parses must be checkable without a fault. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct policy p;
    char *env[] = {(char *)"PATH=/bin", (char *)"HOME=/", (char *)"A", NULL};
    json_t *json = json_parse((const char *)data, size, &err);
    if (json && policy_parse_request(json, &p, &err) >= 0) {
        struct error ignored[3] = {0};
        policy_check_tool(&p, "shell", CAPABILITY_UNSAFE, &ignored[0]);
        policy_check_tool(&p, "fetch", CAPABILITY_NETWORK, &ignored[1]);
        policy_check_host(&p, "example.com", 443, &ignored[2]);
        strv_free(policy_paths(&p));
        strv_free(policy_filter_env(&p, env));
        policy_done(&p);
    }
    json_decref(json);
    return 0;
}
