/* SPDX-License-Identifier: Apache-2.0 */
/* How mas-kube gives up what it was born with. */
#pragma once

#include <stdbool.h>

struct error;
struct kube_access;

/* In this order: the user (when root), all capabilities, files but those of name lookup and of the
 * credential, system calls. with_parent: it dies with the process that started it. */
int kube_confine(const struct kube_access *access, bool with_parent, struct error *err);
