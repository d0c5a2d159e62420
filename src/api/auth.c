/* SPDX-License-Identifier: Apache-2.0 */
#include "api/auth.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "base/error.h"
#include "base/url.h"
#include "identity/identity.h"
#include "identity/keys.h"
#include "net/http.h"

/* The name without its port and brackets; false when it is not a host at all. */
static bool host_name(const char *host, char *out, size_t size)
{
    const char *start = host;
    size_t n;
    if (*host == '[') {
        start = host + 1;
        n = strcspn(start, "]");
        if (start[n] != ']')
            return false;
    } else {
        n = strcspn(host, ":");
    }
    if (n == 0 || n >= size)
        return false;
    memcpy(out, start, n);
    out[n] = 0;
    return true;
}

static bool host_is_ours(const struct services *o, const char *host)
{
    char name[256];
    unsigned char address[16];
    if (!host || !host_name(host, name, sizeof(name)))
        return false;
    if (strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1 ||
        inet_pton(AF_INET6, name, address) == 1)
        return true;
    for (char *const *h = o->config.allowed_hosts; h && *h; h++)
        if (strcasecmp(*h, name) == 0 || strcasecmp(*h, host) == 0)
            return true;
    return false;
}

bool auth_origin_is_ours(const struct services *o, const char *origin, const char *host)
{
    for (char *const *a = o->config.allowed_origins; a && *a; a++)
        if (strcasecmp(*a, origin) == 0)
            return true;
    return origin_is_of_host(origin, host);
}

int auth_check_source(const struct services *o, struct http_request *http, struct error *err)
{
    const char *host = http_request_header(http, "Host");
    const char *origin = http_request_header(http, "Origin");
    /* Only HTTP/1.0 may leave Host out, and no browser does. */
    if (!http_request_is_unix(http) && host && !host_is_ours(o, host))
        return error_set(err, ERROR_FORBIDDEN, 0,
                         "Host '%.100s' is not a name of this daemon (allowed_hosts_header)", host);
    if (origin && !auth_origin_is_ours(o, origin, host))
        return error_set(err, ERROR_FORBIDDEN, 0,
                         "Origin '%.100s' is not allowed (allowed_origins)", origin);
    return 0;
}

/* Compares digests, so that neither content nor length of the token shows in the time. */
static bool token_equal(const char *a, const char *b)
{
    unsigned char x[EVP_MAX_MD_SIZE], y[EVP_MAX_MD_SIZE];
    if (!EVP_Digest(a, strlen(a), x, NULL, EVP_sha256(), NULL) ||
        !EVP_Digest(b, strlen(b), y, NULL, EVP_sha256(), NULL))
        return false;
    return CRYPTO_memcmp(x, y, 32) == 0;
}

/* The secret a request carries, or NULL. */
static const char *find_secret(struct http_request *http)
{
    const char *header = http_request_header(http, "Authorization");
    if (!header || strncasecmp(header, "bearer ", 7) != 0)
        return http_request_header(http, "X-Sandbox-Token");
    return header + 7 + strspn(header + 7, " ");
}

bool auth_authorization_is_ours(const struct services *o, struct http_request *http)
{
    const char *header = http_request_header(http, "Authorization");
    if (!header)
        return false;
    /* In whatever scheme a client has put them, or in none; keys say what they are. */
    return strstr(header, KEY_SECRET_PREFIX) ||
           (o->config.token && *o->config.token && strstr(header, o->config.token));
}

bool auth_is_needed(const struct services *o)
{
    return o->config.token || o->config.require_keys || keys_any(o->keys);
}

int auth_identify(const struct services *o, struct http_request *http, struct identity *ret,
                  struct error *err)
{
    const char *given = find_secret(http);
    if (given && o->config.token && token_equal(given, o->config.token))
        *ret = identity_token;
    else if (given && keys_identify(o->keys, given, ret) == 0)
        return 0;
    else if (!auth_is_needed(o))
        *ret = identity_local;
    else
        return error_set(err, ERROR_UNAUTHORIZED, 0,
                         given ? "the key or token is wrong, or has ended"
                               : "a key or token is needed");
    return 0;
}

int auth_check_role(const struct identity *who, unsigned roles, struct error *err)
{
    char needed[ROLES_TEXT_SIZE], has[ROLES_TEXT_SIZE];
    if (roles && identity_has(who, roles))
        return 0;
    bool one = (roles & (roles - 1)) == 0;
    return error_set(err, ERROR_FORBIDDEN, 0, "this needs %s %s; key '%s' has %s",
                     one ? "the role" : "one of the roles", roles_format(roles, needed), who->name,
                     roles_format(who->roles, has));
}
