/* SPDX-License-Identifier: Apache-2.0 */
/* From execution to control_main(): take what the warden handed over, give up everything else. */
#include "daemon/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/control.h"
#include "daemon/drop.h"
#include "daemon/handover.h"
#include "daemon/listeners.h"
#include "daemon/stage.h"
#include "proto/claims.h"
#include "sandbox/runner.h"

/* Descriptors beside connections: a runner, a journal and streams for each sandbox, then the rest.
 */
#define FILES_A_SANDBOX 8
#define FILES_SPARE     1024

static uint64_t open_files(const struct config *c)
{
    return c->http.max_connections + FILES_A_SANDBOX * c->manager.max_sandboxes +
           2 * c->manager.max_execs + FILES_SPARE;
}

/* The stages in order: what needs rights comes before they go. */
static int drop_rights(struct handover *h, const struct config *c, struct error *err)
{
    int r = drop_limits(open_files(c), err);
    if (r == 0 && h->privileged && !h->own_root) {
        log_warn("this host allows no namespaces: the control plane keeps the host's root, behind "
                 "Landlock and its user id");
        umask(077);
    }
    if (r == 0 && h->privileged && h->own_root) {
        r = drop_root(h->state_path, HANDOVER_STATE, err);
        snprintf(h->state_path, sizeof(h->state_path), "%s", DROP_STATE_PATH);
    }
    if (r == 0)
        r = drop_identity(h->privileged, h->uid, h->gid, err);
    if (r == 0)
        r = drop_process(h->warden_pid, err);
    if (r == 0)
        r = drop_files(h->state_path, err);
    if (r == 0)
        r = drop_control_syscalls(err);
    return r;
}

static void tell_warden(char byte)
{
    if (write(HANDOVER_READY, &byte, 1) < 0)
        log_warn("cannot report the progress of the start to the warden: %s", strerror(errno));
}

static void say_serves(void)
{
    tell_warden(READY_SERVES);
    close(HANDOVER_READY);
}

static int run_control_plane(const struct handover *h, const struct config *c,
                             const struct claimant *room, int kube_sock)
{
    int listeners[HANDOVER_LISTENERS_MAX];
    for (size_t i = 0; i < h->n_listeners; i++)
        listeners[i] = HANDOVER_LISTEN + (int)i;
    uv_loop_t loop;
    if (uv_loop_init(&loop) < 0) {
        log_error("cannot make an event loop");
        return CONTROL_EXIT_REFUSED;
    }
    struct control_context ctx = {
        .config = c,
        .loop = &loop,
        .warden_sock = HANDOVER_WARDEN,
        .gateway_sock = HANDOVER_GATEWAY,
        .keeper_sock = HANDOVER_KEEPER,
        .kube_sock = kube_sock,
        .room = room,
        .listeners = listeners,
        .n_listeners = h->n_listeners,
        .state_path = h->state_path,
        .warden_pid = h->warden_pid,
        .line_mode = h->line_mode,
        .generation = h->generation,
        .generations_before = h->generations_before,
        .on_serving = say_serves,
    };
    return control_main(&ctx);
}

int control_stage(void)
{
    static struct handover h;
    struct config c;
    struct error err = {0};
    struct claimant room;
    /* Before anything else is opened, which could get the number. */
    int kube_sock = fd_set_cloexec(HANDOVER_KUBE, true) < 0 ? -1 : HANDOVER_KUBE;
    prctl(PR_SET_NAME, "mas-control", 0, 0, 0);
    stage_set_signals();
    if (handover_take(&h, &c, &room, &err) < 0) {
        log_error("control plane: %s", err.message);
        return CONTROL_EXIT_REFUSED;
    }
    enum log_level level = LOG_INFO;
    log_level_parse(c.log_level, &level);
    log_setup("mas-sandboxd", level, strcmp(c.log_format, "json") == 0);
    if (c.api.debug_endpoints) {
        fault_arm(getenv("MAS_FAULT"), h.generation);
        clock_arm_jump(getenv("MAS_CLOCK_JUMP"));
        runner_arm_cuts(getenv("MAS_CUT_RUNNERS"));
    }
    if (drop_rights(&h, &c, &err) < 0) {
        log_error("control plane cannot give up its privileges: %s", err.message);
        return CONTROL_EXIT_REFUSED;
    }
    log_info("control plane started pid=%d uid=%u generation=%llu", getpid(), (unsigned)getuid(),
             (unsigned long long)h.generation);
    /* Listening sockets are logged by the first that can serve them, with the ports that the kernel
     * chose. */
    for (uint32_t i = 0; h.announce && i < h.n_listeners; i++)
        listeners_log(HANDOVER_LISTEN + (int)i);
    tell_warden(READY_DROPPED);
    close(HANDOVER_STATE);
    int code = run_control_plane(&h, &c, &room, kube_sock);
    config_done(&c);
    return code;
}
