/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a sandbox in JSON: rules of bodies into the texts of gateway/rule.h, and back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

struct error;
struct spec;

/* How rules are read. */
struct network_reading {
    bool intercept; /* the sandbox has an interceptor, so rules may be about what is in https */
    int64_t now_s;  /* what 'for' counts from */
};

/* The member "network" of a body, into the spec. */
int network_json_parse(const json_t *body, struct spec *s, struct error *err);
/* A list of rules, the member key of o, into texts: one for each port of each rule. *ret stays as
 * it is where there is none. The caller frees with strv_free(). */
int network_json_rules(const json_t *o, const char *key, const struct network_reading *how,
                       char ***ret, struct error *err);
/* Checks the rules that a spec has got from these members; it has a network where one of them
 * allows something. */
int network_json_check(struct spec *s, const char *allowed, const char *denied, struct error *err);
/* Rules that are to deny something by address: addresses and networks, with or without a port. */
int network_json_check_denied(char *const *denied, struct error *err);
/* {"mode","allow","deny"}. */
json_t *network_json_view(const struct spec *s);
