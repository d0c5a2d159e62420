/* SPDX-License-Identifier: Apache-2.0 */
/* Every runtime there is. A new one is one line here and a folder beside this file. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "runtime/engine/engine.h"
#include "runtime/kube/kube.h"
#include "runtime/landlock/landlock.h"
#include "runtime/local/local.h"
#include "runtime/microvm/microvm.h"
#include "runtime/oci/oci.h"
#include "runtime/process/process.h"
#include "runtime/runtime.h"

#define CHOICES_MAX 1024

const struct runtime_ops *const runtimes[] = {
    &runtime_local,       &runtime_landlock,  &runtime_process,
    &runtime_crun,        &runtime_runc,      &runtime_gvisor,
    &runtime_kata,        &runtime_podman,    &runtime_podman_gvisor,
    &runtime_podman_kata, &runtime_docker,    &runtime_docker_gvisor,
    &runtime_docker_kata, &runtime_microvm,   &runtime_kube,
    &runtime_kube_gvisor, &runtime_kube_kata, NULL,
};

/* Other names; "oci" alone is the smallest of them, and what an operator may choose. */
static const struct {
    const char *name;
    const struct runtime_ops *ops;
    bool is_choice;
} aliases[] = {
    {"oci", &runtime_crun, true},
    {"runsc", &runtime_gvisor, false},
};

const struct runtime_ops *runtime_find(const char *name)
{
    for (size_t i = 0; runtimes[i]; i++)
        if (strcmp(runtimes[i]->name, name) == 0)
            return runtimes[i];
    for (size_t i = 0; i < ELEMENTS(aliases); i++)
        if (strcmp(aliases[i].name, name) == 0)
            return aliases[i].ops;
    return NULL;
}

const char *runtime_choices(void)
{
    static struct strbuf all = STRBUF_INIT(CHOICES_MAX);
    if (all.len)
        return all.data;
    for (size_t i = 0; runtimes[i]; i++) {
        for (size_t k = 0; k < ELEMENTS(aliases); k++)
            if (aliases[k].is_choice && aliases[k].ops == runtimes[i])
                strbuf_printf(&all, "%s|", aliases[k].name);
        strbuf_printf(&all, "%s%s", runtimes[i]->name, runtimes[i + 1] ? "|" : "");
    }
    return all.data;
}

bool runtime_is_engine(const char *name)
{
    for (size_t i = 0; runtimes[i]; i++)
        if (runtimes[i]->engine && strcmp(runtimes[i]->engine, name) == 0)
            return true;
    return false;
}

const struct runtime_ops *runtime_find_oci(const char *runtime, const char *oci_runtime)
{
    static const struct {
        const char *runtime, *name;
        const struct runtime_ops *ops;
    } names[] = {
        {"oci", "crun", &runtime_crun},
        {"oci", "runc", &runtime_runc},
        {"oci", "runsc", &runtime_gvisor},
        {"oci", "kata", &runtime_kata},
        {"podman", "runsc", &runtime_podman_gvisor},
        {"podman", "kata", &runtime_podman_kata},
        {"docker", "runsc", &runtime_docker_gvisor},
        {"docker", "kata", &runtime_docker_kata},
    };
    for (size_t i = 0; i < ELEMENTS(names); i++)
        if (strcmp(names[i].runtime, runtime) == 0 && strcmp(names[i].name, oci_runtime) == 0)
            return names[i].ops;
    return NULL;
}

static const char *const isolation_names[] = {
    [ISOLATION_NONE] = "none",
    [ISOLATION_RESTRICTED] = "restricted",
    [ISOLATION_NAMESPACES] = "namespaces",
    [ISOLATION_USER_SPACE_KERNEL] = "user-space-kernel",
    [ISOLATION_VIRTUAL_MACHINE] = "virtual-machine",
};
static_assert(ELEMENTS(isolation_names) == _ISOLATION_MAX, "a name for every level");

const char *isolation_name(enum isolation level)
{
    return isolation_names[level];
}

int isolation_parse(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(isolation_names); i++)
        if (strcmp(isolation_names[i], name) == 0)
            return (int)i;
    return -1;
}

const struct runtime_ops *runtime_find_isolated(struct runtime_host *host, enum isolation least)
{
    const struct runtime_ops *found = NULL;
    for (size_t i = 0; runtimes[i]; i++) {
        struct runtime_report report = {0};
        if (runtimes[i]->isolation < least || (found && found->isolation <= runtimes[i]->isolation))
            continue;
        runtimes[i]->probe(runtimes[i], host, &report);
        if (report.available)
            found = runtimes[i];
    }
    return found;
}
