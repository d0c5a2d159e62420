/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/environment.h"

#include <string.h>

#include "base/alloc.h"
#include "proto/plan.h"

static const char *const defaults[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "HOME=/home/sandbox",
    "USER=sandbox",
    "LOGNAME=sandbox",
    "SHELL=/bin/sh",
    "LANG=C.UTF-8",
    "TMPDIR=/tmp",
    "TERM=xterm-256color",
};

#define PROXY "http://127.0.0.1:" PLAN_PROXY_PORT
static const char *const proxy[] = {
    /* Node from 24.5 on; others load what does the same. */
    "NODE_USE_ENV_PROXY=1",
    "HTTP_PROXY=" PROXY,
    "HTTPS_PROXY=" PROXY,
    "http_proxy=" PROXY,
    "https_proxy=" PROXY,
    /* The port speaks SOCKS as well. It is not named here: what asks for HTTP has its own variable,
     * and clients like Python's httpx refuse to start at all where this one is SOCKS and they lack
     * a library for it. */
    "ALL_PROXY=" PROXY,
    "all_proxy=" PROXY,
    /* What listens inside the sandbox is reached without it. */
    "NO_PROXY=localhost,127.0.0.1,::1",
    "no_proxy=localhost,127.0.0.1,::1",
};
/* These name files that are ours, without which the programs do not start. */
static const char *const proxy_files[] = {
    /* Also with an image, which has an ssh_config of its own. */
    "GIT_SSH_COMMAND=ssh -o 'ProxyCommand=" PLAN_SSH_PROXY "'",
    ("NODE_OPTIONS=--require=" PLAN_NODE_PROXY), /* one string, for a compiler that asks */
};

/* Some programs bring authorities of their own, and look at a file only when told so. */
static const char *const authority[] = {
    "SSL_CERT_FILE",     "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",    "GIT_SSL_CAINFO",      "PIP_CERT",
    "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
};

#define OWN_MAX 3 /* of a sandbox without a root of its own */

struct builder {
    const char **items;
    size_t count;
};

static void put_entry(struct builder *b, const char *entry)
{
    size_t key = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < b->count; i++)
        if (strncmp(b->items[i], entry, key) == 0) {
            b->items[i] = entry;
            return;
        }
    b->items[b->count++] = entry;
}

static bool is_listed(char *const *whitelist, const char *entry)
{
    size_t n = strcspn(entry, "=");
    for (char *const *name = whitelist; name && *name; name++)
        if (strlen(*name) == n && strncmp(*name, entry, n) == 0)
            return true;
    return !whitelist;
}

char **environment_build(const struct environment *from)
{
    _cleanup_free_ char *home = xasprintf("HOME=%s/home", from->box);
    _cleanup_free_ char *tmpdir = xasprintf("TMPDIR=%s/tmp", from->box);
    size_t max = ELEMENTS(defaults) + ELEMENTS(proxy) + ELEMENTS(proxy_files) +
                 ELEMENTS(authority) + OWN_MAX + strv_length(from->image) +
                 strv_length(from->sandbox) + strv_length(from->call) + 1;
    struct builder b = {.items = xcalloc(max, sizeof(*b.items))};
    size_t n_defaults = ELEMENTS(defaults) - (from->terminal ? 0 : 1);
    for (size_t i = 0; i < n_defaults; i++)
        put_entry(&b, defaults[i]);
    for (size_t i = 0; from->proxy && i < ELEMENTS(proxy); i++)
        put_entry(&b, proxy[i]);
    for (size_t i = 0; from->proxy && !from->no_files && i < ELEMENTS(proxy_files); i++)
        put_entry(&b, proxy_files[i]);
    if (*from->box) {
        put_entry(&b, home);
        put_entry(&b, tmpdir);
        put_entry(&b, "GIT_CONFIG_NOSYSTEM=1"); /* what is in /etc, and may not be read, stops it */
    }
    for (char *const *e = from->image; e && *e; e++)
        put_entry(&b, *e);
    /* An image that names its own file of authorities cannot know of this sandbox's. */
    char *authorities[ELEMENTS(authority)] = {NULL};
    for (size_t i = 0; from->authorities && i < ELEMENTS(authority); i++) {
        authorities[i] = xasprintf("%s=%s", authority[i], from->authorities);
        put_entry(&b, authorities[i]);
    }
    for (char *const *e = from->sandbox; e && *e; e++)
        if (is_listed(from->whitelist, *e))
            put_entry(&b, *e);
    for (char *const *e = from->call; e && *e; e++)
        put_entry(&b, *e);
    char **env = strv_copy((char *const *)b.items);
    for (size_t i = 0; i < ELEMENTS(authorities); i++)
        free(authorities[i]);
    free(b.items);
    return env;
}
