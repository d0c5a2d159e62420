/* SPDX-License-Identifier: Apache-2.0 */
/* What a server inside a sandbox answers: the head, as the proxy reads it, and the header filter.
 * What passes must keep its promises: fields are text, a body's length is said in one way, a
 * location stays below its prefix, no cookie of ours goes in. The first byte chooses. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/strbuf.h"
#include "port/filter.h"
#include "port/head.h"
#include "port/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool good)
{
    if (!good)
        abort();
}

static bool is_text(const char *s)
{
    for (; *s; s++)
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
            return false;
    return true;
}

static void try_head(const char *text, size_t len, bool bodiless)
{
    static struct port_head h;
    const char *why = NULL;
    char *copy = malloc(len + 1);
    memcpy(copy, text, len);
    copy[len] = 0;
    ssize_t n = port_head_parse(copy, len, bodiless, &h, &why);
    expect(n <= (ssize_t)len && n <= PORT_HEAD_MAX);
    expect(n >= 0 || why);
    if (n > 0) {
        expect(h.status >= 100 && h.status <= 599 && h.n_fields <= PORT_FIELDS_MAX);
        expect(!bodiless || h.framing == PORT_BODY_NONE);
        for (size_t i = 0; i < h.n_fields; i++) {
            expect(*h.fields[i].name && is_text(h.fields[i].name) && is_text(h.fields[i].value));
            expect(strcasecmp(h.fields[i].name, "Transfer-Encoding") != 0 &&
                   strcasecmp(h.fields[i].name, "Content-Length") != 0);
            port_filter_outward(h.fields[i].name);
        }
    }
    free(copy);
}

static bool has_dots(const char *path)
{
    for (const char *p = path; *p && *p != '?' && *p != '#'; p++) {
        size_t n = strcspn(p + 1, "/?#");
        if (*p == '/' &&
            ((n == 2 && !strncmp(p + 1, "..", 2)) || (n == 6 && !strncasecmp(p + 1, "%2e%2e", 6)) ||
             (n == 4 && (!strncasecmp(p + 1, "%2e.", 4) || !strncasecmp(p + 1, ".%2e", 4)))))
            return true;
    }
    return false;
}

static void try_location(const char *value, const char *prefix)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20);
    const struct port_place place = {prefix, "h.example:80", "/a/b?c", 8080};
    if (!port_filter_location(value, &place, &b))
        return;
    expect(b.len == strlen(b.data) && !strncmp(b.data, prefix, strlen(prefix)));
    const char *rest = b.data + strlen(prefix);
    expect(rest[0] == '/' && rest[1] != '/' && rest[1] != '\\' && is_text(rest) && !has_dots(rest));
}

static void try_cookies(const char *value)
{
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(1 << 20), again = STRBUF_INIT(1 << 20);
    port_filter_cookies(value, &b);
    if (!b.len)
        return;
    expect(strncasecmp(b.data, "mas-", 4) != 0 && !strcasestr(b.data, "; mas-") &&
           !strcasestr(b.data, "; __Host-mas-"));
    port_filter_cookies(b.data, &again);
    expect(again.len == b.len && !strcmp(again.data, b.data));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    uint16_t port;
    char id[PORT_HOST_ID_SIZE];
    switch (data[0] % 5) {
    case 0:
        try_head(text, size - 1, data[0] & 0x80);
        break;
    case 1:
        try_location(text, "/v1/sandboxes/x/ports/8080");
        break;
    case 2:
        try_location(text, "");
        break;
    case 3:
        try_cookies(text);
        port_filter_inward(text, text);
        break;
    default:
        if (port_host_parse(text, "ports.test", &port, id) == 1)
            expect(port && strlen(id) < sizeof(id) && is_text(id));
    }
    free(text);
    return 0;
}
