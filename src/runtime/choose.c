/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/choose.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static void set_runtime(struct spec *s, const struct runtime_ops *ops)
{
    free(s->runtime);
    s->runtime = xstrdup(ops->name);
}

static int choose_named(struct runtime_host *host, const struct runtime_wish *wish, struct spec *s,
                        struct error *err)
{
    const char *name = wish->runtime ? wish->runtime : s->runtime;
    bool is_oci = strcmp(name, "oci") == 0;
    const char *program = wish->oci_runtime || !is_oci ? wish->oci_runtime : host->oci_runtime;
    if (wish->oci_runtime && !is_oci && !runtime_is_engine(name))
        return error_field(err, "oci_runtime",
                           "'oci_runtime' is for runtimes \"oci\", \"podman\" and \"docker\" only");
    const struct runtime_ops *ops = program ? runtime_find_oci(name, program) : runtime_find(name);
    if (program && !ops)
        return error_field(err, "oci_runtime", "there is no OCI runtime '%.40s' (%s)", program,
                           is_oci ? "crun, runc, runsc, kata" : "runsc, kata");
    if (ops)
        set_runtime(s, ops);
    else if (wish->runtime) {
        free(s->runtime);
        s->runtime = xstrdup(wish->runtime);
    }
    return 0;
}

static int least_of(const struct runtime_host *host, const struct runtime_wish *wish,
                    enum isolation *ret, struct error *err)
{
    int least = wish->min_isolation ? isolation_parse(wish->min_isolation) : 0;
    if (least < 0)
        return error_field(err, "min_isolation",
                           "there is no isolation '%.40s' (none, restricted, namespaces, "
                           "user-space-kernel, virtual-machine)",
                           wish->min_isolation);
    *ret = (int)host->min_isolation > least ? host->min_isolation : (enum isolation)least;
    return 0;
}

int runtime_choose(struct runtime_host *host, const struct runtime_wish *wish, struct spec *s,
                   struct error *err)
{
    enum isolation least = ISOLATION_NONE;
    int r = least_of(host, wish, &least, err);
    if (r < 0)
        return r;
    r = choose_named(host, wish, s, err);
    if (r < 0)
        return r;
    const struct runtime_ops *ops = runtime_find(s->runtime);
    if (!ops || ops->isolation >= least)
        return 0;
    if (wish->runtime)
        return error_set(err, ERROR_UNENFORCEABLE, 0,
                         "isolation '%s' is asked for, and runtime '%s' has '%s'",
                         isolation_name(least), ops->name, isolation_name(ops->isolation));
    const struct runtime_ops *better = runtime_find_isolated(host, least);
    if (!better)
        return error_set(err, ERROR_UNENFORCEABLE, 0, "no runtime of this host has isolation '%s'",
                         isolation_name(least));
    set_runtime(s, better);
    return 0;
}
