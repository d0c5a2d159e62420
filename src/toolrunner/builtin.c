/* The table of builtins. */
#include "toolrunner/builtin.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"

static const struct builtin builtins[] = {
    {"calculator", builtin_calculator},   {"file_system", builtin_file_system},
    {"fs-read", builtin_fs_read},         {"fs-write", builtin_fs_write},
    {"fs-list", builtin_fs_list},         {"fs-stat", builtin_fs_stat},
    {"fs-mkdir", builtin_fs_mkdir},       {"fs-remove", builtin_fs_remove},
    {"fs-move", builtin_fs_move},         {"tar-create", builtin_tar_create},
    {"tar-extract", builtin_tar_extract}, {"ps", builtin_ps},
};

const struct builtin *builtin_find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(builtins); i++) {
        if (!strcmp(builtins[i].name, name))
            return &builtins[i];
    }
    return NULL;
}
