/* SPDX-License-Identifier: Apache-2.0 */
/* What 'run' and 'shell' share: their options, a sandbox made from these, and one exec in it joined
 * to our streams. Users of OPTIONS_ONESHOT include cli/args.h. */
#pragma once

#include <stdbool.h>

#define OPTIONS_ONESHOT                                                                            \
    OPTION("runtime", runtime, "NAME",                                                             \
           "Isolate the sandbox with this runtime; 'sbx doctor' lists them."),                     \
        OPTION("image", image, "IMAGE",                                                            \
               "Make the sandbox from this image: a name, a reference or a digest."),              \
        OPTION_LIMIT,                                                                              \
        OPTION("accept-weaker", accept_weaker, "NAME",                                             \
               "Go on without this limit where the host cannot enforce it. May be repeated."),     \
        OPTION("env", env, "K=V", "Set an environment variable. May be repeated."),                \
        OPTION("file", file, "LOCAL:PATH",                                                         \
               "Copy a local file into the sandbox first. May be repeated."),                      \
        OPTION("cwd", cwd, "DIR", "Start the command in this directory."),                         \
        OPTION("timeout", timeout, "SECONDS", "End the command after this time."),                 \
        OPTION("keep", keep, NULL, "Do not delete the sandbox at the end."), OPTION_APPROVAL

struct args;
struct session;
struct sbx_error;

/* From -runtime, -limit and -accept-weaker; then copies each -file in. The caller frees *ret_id. */
int oneshot_create(struct session *s, const struct args *a, char **ret_id, struct sbx_error *err);
/* Runs argv with -env, -cwd and -timeout; *ret_code is what sbx should exit with. */
int oneshot_exec(struct session *s, const struct args *a, const char *id, char *const argv[],
                 bool terminal, int *ret_code, struct sbx_error *err);
/* Deletes it unless -keep was given, in which case its id is printed on stderr. */
void oneshot_end(struct session *s, const struct args *a, const char *id);
