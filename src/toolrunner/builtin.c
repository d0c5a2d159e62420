/* The table of builtins. Tools of contract A are builtins too, by the table of tool.c. */
#include "toolrunner/builtin.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "toolrunner/tool.h"

static const struct builtin builtins[] = {
    {"fs-read", builtin_fs_read},
    {"fs-write", builtin_fs_write},
    {"fs-list", builtin_fs_list},
    {"fs-stat", builtin_fs_stat},
    {"fs-mkdir", builtin_fs_mkdir},
    {"fs-remove", builtin_fs_remove},
    {"fs-move", builtin_fs_move},
    {"tar-create", builtin_tar_create},
    {"tar-extract", builtin_tar_extract},
    {"ps", builtin_ps},
    {"fs-lines", builtin_fs_lines},
    {"fs-edit", builtin_fs_edit},
    {"fs-search", builtin_fs_search},
    {"skill-file", builtin_skill_file},
    {"pin", builtin_pin},
    {"fs-resolve", builtin_fs_resolve},
};

static int run_tool(int argc, char **argv)
{
    (void)argc;
    return tool_run(tool_find(argv[0]));
}

static const struct builtin any_tool = {"tool", run_tool};

const struct builtin *builtin_find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(builtins); i++) {
        if (!strcmp(builtins[i].name, name))
            return &builtins[i];
    }
    return tool_find(name) ? &any_tool : NULL;
}
