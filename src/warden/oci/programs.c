/* Where the OCI runtimes are. */
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "warden/oci/oci.h"

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
        for (const char *const *name = oci_flavour((enum oci_backend)b)->programs;
             *name && !p->path[b][0]; name++)
            find_program(*name, p->path[b]);
}
