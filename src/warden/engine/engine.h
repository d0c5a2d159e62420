/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that a container engine (podman, docker) holds.
 *
 * Theory of operation. An engine's socket is as good as root, so neither the control plane nor
 * the warden's own memory touches it: for each sandbox the warden executes a broker (src/engine,
 * the program mas-engine), gives it one order made from the plan, and gets connections of the
 * runner back. The broker asks the engine for a container, looks with its own eyes whether the
 * kernel really holds what was asked, and watches the container's first process by pidfd, so that
 * an engine may hang, die or restart without the warden losing track of a sandbox.
 *
 * A container outlives broker and warden. What is needed to find it again is a record in a
 * directory of the sandbox's own below the warden's state (engine/record.c): made by the broker
 * before the engine hears of the sandbox, removed by one after the engine has forgotten it; a
 * warden that starts learns from a broker what there is. A broker that dies is replaced by one
 * that adopts the container; whatever ends a sandbox, a broker that removes it comes last, and
 * again until the engine lets it. A container without a record is swept by the next probe. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/engine.h"
#include "warden/program.h"

struct cell;
struct error;
struct warden;

struct engine_probe {
    enum oci_backend backend;
    bool enabled;
    char socket[ENGINE_SOCKET_SIZE];
    struct engine_message report; /* the newest */
    bool probed;
    uint64_t waiting_tag; /* of a PLAN_PROBE that came before the first report; 0: none */
    struct watch *waiting;
    struct program_task task;
    struct watch *timer;
};

struct engines {
    char
        dir[ENGINE_PATH_SIZE]; /* ENGINE_DIR_NAME below the state directory; "": nothing is there */
    struct engine_probe probe[_OCI_BACKEND_MAX];
    struct map *removals; /* struct removal of remove.c by id */
    int program_fd;       /* mas-engine, or -1 */
};
struct engines *engines_of(const struct warden *w);
