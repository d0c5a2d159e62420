/* The environment of a command: ours, then the sandbox's, then the call's; the last of a name wins.
 */
#pragma once

#include <stdbool.h>

/* box: the sandbox's directory on the host, "" where it has a root of its own. Vectors may be NULL.
 * The caller frees with strv_free(). */
char **environment_build(const char *box, char *const *sandbox_env, char *const *whitelist, char *const *exec_env,
                         bool terminal);
