/* SPDX-License-Identifier: Apache-2.0 */
/* Code of the runner's that runs as a command (SPAWN_BUILTIN): in a forked child, as the tool's
 * user, under the exec's limits. Input is argv and stdin, output is stdout; a failure is exit code
 * 1 with one JSON line. */
#pragma once

#include <stdbool.h>

struct builtin {
    const char *name;
    int (*run)(int argc, char **argv);
    bool sees_processes; /* needs what commands do not see of /proc, and looks at nothing else */
};

/* NULL when there is none of that name. */
const struct builtin *builtin_find(const char *name);

int builtin_fs_read(int argc, char **argv);
int builtin_fs_write(int argc, char **argv);
int builtin_fs_list(int argc, char **argv);
int builtin_fs_stat(int argc, char **argv);
int builtin_fs_mkdir(int argc, char **argv);
int builtin_fs_remove(int argc, char **argv);
int builtin_fs_move(int argc, char **argv);
int builtin_fs_lines(int argc, char **argv);
int builtin_fs_edit(int argc, char **argv);
int builtin_fs_search(int argc, char **argv);
int builtin_tar_create(int argc, char **argv);
int builtin_tar_extract(int argc, char **argv);
int builtin_tar_names(int argc, char **argv);
int builtin_skill_file(int argc, char **argv);
int builtin_fs_resolve(int argc, char **argv);
int builtin_pin(int argc, char **argv);
int builtin_pin_named(int argc, char **argv);
int builtin_ps(int argc, char **argv);
int builtin_walls(int argc, char **argv);
