/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of mas-kube, as one JSON object: from a sealed memory file that mas-sandboxd
 * wrote before a control plane existed, or from the operator's own file.
 *
 *   "access"      how the server is reached (kube/access.h), read already; or else
 *   "kubeconfig"  a path, with "context" and "exec_plugins"; without one, the files of the pod
 *   "ceiling"     what may be made (kube/ceiling.h)
 *   "direct_key"  the file of the broker's key for the direct carrier (kube/direct.h), which is
 *                 made where there is none; needed where the ceiling has a direct_port
 *   "holder"      whose a Lease is (kube/lease.h), with the host's name before it; without one, a
 *                 number that is made up, with which every start is another control plane
 *   "relay"       instead of all of these: the socket of the broker that does the work
 * (kube/relay.h) "log_level", "log_format" */
#pragma once

#include <stddef.h>

#include "base/log.h"
#include "kube/access.h"
#include "kube/ceiling.h"

#define KUBE_SETTINGS_MAX (4u << 20)

struct kube_settings {
    struct kube_access access;
    struct kube_ceiling ceiling;
    char *direct_key; /* NULL */
    char *holder;     /* who holds Leases: this host's name, and a number */
    bool holder_made_up;
    char *relay; /* NULL; with it access and ceiling are empty */
    enum log_level log_level;
    bool log_json;
};

/* Reads what a kubeconfig names, too. A member that is not known is refused by name. */
int kube_settings_parse(struct kube_settings *ret, const char *text, size_t len, struct error *err);
