/* sbx create: a sandbox, as POST /sandboxes makes it. */
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/spec.h"
#include "libsbx/sbx.h"

int cmd_create(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_json_ json_t *spec = spec_contract_create(a, &err);
    if (!spec || session_open(a, false, &s, &err) < 0)
        return cli_fail(&err);
    _cleanup_free_ char *body = json_dumps(spec, JSON_COMPACT);
    struct sbx_sandbox sb;
    if (sbx_sandbox_create(s.client, body, &sb, &err) < 0)
        return cli_fail(&err);
    _cleanup_free_ char *id = printable(sb.id);
    _cleanup_free_ char *space = printable(sb.name_space ? sb.name_space : "");
    _cleanup_free_ char *pod = printable(sb.pod_name ? sb.pod_name : "");
    printf("id=%s namespace=%s pod=%s\n", id, space, pod);
    sbx_sandbox_done(&sb);
    return 0;
}
