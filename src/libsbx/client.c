/* SPDX-License-Identifier: Apache-2.0 */
/* A client: where the daemon is and how to authenticate. Every transfer starts from libsbx_setup(),
 * so that no option of one request leaks into the next. */
#include "libsbx/internal.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;

static void init_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

const char *sbx_version(void)
{
    return MAS_VERSION;
}

/* The host of such a URL is never looked up; HTTP needs one all the same. */
static int set_unix(struct sbx_client *c, const char *path, struct sbx_error *err)
{
    if (strncmp(path, "//", 2) == 0)
        path += 2;
    if (!*path || strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return libsbx_fail(err, "invalid_request", "'unix:%s': the path is empty or too long",
                           path);
    c->unix_path = xstrdup(path);
    c->base_url = xstrdup("http://localhost");
    c->no_proxy = true;
    return 0;
}

/* Requests to this machine never go to a proxy of the environment: it would reach another machine's
 * loopback, with our token. */
static bool is_loopback(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "[::1]") == 0;
}

/* Accepts "scheme://host[:port][/]" and nothing with a user, a path or a query: what is not used
 * must not look as if it were. */
static int set_url(struct sbx_client *c, const char *url, struct sbx_error *err)
{
    CURLU *u = curl_url();
    char *host = NULL, *path = NULL, *user = NULL, *query = NULL;
    int r = -1;
    CURLUcode code = curl_url_set(u, CURLUPART_URL, url, 0);
    if (code != CURLUE_OK) {
        libsbx_fail(err, "invalid_request", "'%s' is not an address: %s", url,
                    curl_url_strerror(code));
        goto out;
    }
    curl_url_get(u, CURLUPART_HOST, &host, 0);
    curl_url_get(u, CURLUPART_PATH, &path, 0);
    curl_url_get(u, CURLUPART_USER, &user, 0);
    curl_url_get(u, CURLUPART_QUERY, &query, 0);
    if (!host || user || query || (path && strcmp(path, "/") != 0)) {
        libsbx_fail(err, "invalid_request",
                    "'%s' is not scheme://host:port; it must not have a user, path or query", url);
        goto out;
    }
    c->no_proxy = is_loopback(host);
    size_t len = strlen(url);
    while (len && url[len - 1] == '/')
        len--;
    c->base_url = xstrndup(url, len);
    r = 0;
out:
    curl_free(host);
    curl_free(path);
    curl_free(user);
    curl_free(query);
    curl_url_cleanup(u);
    return r;
}

static int set_address(struct sbx_client *c, const char *address, struct sbx_error *err)
{
    c->address = xstrdup(address);
    if (strncmp(address, "unix:", 5) == 0)
        return set_unix(c, address + 5, err);
    if (strncmp(address, "http://", 7) == 0 || strncmp(address, "https://", 8) == 0)
        return set_url(c, address, err);
    if (strstr(address, "://"))
        return libsbx_fail(err, "invalid_request",
                           "'%s' does not begin with http://, https:// or unix:", address);
    _cleanup_free_ char *url =
        xasprintf("http://%s%s", address[0] == ':' ? "127.0.0.1" : "", address);
    return set_url(c, url, err);
}

/* A line end in a token would begin another header. */
static int set_token(struct sbx_client *c, const char *token, struct sbx_error *err)
{
    if (!token || !*token)
        return 0;
    for (const char *p = token; *p; p++)
        if (!isgraph((unsigned char)*p))
            return libsbx_fail(err, "invalid_request", "the token holds a space or control byte");
    c->auth_header = xasprintf("Authorization: Bearer %s", token);
    return 0;
}

int sbx_client_set_approval(struct sbx_client *c, const char *approval, struct sbx_error *err)
{
    for (const char *p = approval; p && *p; p++)
        if (!isgraph((unsigned char)*p))
            return libsbx_fail(err, "invalid_request", "'%s' is not an approval", approval);
    free(c->approval_header);
    c->approval_header = NULL;
    if (approval)
        c->approval_header = xasprintf(
            "%s: %s", strcmp(approval, "wait") ? "X-Mas-Approval-Id" : "X-Mas-Approval", approval);
    return 0;
}

