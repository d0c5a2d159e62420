/* Every runtime there is. A new one is one line here and a folder beside this file. */
#include <string.h>

#include "runtime/local/local.h"
#include "runtime/process/process.h"
#include "runtime/runtime.h"

const struct runtime_ops *const runtimes[] = {
    &runtime_local,
    &runtime_process,
    NULL,
};

const struct runtime_ops *runtime_find(const char *name)
{
    for (size_t i = 0; runtimes[i]; i++)
        if (strcmp(runtimes[i]->name, name) == 0)
            return runtimes[i];
    return NULL;
}
