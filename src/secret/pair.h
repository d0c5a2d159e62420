/* SPDX-License-Identifier: Apache-2.0 */
/* A pair: a secret, the hosts that it is for, and the header that carries it there.
 *
 * All three are sealed together, so that no process that only passes a pair on can give its secret
 * to another host or put it into another header. A host is an exact name or "*.suffix", with an
 * optional port; without one, only 443 is meant. Addresses are refused: what a certificate proves
 * is a name. A header is "Name: text" with the secret's place written as {}. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/target.h"

struct error;
struct strbuf;

#define PAIR_NAME_MAX   64 /* of the pair, as callers write it */
#define PAIR_HOSTS_MAX  16
#define PAIR_HEADER_MAX 256                   /* the template */
#define PAIR_VALUE_MAX  8192                  /* the secret */
#define PAIR_HOST_SIZE  (TARGET_HOST_MAX + 9) /* of its text, with NUL */
#define PAIR_TEXT_MAX   (PAIR_HEADER_MAX + PAIR_HOSTS_MAX * PAIR_HOST_SIZE + PAIR_VALUE_MAX + 8)
#define PAIR_PORT       443

struct pair_host {
    char name[TARGET_HOST_MAX + 1]; /* without "*." */
    bool below;                     /* was "*.": every name below it, and not itself */
    uint16_t port;
};

/* Zero is an empty pair. */
struct pair {
    char *header;         /* its name, as it is sent */
    char *before, *after; /* what is around the secret in its value */
    struct pair_host hosts[PAIR_HOSTS_MAX];
    size_t n_hosts;
    char *value; /* NULL if it is not known here */
};

void pair_done(struct pair *p); /* wipes the secret */

/* A name of a pair: 1 to PAIR_NAME_MAX of a-z, 0-9, '.', '_' and '-', with a letter or digit first.
 */
int pair_check_name(const char *name, struct error *err);
int pair_set_header(struct pair *p, const char *text, struct error *err);
int pair_add_host(struct pair *p, const char *text, struct error *err);
int pair_parse_host(const char *text, struct pair_host *ret);
/* Does the first mean every host that the second means? */
bool pair_host_covers(const struct pair_host *a, const struct pair_host *b);
/* What a header can carry: printable ASCII without spaces at its ends. */
int pair_set_value(struct pair *p, const char *data, size_t len, struct error *err);

/* Is the secret for this host and port? The host as target_parse_host() writes names. */
bool pair_has_host(const struct pair *p, const char *host, uint16_t port);
/* "api.example.com", "*.example.com:8443" as pair_add_host() takes it. */
void pair_format_host(const struct pair_host *h, char out[PAIR_HOST_SIZE]);
void pair_format_header(const struct pair *p, struct strbuf *out);

/* The text that is sealed: header, hosts and secret, one line for each. */
int pair_format(const struct pair *p, struct strbuf *out);
int pair_parse(struct pair *ret, const char *data, size_t len, struct error *err);
