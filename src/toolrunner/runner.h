/* SPDX-License-Identifier: Apache-2.0 */
/* The runner as a whole: PID 1 of a sandbox, the helper of the process runtime, or a guest's
 * service.
 *
 * Theory of operation. One thread, one epoll set. Three kinds of input: frames of the control plane
 * (conn.c, dispatch.c), bytes and ends of commands (exec.c, exec-io.c), connections from the inside
 * (gateway.c) and to it (port.c). State belongs to execs, never to a connection: frames are made
 * from state, so a lost connection loses nothing and the next one starts with a full account
 * (exec_resume()).
 *
 * Tools are hostile: they run as another user (or in a Landlock domain) with no descriptor of ours,
 * and what they can send us is bytes in a pipe, which are carried and never looked at. JSON and tar
 * are parsed in forked children only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/epoll-loop.h"
#include "base/list.h"
#include "toolrunner/conn.h"
#include "toolrunner/dial.h"
#include "toolrunner/gateway.h"
#include "toolrunner/listen.h"
#include "toolrunner/newcomer.h"
#include "toolrunner/oom-order.h"
#include "toolrunner/port.h"
#include "toolrunner/spawn.h"

#define RUNNER_SHUTDOWN_GRACE_MS 2000 /* SIGTERM to the commands, then the end */

#define RUNNER_ORPHAN_MAX_S (30 * 24 * 3600)

struct runner_config {
    bool pid1;
    bool switch_user;
    bool shared_uid;
    bool own_filter; /* the program's own system call filter is put on */
    bool acting;     /* the effective ids are the commands', and there are no rights */
    uid_t uid;
    gid_t gid;
    uint32_t processes;         /* of our user, the runner included; 0 if they are not limited */
    uint32_t orphan_s;          /* without a control plane for so long it ends; 0 if it does not */
    const char *workdir;        /* NULL means the current directory */
    const char *gateway_socket; /* NULL if there is none */
    uint16_t proxy_port; /* in place of a socket with a name: on the loopback; 0 if there is none */
    const char *connect_path; /* connect here, again and again; NULL if it does not */
    const char *channel_path; /* of a pod's link, to which channel_fd is connected, or NULL */
    const char *unix_path;    /* listen here instead of a vsock port */
    int conn_fd;              /* the first connection, or -1 */
    int filter_fd;            /* the warden's system call filter, or -1 */
    int rules_fd;             /* Landlock rules for commands, or -1 */
    int channel_fd;           /* where later ones come from, or -1 */
    int score_fd;             /* the runner's OOM score; -1: it opens its own, if it can */
    int64_t vsock_port;       /* -1 if the runner does not listen */
};

struct runner {
    struct runner_config config;
    struct spawn_identity identity;
    struct epoll_loop loop;
    struct conn conn;
    struct list execs;
    size_t n_execs;
    struct list pending; /* execs with something to send on this connection */
    struct list sinks;   /* pipes that outlived their exec's end */
    size_t n_sinks;
    struct gateway gateway;
    struct ports ports;
    struct listener listener;
    struct newcomers newcomers;
    struct dialer dialer;
    struct oom_order oom_order;
    struct epoll_watch signals, channel;
    struct epoll_timer shutdown;
    struct epoll_timer orphan; /* set while no control plane is connected (orphan_s) */
    int null_fd;
    int events_fd;       /* where output is filed (events.h), or -1 */
    int spare_fd;        /* given up for a new connection when there is no other descriptor left */
    uint64_t generation; /* the newest that said HELLO, */
    uint32_t attempt;    /* and which of its connections */
    uint64_t oom_kills;  /* of a pod: how many were reported */
    bool childless;      /* while ends are reported: wait() has said that no process is left */
    bool stop;
};

/* No control plane is connected from now on, or one is. */
void runner_set_orphan(struct runner *r, bool alone);
/* Sets the members only; nothing of the process is touched. */
void runner_init_state(struct runner *r, const struct runner_config *config);
/* Takes the descriptors that config names. 0 or -errno; *ret_what names the failed step. */
int runner_init(struct runner *r, const struct runner_config *config, const char **ret_what);
/* Serves until the warden's channel or the last way to a control plane is gone. */
void runner_run(struct runner *r);
void runner_done(struct runner *r);
/* Collects children that have ended, at most so many in one turn: a command can make new ones as
 * fast as they are collected, and the control plane must be heard meanwhile. */
#define RUNNER_REAP_MAX 256
void runner_reap(struct runner *r);
/* Whether a connection with this HELLO may take the place of the one in use. */
bool runner_accepts(const struct runner *r, const struct msg_hello *m);
/* The connection ended: without a way to another one the runner ends too. */
void runner_on_disconnect(struct runner *r);
