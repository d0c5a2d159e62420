/* SPDX-License-Identifier: Apache-2.0 */
/* fetch: a page as text, markdown or its own source. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "base/utf8.h"
#include "toolnet/args.h"
#include "toolnet/body.h"
#include "toolnet/html.h"
#include "toolnet/toolnet.h"
#include "toolnet/transfer.h"

#define ACCEPT "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.8"

enum fetch_format { FETCH_TEXT, FETCH_MARKDOWN, FETCH_HTML, _FETCH_FORMAT_MAX };

static const char *const format_names[] = {"text", "markdown", "html"};
static_assert(ELEMENTS(format_names) == _FETCH_FORMAT_MAX, "a name per format");

struct page {
    const char *content; /* UTF-8, unless base64 */
    size_t len;
    bool truncated, base64;
    struct strbuf utf8, converted;
};

static int parse_format(const json_t *args, enum fetch_format *ret, struct error *err)
{
    const char *name = "text";
    int r = json_member_string(args, "format", &name, err);
    if (r < 0)
        return r;
    for (int i = 0; i < _FETCH_FORMAT_MAX; i++)
        if (strcasecmp(name, format_names[i]) == 0 || !*name) {
            *ret = (enum fetch_format)i;
            return 0;
        }
    return error_field(err, "format", "'format' must be text, markdown or html");
}

static bool starts_like_html(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && strchr(" \t\r\n\xef\xbb\xbf", data[i]) && data[i])
        i++;
    return (len - i > 9 && strncasecmp(data + i, "<!doctype", 9) == 0) ||
           (len - i > 5 && strncasecmp(data + i, "<html", 5) == 0);
}

static bool is_html(const struct transfer_response *res)
{
    const char *type = transfer_find_header(res, "Content-Type");
    if (!type || !*type)
        return res->body.data && starts_like_html(res->body.data, res->body.len);
    return strncasecmp(type, "text/html", 9) == 0 ||
           strncasecmp(type, "application/xhtml+xml", 21) == 0;
}

static void page_set_text(struct page *p, const struct strbuf *b)
{
    p->content = b->data ? b->data : "";
    /* Ends text that was cut at a limit with a whole character. */
    p->len = b->data ? utf8_valid_prefix(b->data, b->len) : 0;
}

static void read_page(const struct transfer_response *res, enum fetch_format format,
                      size_t max_bytes, struct page *p)
{
    char charset[BODY_CHARSET_SIZE];
    const char *data = res->body.data ? res->body.data : "";
    const char *type = transfer_find_header(res, "Content-Type");
    bool html = is_html(res);
    strbuf_init(&p->utf8, max_bytes);
    strbuf_init(&p->converted, max_bytes);
    p->truncated = res->truncated;
    body_charset(type, charset);
    if (html && !*charset)
        body_html_charset(data, res->body.len, charset);
    if (!html && !body_type_is_text(type) && !body_is_text(data, res->body.len)) {
        p->base64 = true;
        return;
    }
    if (body_to_utf8(data, res->body.len, charset, &p->utf8) < 0)
        p->truncated = true;
    body_strip_controls(&p->utf8);
    page_set_text(p, &p->utf8);
    if (!html || format == FETCH_HTML)
        return;
    enum html_format to = format == FETCH_MARKDOWN ? HTML_MARKDOWN : HTML_TEXT;
    if (html_convert(p->content, p->len, res->url, to, &p->converted) < 0)
        p->truncated = true;
    page_set_text(p, &p->converted);
}

static json_t *content_json(const struct transfer_response *res, const struct page *p,
                            bool *ret_base64)
{
    *ret_base64 = p->base64;
    if (p->base64)
        return body_json(res->body.data, res->body.len, res->truncated, NULL, ret_base64);
    return json_stringn_nocheck(p->content ? p->content : "", p->len);
}

static json_t *format_result(const struct transfer_response *res, const struct page *p,
                             const char *url, enum fetch_format format, const char *error)
{
    bool base64, success = !error && res->status >= 200 && res->status < 300;
    json_t *out =
        json_pack("{s:b, s:o, s:s, s:s, s:I, s:b}", "success", success, "content",
                  content_json(res, p, &base64), "url", url, "format", format_names[format], "size",
                  (json_int_t)res->body.len, "truncated", p->truncated);
    if (base64)
        json_object_set_new(out, "content_encoding", json_string("base64"));
    if (error)
        json_object_set_new(out, "error", json_string(error));
    else if (!success)
        json_object_set_new(out, "error", json_sprintf("HTTP %s", res->status_text));
    return out;
}

static int run_transfer(const struct toolnet *net, const struct transfer_request *req,
                        enum fetch_format format, json_t **ret, struct error *err)
{
    struct transfer_response res = {0};
    struct page page = {0};
    int r = transfer_run(net, req, &res, err);
    if (r == 0) {
        read_page(&res, format, net->max_body_bytes, &page);
        *ret = format_result(&res, &page, res.redirects ? res.url : req->url, format, NULL);
    } else if (err->code != ERROR_INVALID) {
        _cleanup_free_ char *text = transfer_failure_text(&res, err);
        strbuf_reset(&res.body);
        *ret = format_result(&res, &page, req->url, format, text);
    }
    strbuf_done(&page.utf8);
    strbuf_done(&page.converted);
    transfer_response_done(&res);
    return r;
}

int toolnet_fetch(const struct toolnet *net, const json_t *args, json_t **ret, struct error *err)
{
    struct transfer_request req = {.method = "GET"};
    enum fetch_format format = FETCH_TEXT;
    int r = args_string(args, "url", &req.url, err);
    if (r < 0 || (r = parse_format(args, &format, err)) < 0 ||
        (r = args_timeout(net, args, &req.timeout_ms, err)) < 0)
        return r;
    transfer_add_header(&req, "Accept", ACCEPT, NULL);
    r = run_transfer(net, &req, format, ret, err);
    transfer_request_done(&req);
    return r;
}
