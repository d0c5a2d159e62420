/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command: ours (with where the proxy is), then the image's, where the
 * certificate authorities are, the sandbox's and the call's; the last of a name wins. */
#pragma once

#include <stdbool.h>

struct environment {
    const char *box;    /* the sandbox's directory on the host, "" where it has its own root */
    char *const *image; /* vectors may be NULL */
    char *const *sandbox;
    char *const *whitelist; /* of the sandbox's, the only names that are taken */
    char *const *call;
    bool terminal;
    bool proxy;    /* the sandbox has one: variables say where */
    bool no_files; /* PLAN_NODE_PROXY, and the runner for ssh, are not where they are elsewhere */
    const char *authorities; /* the file that has them, its interceptor's among them; NULL: none */
};

/* The caller frees with strv_free(). */
char **environment_build(const struct environment *from);
