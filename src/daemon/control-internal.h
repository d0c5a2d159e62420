/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the control plane share: wiring.c puts it together, control-end.c ends it. */
#pragma once

#include "daemon/control.h"
#include "loop/loop.h"
#include "runtime/runtime.h"
#include "runtime/spec.h"

struct error;

#define CONTROL_CATALOGS_MAX 2 /* of MCP: ours, and the fixtures of tests */

struct control {
    struct control_context *ctx;
    struct warden_client *warden;
    struct net_config network;
    struct runtime_host host;
    struct spec default_spec;
    struct store *store;
    struct event_journal *events; /* NULL in line mode */
    struct keys *keys;            /* NULL in line mode */
    struct secrets *secrets;
    struct traffic_tokens *traffic;
    struct skills *skills;
    struct images *images; /* NULL: switched off */
    struct audit *audit;
    struct gate *gate;
    struct policy_file *policy;
    struct manager *manager;
    struct api *api;
    struct http_server *server;
    struct line_mode *line;
    struct mcp *mcp; /* not with the line protocol */
    struct mcp_stdio *mcp_stdio;
    const struct mcp_catalog *catalogs[CONTROL_CATALOGS_MAX];
    struct loop_signal sigterm, sighup, sigusr2;
    struct loop_timer drain_timer, settle_timer, leave_timer;
    int stops; /* SIGTERMs seen */
    bool deleting, leaving, ended;
    bool way_due; /* it was to make way before it had a server */
};

/* control-end.c. Signals begin the end or the way to the next control plane; control_end() deletes
 * every sandbox at once, for a client on stdin that has gone. */
void control_watch_signals(struct control *k);
void control_end(void *data);
void control_make_way(void *data);

/* default-image.c. Waits for the image that every sandbox has that names no other. */
int control_find_default_image(struct control *k, struct error *err);