/* The user's own socket, where a daemon made it, else the port that daemons have. */
static char *default_address(void)
{
    _cleanup_free_ char *path = sbx_default_socket();
    return libsbx_default_socket_exists(path) ? xasprintf("unix:%s", path)
                                              : xstrdup(SBX_DEFAULT_ADDRESS);
}

/* An address that the caller did not name is only taken from a daemon of root's or of this user's
 * (libsbx_check_peer()): anyone can listen on a free port. */
struct sbx_client *sbx_client_new(const char *address, const char *token, struct sbx_error *err)
{
    pthread_once(&curl_once, init_curl);
    if (!address)
        address = getenv("MAS_SANDBOX_URL");
    bool guessed = !address || !*address;
    _cleanup_free_ char *fallback = guessed ? default_address() : NULL;
    address = guessed ? fallback : address;
    struct sbx_client *c = new0(struct sbx_client);
    c->guessed = guessed;
    if (set_address(c, address, err) < 0 ||
        set_token(c, token ? token : getenv("MAS_SANDBOX_TOKEN"), err) < 0)
        goto fail;
    c->curl = curl_easy_init();
    if (!c->curl) {
        libsbx_fail(err, "internal", "libcurl does not start");
        goto fail;
    }
    return c;
fail:
    sbx_client_free(c);
    return NULL;
}

void sbx_client_free(struct sbx_client *c)
{
    if (!c)
        return;
    curl_easy_cleanup(c->curl);
    free(c->address);
    free(c->base_url);
    free(c->unix_path);
    free(c->auth_header);
    free(c->approval_header);
    free(c->ca_file);
    free(c);
}

const char *sbx_client_address(const struct sbx_client *c)
{
    return c->address;
}

void sbx_client_set_timeout(struct sbx_client *c, long timeout_ms)
{
    c->timeout_ms = timeout_ms;
}

int sbx_client_set_ca_file(struct sbx_client *c, const char *path, struct sbx_error *err)
{
    if (strncmp(c->base_url, "https://", 8) != 0)
        return libsbx_fail(err, "invalid_request", "a CA file is for https:// addresses");
    free(c->ca_file);
    c->ca_file = path ? xstrdup(path) : NULL;
    return 0;
}

void libsbx_setup(struct sbx_client *c, CURL *h, char *error_buffer)
{
    curl_easy_reset(h);
    error_buffer[0] = 0;
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, error_buffer);
    curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    /* "/../" in a path is the daemon's to refuse, not ours to resolve into another path. */
    curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, (long)SBX_CONNECT_TIMEOUT_S);
    curl_easy_setopt(h, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(h, CURLOPT_USERAGENT, "libsbx/" MAS_VERSION);
    if (c->guessed)
        libsbx_check_peer(c, h);
    if (c->unix_path)
        curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, c->unix_path);
    if (c->no_proxy)
        curl_easy_setopt(h, CURLOPT_PROXY, "");
    if (c->ca_file)
        curl_easy_setopt(h, CURLOPT_CAINFO, c->ca_file);
}

char *libsbx_url(const struct sbx_client *c, const char *path)
{
    return xasprintf("%s%s%s", c->base_url, path[0] == '/' ? "" : "/", path);
}

static void append_escaped(struct strbuf *out, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (isascii(*p) && (isalnum(*p) || strchr("-._~", *p)))
            strbuf_append(out, p, 1);
        else
            strbuf_printf(out, "%%%02X", *p);
}

/* Only %s, whose text is escaped: an id that holds a slash cannot name another route. */
char *sbx_path_format(const char *format, ...)
{
    struct strbuf out = STRBUF_INIT(SBX_LINE_MAX);
    va_list ap;
    va_start(ap, format);
    for (const char *p = format; *p; p++) {
        if (p[0] == '%' && p[1] == 's') {
            append_escaped(&out, va_arg(ap, const char *));
            p++;
        } else {
            strbuf_append(&out, p, 1);
        }
    }
    va_end(ap);
    return strbuf_steal(&out);
}
