/* SPDX-License-Identifier: Apache-2.0 */
/* Reaching a port of a sandbox, and giving others a token for that, are calls like any other: of
 * the tools "port" and "port.token", with no command of their own. */
#include "guard/gate-internal.h"

int gate_check_port(struct gate *g, const struct gate_call *about, struct error *err)
{
    struct gate_call call = *about;
    struct gate_decision d;
    call.builtin = true;
    int r = gate_begin(g, &call, &d, err);
    if (r >= 0)
        r = gate_decide(g, &call, &d, err);
    /* A connection cannot wait for a person, so that what would have to be asked is refused. */
    if (r >= 0 && d.rules.verdict == VERDICT_ASK)
        r = gate_refuse(g, &call, &d, d.rules.rule,
                        "a person would have to be asked, which is not possible for a port", err);
    gate_decision_done(&d);
    return r;
}
