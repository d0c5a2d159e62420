/* SPDX-License-Identifier: Apache-2.0 */
/* Which runtime a request means: by name, by "oci" and its program, or by how much isolation it
 * wants at least. */
#pragma once

#include "runtime/runtime.h"

/* What a request says; NULL for what it does not. */
struct runtime_wish {
    const char *runtime;
    const char *oci_runtime;   /* with "oci", its own or the operator's; with an engine */
    const char *min_isolation; /* see isolation_parse() */
};

/* Sets s->runtime, which holds the operator's default, to a canonical name. A named runtime that is
 * less isolated than asked, or than the operator demands, is refused; an unnamed one is replaced by
 * the least isolated that suffices. A name that no runtime has is left for the create to refuse. */
int runtime_choose(struct runtime_host *host, const struct runtime_wish *wish, struct spec *s,
                   struct error *err);
