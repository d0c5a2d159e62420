/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/gateway-stage.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/drop.h"
#include "daemon/stage.h"
#include "gateway/gateway.h"
#include "proto/handover.h"

#define AS_ROOT   "root"
#define AS_CALLER "caller"

enum { AT_RIGHTS, AT_LOG, AT_SETTINGS };

int gateway_stage_seal(bool privileged, const struct config *c)
{
    _cleanup_strv_ char **list = NULL;
    stage_append(&list, xstrdup(privileged ? AS_ROOT : AS_CALLER));
    stage_append(&list, stage_log_style(c->log_format, c->log_level));
    config_list_part(c, offsetof(struct config, gateway), sizeof(c->gateway), &list);
    config_list_part(c, offsetof(struct config, keeper.registries), sizeof(c->keeper.registries),
                     &list);
    config_list_part(c, offsetof(struct config, keeper.hosts), sizeof(c->keeper.hosts), &list);
    return stage_seal("mas-gateway-config", list);
}

/* What gateway_main() leaves: it changes the uid itself when root, and stops writing and execution.
 */
static int drop_rights(bool caller, struct error *err)
{
    /* Root goes with the uid; a caller's namespace would leave capabilities. */
    int r = caller ? drop_identity(false, 0, 0, err) : drop_bounding_set(0, err);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = error_set(err, ERROR_INTERNAL, errno, "no_new_privs");
    if (r == 0)
        r = drop_gateway_files(err);
    if (r < 0)
        return r;
    return drop_gateway_syscalls(err);
}

int gateway_stage(void)
{
    char **list = stage_take(GATEWAY_CONFIG);
    _cleanup_config_ struct config c;
    struct error err = {0};
    prctl(PR_SET_NAME, "mas-gateway", 0, 0, 0);
    stage_set_signals();
    config_init(&c);
    if (strv_length(list) < AT_SETTINGS) {
        log_error("gateway: no configuration from the warden");
        return 1;
    }
    stage_use_log_style(list[AT_LOG]);
    if (config_load_part(&c, list + AT_SETTINGS, &err) < 0) {
        log_error("gateway: %s", err.message);
        return 1;
    }
    if (drop_rights(strcmp(list[AT_RIGHTS], AS_CALLER) == 0, &err) < 0) {
        log_error("gateway cannot give up its privileges: %s", err.message);
        return 1;
    }
    struct gateway_options options = {.config = c.gateway,
                                      .image_registries = c.keeper.registries,
                                      .image_hosts = c.keeper.hosts,
                                      .uid = DROP_GATEWAY_UID,
                                      .gid = DROP_GATEWAY_UID};
    return gateway_main(GATEWAY_SOCK, &options);
}
