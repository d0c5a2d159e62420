/* The OCI runtimes that we know how to call, and where they are. */
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "warden/oci/oci.h"

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct oci_flavour flavours[] = {
    [OCI_CRUN] = {.programs = LIST("crun"),
                  .options = LIST("--cgroup-manager=disabled"),
                  .takes_filter = true},
    [OCI_RUNC] = {.programs = LIST("runc"), .options = LIST(NULL), .joins_cgroups = true},
    [OCI_RUNSC] = {.programs = LIST("runsc"),
                   .options = LIST("--network=none", "--ignore-cgroups", "--host-uds=open",
                                   "--overlay2=none"),
                   .unshared = "--file-access-mounts=exclusive",
                   .platforms = LIST("--platform=systrap", "--platform=kvm", "--platform=ptrace"),
                   .own_kernel = true,
                   .dials = true},
    [OCI_KATA] = {.programs = LIST("kata-runtime", "kata-qemu", "kata-clh", "kata-fc"),
                  .options = LIST(NULL),
                  .own_kernel = true,
                  .dials = true},
    [OCI_PODMAN] = {.programs = LIST(NULL), .options = LIST(NULL)}, /* the broker's: engine.h */
    [OCI_DOCKER] = {.programs = LIST(NULL), .options = LIST(NULL)},
};
_Static_assert(ELEMENTS(flavours) == _OCI_BACKEND_MAX, "a flavour for every backend");

const struct oci_flavour *oci_flavour(enum oci_backend b)
{
    return &flavours[b];
}

static void find_program(const char *name, char *ret)
{
    static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                       "/usr/bin"};
    for (size_t i = 0; i < ELEMENTS(dirs); i++) {
        snprintf(ret, OCI_PATH_SIZE, "%s/%s", dirs[i], name);
        if (access(ret, X_OK) == 0)
            return;
    }
    ret[0] = 0;
}

void oci_programs_find(struct oci_programs *p)
{
    *p = (struct oci_programs){0};
    for (int b = OCI_NONE + 1; b < _OCI_BACKEND_MAX; b++)
        for (const char *const *name = flavours[b].programs; *name && !p->path[b][0]; name++)
            find_program(*name, p->path[b]);
}
