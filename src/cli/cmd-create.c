/* SPDX-License-Identifier: Apache-2.0 */
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

static int run_create(const struct args *a)
{
    struct sbx_error err;
    _cleanup_session_ struct session s = {0};
    _cleanup_json_ json_t *spec = spec_sbx_create(a, &err);
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

const struct command command_create = {
    .name = "create",
    .group = GROUP_SANDBOX,
    .usage = "[--] [COMMAND [ARGUMENT...]]",
    .summary = "Create a sandbox and print its id",
    .details = "Prints id=... namespace=... pod=...; this id is the one that other commands take.",
    .options = OPTIONS(
        OPTIONS_CONNECTION,
        OPTION("id", id, "ID",
               "The id to give to the sandbox. By default the daemon makes one up."),
        OPTION("image", image, "IMAGE",
               "Make the sandbox from this image: a name, a reference or a digest."),
        OPTION("volume", volume, "MODE", "The volume at /workspace: emptydir or pvc."),
        OPTION("cache-mode", cache_mode, "MODE",
               "The volume at /cache: emptydir, hostpath or pvc."),
        OPTION("cache-pvc-size", cache_pvc_size, "SIZE", "The size of a pvc cache."),
        OPTION("cache-pvc-storage-class", cache_pvc_storage_class, "CLASS",
               "The storage class of a pvc cache."),
        OPTION("cache-pvc-access-mode", cache_pvc_access_mode, "MODE",
               "The access mode of a pvc cache."),
        OPTION_LIMIT, OPTION("env", env, "K=V", "Set an environment variable. May be repeated."),
        OPTION("allow-host", allow_host, "HOST",
               "A host that the sandbox may reach. May be repeated."),
        OPTION("deny-host", deny_host, "HOST",
               "A host that the sandbox may not reach. May be repeated."),
        OPTION("cmd", cmd, "'A B C'",
               "The command as one text, which is split at spaces and knows no quotes.")),
    .max_rest = -1,
    .rest_is_argv = true,
    .run = run_create,
};
