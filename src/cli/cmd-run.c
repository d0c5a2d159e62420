/* sbx run: one command in a sandbox of its own. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/oneshot.h"
#include "cli/output.h"
#include "cli/session.h"
#include "libsbx/sbx.h"

int cmd_run(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_free_ char *id = NULL;
    if (session_open(a, !a->on[FLAG_KEEP], &s, &err) < 0 || oneshot_create(&s, a, &id, &err) < 0)
        return cli_fail(&err);
    int code = 0;
    int r = oneshot_exec(&s, a, id, a->rest, false, &code, &err);
    oneshot_end(&s, a, id);
    if (r == 0)
        return code;
    return strcmp(err.code, "broken_pipe") == 0 ? EXIT_BROKEN_PIPE : cli_fail(&err);
}
