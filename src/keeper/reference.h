/* SPDX-License-Identifier: Apache-2.0 */
/* An image's reference: "alpine", "registry.example/team/tools:3", "localhost:5000/x@sha256:HEX".
 */
#pragma once

#include <stdbool.h>

#include "image/image.h"

struct error;

struct reference {
    char *registry;                 /* host or host:port */
    char *repository;               /* "team/tools" */
    char *tag;                      /* "latest" where there is neither tag nor digest; or NULL */
    char digest[IMAGE_DIGEST_SIZE]; /* pinned; or "" */
};

/* "docker://" in front is fine. The registry is the first part when that has a dot or a colon or is
 * "localhost"; otherwise fallback, and where that is NULL, none (ERROR_NOT_FOUND). */
int reference_parse(const char *text, const char *fallback, struct reference *ret,
                    struct error *err);
void reference_done(struct reference *r);
#define _cleanup_reference_ __attribute__((cleanup(reference_done)))
/* In full: registry/repository[:tag][@sha256:digest]. The caller frees. */
char *reference_format(const struct reference *r);
/* As rules see it: in full, "sha256:HEX" or a host path; a name without a registry as it is where
 * the store has it (is_name), else with the fallback. NULL: only the store knows. The caller frees.
 */
char *reference_show(const char *text, const char *fallback, bool is_name);
/* Whether something made here may be called that: nothing that a registry or path could mean. */
bool reference_is_local_name(const char *name);
/* Whether a list of host[:port] has the registry; "*" has every one. */
bool reference_is_listed(const struct reference *r, char *const *list);
