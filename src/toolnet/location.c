/* SPDX-License-Identifier: Apache-2.0 */
#include "toolnet/location.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "toolnet/toolnet.h"

void location_done(struct location *l)
{
    free(l->text);
    *l = (struct location){0};
}

int location_parse(const char *text, struct location *ret, struct error *err)
{
    *ret = (struct location){0};
    if (strlen(text) > TOOLNET_URL_MAX)
        return error_field(err, "url", "the URL is longer than %d bytes", TOOLNET_URL_MAX);
    switch (url_parse(text, &ret->url)) {
    case 0:
        break;
    case -EPROTONOSUPPORT:
        return error_field(err, "url", "only http and https URLs are fetched");
    case -EPERM:
        return error_set(err, ERROR_DENIED, 0, "host not allowed");
    default:
        return error_field(err, "url",
                           "the URL has no valid host and port; names of other scripts than "
                           "Latin are written as punycode (xn--...)");
    }
    ret->text = xstrdup(text);
    target_format_host(&ret->url.target, ret->host);
    return 0;
}

bool location_same_origin(const struct location *a, const struct location *b)
{
    return a->url.tls == b->url.tls && strcmp(a->host, b->host) == 0 &&
           a->url.target.port == b->url.target.port;
}

static void cleanup_curlu(CURLU **u)
{
    curl_url_cleanup(*u);
}
#define _cleanup_curlu_ __attribute__((cleanup(cleanup_curlu)))

char *location_add_query(const char *base, const char *name, const char *value)
{
    _cleanup_curlu_ CURLU *u = curl_url();
    _cleanup_free_ char *pair = xasprintf("%s=%s", name, value);
    char *whole = NULL;
    if (curl_url_set(u, CURLUPART_URL, base, 0) != CURLUE_OK ||
        curl_url_set(u, CURLUPART_QUERY, pair, CURLU_APPENDQUERY | CURLU_URLENCODE) != CURLUE_OK ||
        curl_url_get(u, CURLUPART_URL, &whole, 0) != CURLUE_OK)
        return NULL;
    char *copy = xstrdup(whole); /* free() takes it, whatever allocator libcurl was given */
    curl_free(whole);
    return copy;
}
