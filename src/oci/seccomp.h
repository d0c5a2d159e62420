/* SPDX-License-Identifier: Apache-2.0 */
/* The system call table as the seccomp section of an OCI configuration. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* A new reference, from the table that the warden's own filter is compiled from. Not exact:
 * "all but these values" is all, which takes libseccomp half the time; for a container whose runner
 * applies the warden's own filter to itself, or whose kernel is not the host's. */
json_t *oci_seccomp_new(bool exact);
