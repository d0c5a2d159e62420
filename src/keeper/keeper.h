/* SPDX-License-Identifier: Apache-2.0 */
/* The image keeper: the one process that fetches, unpacks, names and removes images.
 *
 * It is root of a user namespace that maps three ids of the host that no other process has, it sees
 * a root of its own (daemon/keeper-stage.c), and it may write below one directory. Of what it is
 * asked (keeper-proto.h) it does the quick parts itself; everything that reads an image runs in
 * workers:
 *
 *   keeper ── worker, one a job: the order of steps; of an image it parses JSON, the manifests and
 *               │            the configuration, and nothing else
 *               ├─ skopeo: may write to one directory, a uid of its own
 *               └─ unpacker: has no network and no programs, may write to one directory;
 *                            nothing that it says is believed (unpacker.h)
 *
 * All of them are in a network namespace without links; what skopeo wants from a registry goes
 * through the gateway (outlet.h).
 *
 * A worker that dies leaves a work directory, which is removed, and never half an image: what
 * becomes visible does so by one rename (image/store.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "image/image.h"
#include "proto/claims.h"

/* What an operator may set (configuration keys in config/table.c). */
struct keeper_config {
    char **allow; /* host directories that images may come from; NULL if there is none */
    char **registries, **insecure_registries; /* host[:port]; "*" is every one */
    char **hosts;           /* that registries may send a fetch to: host rules (gateway/rule.h) */
    char *default_registry; /* of names that have none; NULL: none is asked */
    char *auth_file;        /* registry credentials; NULL if there is none */
    bool disks;             /* each image is made a disk, too, for virtual machines */
    uint32_t jobs;          /* at a time; others wait */
    uint32_t pull_timeout_ms, idle_timeout_ms;
    uint64_t max_bytes, max_upload_bytes;
    struct image_limits limits;
};

struct keeper_options {
    struct keeper_config config;
    const char *dir;       /* the directory of all images, as it is seen here */
    const char *allow_dir; /* where config.allow is seen: allow_dir/0, allow_dir/1, ... */
    int default_fd;        /* the tar of the image that comes with the daemon; -1: there is none */
    bool own_ids;          /* 1000 and 65534 are mapped */
    struct claimant room;  /* of the file system; a job that would take the reserve ends */
    int gateway_sock;      /* of gateway/gateway-client.h; -1: nothing can be fetched */
};

/* Serves sock until it is closed, or nothing was asked for idle_timeout_ms. Returns the exit status
 * of the process. */
int keeper_main(int sock, const struct keeper_options *o);
