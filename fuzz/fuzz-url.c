/* SPDX-License-Identifier: Apache-2.0 */
/* URLs. One that passes is read in the same way by libcurl, which sends the request, and its host
 * has one form only: written out and parsed again it is the same. */
#include <arpa/inet.h>
#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

static void check_again(const struct url *u)
{
    char host[TARGET_TEXT_SIZE];
    struct url again;
    struct in_addr number;
    target_format_host(&u->target, host);
    _cleanup_free_ char *text =
        xasprintf("%s://%s:%u%s", u->tls ? "https" : "http", host, u->target.port, u->rest);
    expect(url_parse(text, &again) == 0 && again.tls == u->tls && !again.has_user);
    expect(strcmp(again.target.host, u->target.host) == 0 && again.target.port == u->target.port);
    if (!u->target.is_address)
        expect(inet_aton(u->target.host, &number) == 0);
}

/* What libcurl refuses is not fetched; where it goes on, it must mean the same place. */
static void check_libcurl(const char *text, const struct url *u)
{
    char *host = NULL, *port = NULL;
    struct target theirs = {0};
    CURLU *c = curl_url();
    if (curl_url_set(c, CURLUPART_URL, text, 0) == CURLUE_OK) {
        expect(curl_url_get(c, CURLUPART_HOST, &host, 0) == CURLUE_OK);
        expect(curl_url_get(c, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK);
        expect(target_parse_host(host, strlen(host), &theirs) == 0);
        expect(strcmp(theirs.host, u->target.host) == 0);
        expect(strtoul(port, NULL, 10) == u->target.port);
    }
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_free_ char *text = xstrndup((const char *)data, size);
    struct url u;
    if (url_parse(text, &u) == 0) {
        check_again(&u);
        check_libcurl(text, &u);
    }
    return 0;
}
