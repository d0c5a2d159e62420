#include "guard/gate.h"

#include "base/error.h"
#include "guard/policy.h"

/* Off unless a policy turned it on; one that turned it off wins (policy_check_tool). */
static int check_network(const struct gate_call *call, struct error *err)
{
    if (!(call->capabilities & CAPABILITY_NETWORK))
        return 0;
    for (size_t i = 0; i < call->n_policies; i++)
        if (call->policies[i]->has_network && call->policies[i]->network_enabled)
            return 0;
    return error_set(err, ERROR_DENIED, 0, "network disabled");
}

int gate_check(const struct gate_call *call, struct error *err)
{
    for (size_t i = 0; i < call->n_policies; i++) {
        int r = policy_check_tool(call->policies[i], call->tool, call->capabilities, err);
        if (r >= 0 && call->host)
            r = policy_check_host(call->policies[i], call->host, call->port, err);
        if (r < 0)
            return r;
    }
    return check_network(call, err);
}
