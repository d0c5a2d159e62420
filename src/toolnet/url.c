#include "toolnet/url.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "toolnet/toolnet.h"

static void cleanup_curlu(CURLU **u)
{
    curl_url_cleanup(*u);
}
#define _cleanup_curlu_ __attribute__((cleanup(cleanup_curlu)))

void url_done(struct url *u)
{
    free(u->text);
    free(u->scheme);
    free(u->host);
    *u = (struct url){0};
}

/* A copy that free() takes, whatever allocator libcurl was given; NULL where the part is absent. */
static char *get_part(CURLU *u, CURLUPart part, unsigned flags)
{
    char *value = NULL;
    if (curl_url_get(u, part, &value, flags) != CURLUE_OK)
        return NULL;
    char *copy = xstrdup(value);
    curl_free(value);
    return copy;
}

static int check(const struct url *u, const char *zone, const char *port, struct error *err)
{
    if (!u->scheme || (strcmp(u->scheme, "http") != 0 && strcmp(u->scheme, "https") != 0))
        return error_field(err, "url", "only http and https URLs are fetched");
    if (!u->host || !*u->host || zone || strchr(u->host, '%'))
        return error_field(err, "url", "the URL has no valid host");
    if (!port || strtoul(port, NULL, 10) - 1 >= UINT16_MAX)
        return error_field(err, "url", "the URL's port is not valid");
    return 0;
}

int url_parse(const char *text, struct url *ret, struct error *err)
{
    *ret = (struct url){0};
    if (strlen(text) > TOOLNET_URL_MAX)
        return error_field(err, "url", "the URL is longer than %d bytes", TOOLNET_URL_MAX);
    _cleanup_curlu_ CURLU *u = curl_url();
    CURLUcode code = curl_url_set(u, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME);
    if (code != CURLUE_OK)
        return error_field(err, "url", "invalid URL: %s", curl_url_strerror(code));
    ret->text = xstrdup(text);
    ret->scheme = get_part(u, CURLUPART_SCHEME, 0);
    ret->host = get_part(u, CURLUPART_HOST, CURLU_PUNYCODE);
    _cleanup_free_ char *zone = get_part(u, CURLUPART_ZONEID, 0);
    _cleanup_free_ char *port = get_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT);
    int r = check(ret, zone, port, err);
    if (r < 0) {
        url_done(ret);
        return r;
    }
    ret->port = (uint16_t)strtoul(port, NULL, 10);
    return 0;
}

bool url_same_origin(const struct url *a, const struct url *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcasecmp(a->host, b->host) == 0 &&
           a->port == b->port;
}

char *url_add_query(const char *base, const char *name, const char *value)
{
    _cleanup_curlu_ CURLU *u = curl_url();
    _cleanup_free_ char *pair = xasprintf("%s=%s", name, value);
    if (curl_url_set(u, CURLUPART_URL, base, 0) != CURLUE_OK ||
        curl_url_set(u, CURLUPART_QUERY, pair, CURLU_APPENDQUERY | CURLU_URLENCODE) != CURLUE_OK)
        return NULL;
    return get_part(u, CURLUPART_URL, 0);
}
