/* SPDX-License-Identifier: Apache-2.0 */
/* How OCI runtimes differ, and where a runner dials that cannot be passed descriptors. */
#pragma once

#include <stdbool.h>

#include "proto/plan.h"

struct oci_flavour {
    const char *const *programs;  /* names to look for; NULL-terminated */
    const char *const *options;   /* before the command */
    const char *const *platforms; /* what its kernel may stand on, best first; NULL: no choice */
    const char *unshared;     /* where no other process changes what it mounts; NULL: no option */
    const char *no_network;   /* where its kernel has a network of its own: that it has none, */
    const char *copy_network; /* or that it takes over links, addresses and routes; or NULL */
    bool own_kernel;          /* its kernel is a process: no devices, /proc or filters of ours */
    bool host_network;        /* its sandboxes' network is a namespace of the host's kernel */
    bool dials;               /* descriptors cannot be passed: the runner connects to a socket */
    bool takes_filter;  /* the warden's own filter, in place of compiling the seccomp section */
    bool joins_cgroups; /* insists on control groups of its own; gets ours */
};
const struct oci_flavour *oci_flavour(enum oci_backend b);

/* The runner's way out, in the container. */
#define OCI_LINK_INSIDE "/.mas/link"
#define OCI_LINK_NAME   "runner.sock"
