/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the supervisor share. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "warden/supervise/program.h"
#include "warden/supervise/supervise.h"
#include "warden/supervise/upgrade.h"

struct startup;
struct watch;

/* Every watch is kept: none may outlive the supervisor, because the warden's loop does. */
struct service {
    pid_t pid;           /* 0: not running */
    struct watch *exit;  /* while it runs */
    struct watch *again; /* while it waits to be started again */
    int64_t backoff_ms;
};

struct supervisor {
    const struct supervise_options *o;
    struct startup *startup;
    struct service control, gateway, keeper, kube;
    struct program program, first_program; /* what they are started of; first: no descriptor */
    bool proven;                           /* a control plane of it has served requests */
    struct upgrade upgrade;
    uint64_t upgrade_tag; /* of the plan that asked for it; 0: a signal */
    int gateway_socks[2]; /* ours to keep: the next gateway and control plane get them again */
    int keeper_sock;      /* of this control plane's keepers; -1: no images */
    struct watch *keeper_wanted;
    int kube_socks[2]; /* as the gateway's: both processes may be others, the socket is the same */
    uint64_t generation, generations_before;
    int64_t window_start_ms;
    int64_t crashes; /* within the window */
    int signals;
    int ready_fd;
    struct watch *signal_watch, *ready_watch, *kill_watch, *leave_watch;
    bool told_ready;
    bool served;  /* a control plane has served under this warden, so there may be sandboxes */
    bool leaving; /* the control plane was asked to make way */
    int code;
};

/* supervise.c */
void supervisor_quit(struct supervisor *s, int code);
/* Opens the installed program, which may be another than before: then the gateway is to be of it,
 * too, so that both are of one version. */
int supervisor_load_program(struct supervisor *s);

/* control-service.c */
void control_start(void *data);
void control_end_ready(struct supervisor *s); /* nothing more is to be heard of its start */
void control_load_generations(struct supervisor *s);
/* The control plane is to make way for one of the installed program. tag is of the plan that asks
 * for it, and is answered; 0: a signal. */
void control_ask_upgrade(void *data, uint64_t tag);

/* services.c: the others, and what all of them have in common. */
int service_next_backoff(struct service *service);
void service_end(struct service *service);
void service_log_death(const char *who, pid_t pid, int status);
void gateway_start(void *data);
void kube_start(void *data); /* where a cluster is configured */
/* A pair of sockets for each control plane, so that none hears answers to another's calls. Returns
 * the control plane's end; ours goes to the keeper, once there is something to read from it. */
int keeper_open_socks(struct supervisor *s);
void keeper_stop(struct supervisor *s);
