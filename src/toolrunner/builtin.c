/* The table of builtins. */
#include "toolrunner/builtin.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

static const struct builtin builtins[] = {
    {"calculator", builtin_calculator},
    {"file_system", builtin_file_system},
};

const struct builtin *builtin_find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(builtins); i++) {
        if (!strcmp(builtins[i].name, name))
            return &builtins[i];
    }
    return NULL;
}
