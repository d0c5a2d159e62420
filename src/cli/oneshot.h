/* What 'run' and 'shell' share: a sandbox from flags, and one exec in it joined to our streams. */
#pragma once

#include <stdbool.h>

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
