/* SPDX-License-Identifier: Apache-2.0 */
/* What mas-sandboxd hands to mas-warden, which it becomes by execution: one sealed memory file with
 * a fixed record and the strings that its pointers stand for, and open descriptors whose numbers
 * are in the record.
 *
 * mas-sandboxd has read and checked the operator's configuration by then, and has opened what must
 * be opened in the host's view. mas-warden takes the record only from a mas-sandboxd of the same
 * record version and size, with all strings bounded and terminated and all descriptors open. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/handover.h"
#include "warden/warden.h"

#define STARTUP_VERSION   1
#define STARTUP_FLAG      "--startup" /* argv[1] of mas-warden; argv[2] is the record's descriptor */
#define STARTUP_TEXT_MAX  (1024 * 1024)
#define STARTUP_NAME_SIZE 108 /* of a Unix socket's file */

enum startup_mode {
    STARTUP_RUN,
    STARTUP_CLEAN, /* remove what dead wardens left, say how much it was, and end */
};

struct startup_listener {
    int fd;
    int dir_fd; /* where the file of a Unix socket that we made is, or -1 */
    uint64_t dev, ino;
    char name[STARTUP_NAME_SIZE];
};

struct startup {
    uint32_t version;
    uint32_t bytes;      /* of this record */
    uint32_t text_bytes; /* of the strings after it */
    uint32_t mode;       /* enum startup_mode */
    struct warden_options options;
    const char *control_path; /* of the control plane's state directory */
    uint32_t log_level;       /* enum log_level */
    bool log_json;
    bool faults;     /* MAS_FAULT counts */
    bool privileged; /* started as root */
    bool line_mode;  /* the control plane gets line_in and line_out as stdin and stdout */
    bool images;
    bool temporary;    /* the state directory goes with the daemon */
    uint32_t uid, gid; /* privileged: what the control plane becomes; else the caller's */
    int64_t shutdown_grace_ms, control_restarts, control_restart_window_ms;
    int state_fd, state_control_fd, state_images_fd, state_lock_fd, state_parent_fd;
    const char *daemon_name; /* mas-sandboxd, in daemon_dir_fd: opened anew at each start */
    int daemon_dir_fd;
    int default_image_fd;
    int line_in, line_out;
    int control_config_fd, gateway_config_fd, keeper_config_fd; /* sealed; see proto/handover.h */
    int kube_fd, kube_settings_fd; /* mas-kube and its sealed settings; -1: no cluster */
    uint32_t n_listeners;
    struct startup_listener listeners[HANDOVER_LISTENERS_MAX];
};

/* All descriptors -1, all else at its default. */
void startup_init(struct startup *s);
/* A sealed memory file with the record; its descriptors, and it, stay open over an execution from
 * now on, and nothing else does but 0 to 2. The descriptor, or -errno. */
int startup_seal(const struct startup *s);
/* In mas-warden: the record, which the caller keeps for as long as the process lives; its
 * descriptors are close-on-exec. NULL with err set. Takes fd. */
struct startup *startup_take(int fd, struct error *err);
/* What it holds of a taken record; its descriptors stay open. */
void startup_free(struct startup *s);
