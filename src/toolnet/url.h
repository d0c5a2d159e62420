/* URLs as the tools take them: http and https only, with a host, of bounded length. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct error;

struct url {
    char *text;   /* as given */
    char *scheme; /* "http" or "https" */
    char *host;   /* punycode; an IPv6 address keeps its brackets */
    uint16_t port;
};

void url_done(struct url *u);
int url_parse(const char *text, struct url *ret, struct error *err);
/* Same scheme, host and port: credentials may follow a redirect from a to b. */
bool url_same_origin(const struct url *a, const struct url *b);
/* base with name=value (encoded) added to its query. The caller frees; NULL on a bad base. */
char *url_add_query(const char *base, const char *name, const char *value);
