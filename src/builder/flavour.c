/* SPDX-License-Identifier: Apache-2.0 */
/* The OCI runtimes that we know how to call. */
#include "builder/flavour.h"

#include "base/alloc.h"

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct oci_flavour flavours[] = {
    [OCI_CRUN] = {.programs = LIST("crun"),
                  .options = LIST("--cgroup-manager=disabled"),
                  .host_network = true,
                  .takes_filter = true},
    [OCI_RUNC] = {.programs = LIST("runc"),
                  .options = LIST(NULL),
                  .host_network = true,
                  .joins_cgroups = true},
    [OCI_RUNSC] = {.programs = LIST("runsc"),
                   .options = LIST("--ignore-cgroups", "--host-uds=open", "--overlay2=none"),
                   .no_network = "--network=none",
                   .copy_network = "--network=sandbox",
                   .unshared = "--file-access-mounts=exclusive",
                   .platforms = LIST("--platform=systrap", "--platform=kvm", "--platform=ptrace"),
                   .own_kernel = true,
                   .dials = true},
    [OCI_KATA] = {.programs = LIST("kata-runtime", "kata-qemu", "kata-clh", "kata-fc"),
                  .options = LIST(NULL),
                  .own_kernel = true,
                  .dials = true},
    [OCI_PODMAN] = {.programs = LIST(NULL), .options = LIST(NULL)}, /* the broker's */
    [OCI_DOCKER] = {.programs = LIST(NULL), .options = LIST(NULL)},
};
_Static_assert(ELEMENTS(flavours) == _OCI_BACKEND_MAX, "a flavour for every backend");

const struct oci_flavour *oci_flavour(enum oci_backend b)
{
    return &flavours[b];
}
