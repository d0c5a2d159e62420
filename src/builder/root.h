/* SPDX-License-Identifier: Apache-2.0 */
/* Places and files of the template of a sandbox's root (warden/local/root.h). */
#pragma once

#include <stddef.h>

#define ROOT_RUNNER_PATH "/.mas/mas-toolrunner"
#define ROOT_VMM_PATH    "/.mas/mas-vmm"
#define ROOT_EMPTY_DIR   "/.mas/empty"
#define ROOT_DISK_DIR    "/.mas/disk" /* where a sandbox's disk is mounted while it is divided */
#define ROOT_AUTHORITIES                                                                           \
    "/etc/ssl/certs/ca-certificates.crt" /* what programs verify servers with */
#define ROOT_GATEWAY_DIR    "/.mas/run"
#define ROOT_GATEWAY_SOCKET "/.mas/run/gateway.sock" /* /.mas/gateway.sock is a link to it */

/* Synthetic files of the template. */
struct root_file {
    const char *name, *text;
};
extern const struct root_file root_files[];
extern const size_t n_root_files;
/* The text of a synthetic file of the template, by its path without the first slash ("etc/passwd").
 */
const char *root_file_text(const char *name);
