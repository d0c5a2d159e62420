/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox is asked to be: the same for every runtime.
 *
 * A limit is asked for by the caller (asked), or an operator default (not asked). An asked one is
 * enforced or the create fails, unless its wall is in accept_weaker; a default applies where it
 * can and is reported as null where it cannot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/plan.h"
#include "runtime/volume.h"

#define SPEC_MOUNTS_MAX PLAN_MOUNTS_MAX
#define SPEC_TOKEN_SIZE 44

struct spec_mount {
    char *source; /* a host path; bound only from the operator's mounts.allow */
    char *target; /* inside */
    bool read_only;
};

struct spec {
    char *runtime; /* name in the registry */
    struct limits limits;
    bool asked[_WALL_MAX];
    bool accept_weaker[_WALL_MAX];
    struct spec_mount mounts[SPEC_MOUNTS_MAX];
    size_t n_mounts;
    char **env;          /* KEY=VALUE, for every exec in it */
    char *workdir;       /* inside; NULL is the runtime's own */
    char *image;         /* as asked for; NULL: the host's programs, as the runtime shows them */
    char *image_digest;  /* what it was resolved to: 64 hexadecimal digits; NULL with image */
    char **image_env;    /* of the image: what env does not say */
    char **image_names;  /* what it is called: in full as asked for, then by others */
    char *image_workdir; /* of the image: where commands start unless workdir says; or NULL */
    bool tool_net;       /* a helper sandbox for mas-tool-net, with a way to the gateway */
    bool network;        /* commands reach hosts by name through the proxy; hosts is not empty */
    char **hosts;        /* that it may reach; with tool_net alone, empty is every public one */
    char **cidrs;   /* that commands reach by address: networks as net_range_parse() reads them */
    char **lent;    /* addresses with ports that they reach besides, each with an end: full rules */
    bool intercept; /* with network: hosts of secrets are reached through an interceptor */
    char **inject;  /* with intercept: names of the secrets */
    char **intercept_hosts; /* of these, as rules of the gateway's (sandbox/intercept.c) */
    char **denied_hosts;    /* with network: those that it may not, although hosts names them */
    struct volume workspace, cache; /* what /workspace and /cache are kept on */
    /* What its stream container shows when it brings the output of commands; "": it has none. */
    char stream_token[SPEC_TOKEN_SIZE];
    char *snapshot; /* it is a copy of what is kept by this name (runtime_ops.save), or NULL */
};

/* Whether commands reach anything by address. */
static inline bool spec_has_addresses(const struct spec *s)
{
    return (s->cidrs && s->cidrs[0]) || (s->lent && s->lent[0]);
}

/* Whether commands reach anything at all. */
static inline bool spec_has_network(const struct spec *s)
{
    return s->network || spec_has_addresses(s);
}

void spec_init(struct spec *s);
void spec_done(struct spec *s);
#define _cleanup_spec_ __attribute__((cleanup(spec_done)))
void spec_copy(struct spec *dst, const struct spec *src);
/* Another image, or none (NULL) with all that came with it. A digest makes it one that was found.
 */
void spec_set_image(struct spec *s, const char *image, const char *digest, char *const *env,
                    const char *workdir, char *const *names);
/* Where commands start, or NULL where that is the runtime's own place. */
const char *spec_workdir(const struct spec *s);
/* The wall a caller means by an accept_weaker entry, or -1. */
int spec_wall_parse(const char *name);
