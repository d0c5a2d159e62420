/* SPDX-License-Identifier: Apache-2.0 */
/* The template of a sandbox's root: built once, copied by every clone of the zygote
 * (zygote.h) or the warden.
 *
 * After root_enter() the calling process has two mount namespaces: its own, whose root is the
 * template (read-only, almost no mounts, so that copying it is cheap), and the one in host_ns_fd,
 * which looks like the host and is visited only to open allowed host directories. */
#pragma once

#include "builder/root.h"

struct error;

struct root_options {
    const char *scratch_dir; /* any existing directory; a tmpfs covers it in our namespace only */
    int runner_fd;           /* copied to /.mas/mas-toolrunner */
    int toolnet_fd;          /* copied to /.mas/mas-tool-net; -1: none */
    int vmm_fd;              /* copied to ROOT_VMM_PATH; -1: none */
};

/* What is shown of the host, NULL-terminated: directories of its root, and what is below /etc,
 * where a trailing '*' matches a prefix. */
extern const char *const root_host_dirs[], *const root_etc_parts[];

/* ERROR_UNSUPPORTED where error says that the host does not let us, ERROR_UNAVAILABLE otherwise. */
int root_refused(struct error *err, int error, const char *what);

/* Where the host forbids it, err's code is ERROR_UNSUPPORTED, and the caller sees what it saw
 * before. */
int root_enter(const struct root_options *o, int *ret_host_ns_fd, int *ret_own_ns_fd,
               struct error *err);
