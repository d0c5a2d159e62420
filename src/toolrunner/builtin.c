/* SPDX-License-Identifier: Apache-2.0 */
/* The table of builtins. Tools of the MAS API are builtins too, by the table of tool.c. */
#include "toolrunner/builtin.h"

#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "proto/walls.h"
#include "toolrunner/tool.h"

static const struct builtin builtins[] = {
    {"fs-read", builtin_fs_read, false},
    {"fs-write", builtin_fs_write, false},
    {"fs-list", builtin_fs_list, false},
    {"fs-stat", builtin_fs_stat, false},
    {"fs-mkdir", builtin_fs_mkdir, false},
    {"fs-remove", builtin_fs_remove, false},
    {"fs-move", builtin_fs_move, false},
    {"tar-create", builtin_tar_create, false},
    {"tar-extract", builtin_tar_extract, false},
    {"tar-names", builtin_tar_names, false},
    {"ps", builtin_ps, true},
    {"fs-lines", builtin_fs_lines, false},
    {"fs-edit", builtin_fs_edit, false},
    {"fs-search", builtin_fs_search, false},
    {"skill-file", builtin_skill_file, false},
    {"pin", builtin_pin, false},
    {"pin-named", builtin_pin_named, false},
    {"fs-resolve", builtin_fs_resolve, false},
    {WALLS_BUILTIN, builtin_walls, false},
};

static int run_tool(int argc, char **argv)
{
    (void)argc;
    return tool_run(tool_find(argv[0]));
}

static const struct builtin any_tool = {"tool", run_tool, false};

const struct builtin *builtin_find(const char *name)
{
    for (size_t i = 0; i < ELEMENTS(builtins); i++) {
        if (!strcmp(builtins[i].name, name))
            return &builtins[i];
    }
    return tool_find(name) ? &any_tool : NULL;
}
