/* The environment of a command: ours, then the sandbox's, then the call's; the last of a name wins.
 */
#pragma once

#include <stdbool.h>

/* Vectors may be NULL. The caller frees with strv_free(). */
char **environment_build(char *const *sandbox_env, char *const *whitelist, char *const *exec_env,
                         bool terminal);
