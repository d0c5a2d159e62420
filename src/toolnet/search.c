/* SPDX-License-Identifier: Apache-2.0 */
/* web_search: results out of the DuckDuckGo instant answer format, from a configurable endpoint. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "toolnet/args.h"
#include "toolnet/toolnet.h"
#include "toolnet/transfer.h"
#include "toolnet/location.h"

#define LANGUAGE_MAX   16
#define TITLE_MAX      120
#define DEFAULT_SOURCE "DuckDuckGo"

struct search {
    const char *query;
    const char *language;
    int64_t max_results;
    int64_t timeout_ms;
    json_t *results;
};

/* An abstract and a topic often name the same page. */
static bool has_url(const json_t *results, const char *url)
{
    size_t i;
    json_t *item;
    json_array_foreach(results, i,
                       item) if (strcmp(json_member_text(item, "url"), url) == 0) return true;
    return false;
}

static void add_result(struct search *s, json_t *title, const char *url, const char *snippet,
                       const char *source)
{
    if ((int64_t)json_array_size(s->results) >= s->max_results || has_url(s->results, url)) {
        json_decref(title);
        return;
    }
    json_array_append_new(s->results, json_pack("{s:o, s:s, s:s, s:s}", "title", title, "url", url,
                                                "snippet", snippet, "source", source));
}

/* The format has one text, "Title - what it is": the title is what stands before the dash. */
static json_t *title_of(const char *text)
{
    const char *dash = strstr(text, " - ");
    size_t len = dash ? (size_t)(dash - text) : strlen(text);
    if (len > TITLE_MAX) {
        for (len = TITLE_MAX; len && ((unsigned char)text[len] & 0xc0) == 0x80; len--)
            ;
    }
    return json_stringn(text, len);
}

static void add_topic(struct search *s, const json_t *topic)
{
    const char *text = json_member_text(topic, "Text"), *url = json_member_text(topic, "FirstURL");
    if (*text && *url)
        add_result(s, title_of(text), url, text, DEFAULT_SOURCE);
}

/* Topics come bare or in named groups, one level deep. */
static void add_topics(struct search *s, const json_t *list)
{
    size_t i, k;
    json_t *item, *inner;
    json_array_foreach(list, i, item)
    {
        const json_t *group = json_object_get(item, "Topics");
        if (!json_is_array(group))
            add_topic(s, item);
        json_array_foreach(group, k, inner) add_topic(s, inner);
    }
}

static void add_headline(struct search *s, const json_t *doc, const char *text_key,
                         const char *url_key, const char *source_key)
{
    const char *text = json_member_text(doc, text_key), *url = json_member_text(doc, url_key);
    const char *source = json_member_text(doc, source_key),
               *heading = json_member_text(doc, "Heading");
    if (*text && *url)
        add_result(s, *heading ? json_string(heading) : title_of(text), url, text,
                   *source ? source : DEFAULT_SOURCE);
}

static json_t *format_result(const struct search *s, const char *error)
{
    size_t n = json_array_size(s->results);
    json_t *message = error ? json_string("search failed")
                      : n   ? json_sprintf("%zu result%s", n, n == 1 ? "" : "s")
                            : json_string("no results");
    json_t *out = json_pack("{s:b, s:s, s:O, s:I, s:o}", "success", !error, "query", s->query,
                            "results", s->results, "total", (json_int_t)n, "message", message);
    if (error)
        json_object_set_new(out, "error", json_string(error));
    return out;
}

static int parse_args(const struct toolnet *net, const json_t *args, struct search *s,
                      struct error *err)
{
    int r = args_string(args, "query", &s->query, err);
    if (r < 0 || (r = args_timeout(net, args, &s->timeout_ms, err)) < 0 ||
        (r = json_member_int(args, "max_results", INT64_MIN, INT64_MAX, &s->max_results, err)) <
            0 ||
        (r = json_member_string(args, "language", &s->language, err)) < 0)
        return r;
    /* Models ask for any number; as many as there may be is no less than they meant. */
    if (s->max_results <= 0)
        s->max_results = TOOLNET_SEARCH_RESULTS;
    if (s->max_results > TOOLNET_SEARCH_RESULTS_MAX)
        s->max_results = TOOLNET_SEARCH_RESULTS_MAX;
    if (strlen(s->query) > TOOLNET_QUERY_MAX)
        return error_field(err, "query", "'query' is longer than %d bytes", TOOLNET_QUERY_MAX);
    if (strlen(s->language) > LANGUAGE_MAX)
        return error_field(err, "language", "'language' must be a code like \"en\" or \"de-CH\"");
    for (const char *p = s->language; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-')
            return error_field(err, "language",
                               "'language' must be a code like \"en\" or \"de-CH\"");
    return 0;
}

/* The endpoint is the operator's and may have a query of its own, to which these are added. */
static char *search_url(const struct toolnet *net, const char *query)
{
    static const char *const fixed[][2] = {
        {"format", "json"}, {"no_html", "1"}, {"no_redirect", "1"}, {"skip_disambig", "1"}};
    char *url = location_add_query(net->search_endpoint, "q", query);
    for (size_t i = 0; url && i < ELEMENTS(fixed); i++) {
        char *longer = location_add_query(url, fixed[i][0], fixed[i][1]);
        free(url);
        url = longer;
    }
    return url;
}

static int ask_engine(const struct toolnet *net, struct search *s, struct transfer_response *res,
                      struct error *err)
{
    _cleanup_free_ char *url = search_url(net, s->query);
    if (!url)
        return error_set(err, ERROR_TOOL_FAILED, 0, "the search endpoint is not a valid URL");
    struct transfer_request req = {.method = "GET", .url = url, .timeout_ms = s->timeout_ms};
    transfer_add_header(&req, "Accept", "application/json", NULL);
    if (*s->language)
        transfer_add_header(&req, "Accept-Language", s->language, NULL);
    int r = transfer_run(net, &req, res, err);
    transfer_request_done(&req);
    if (r < 0)
        return r;
    if (res->status < 200 || res->status > 299)
        return error_set(err, ERROR_TOOL_FAILED, 0, "the search endpoint answered HTTP %s",
                         res->status_text);
    struct error bad = {0};
    _cleanup_json_ json_t *doc =
        json_parse_object(res->body.data ? res->body.data : "", res->body.len, &bad);
    if (!doc)
        return error_set(err, ERROR_TOOL_FAILED, 0, "the search endpoint did not answer with JSON");
    const char *abstract = *json_member_text(doc, "AbstractText") ? "AbstractText" : "Abstract";
    add_headline(s, doc, abstract, "AbstractURL", "AbstractSource");
    add_headline(s, doc, "Definition", "DefinitionURL", "DefinitionSource");
    add_topics(s, json_object_get(doc, "Results"));
    add_topics(s, json_object_get(doc, "RelatedTopics"));
    return 0;
}

int toolnet_web_search(const struct toolnet *net, const json_t *args, json_t **ret,
                       struct error *err)
{
    struct transfer_response res = {0};
    struct search s = {.max_results = TOOLNET_SEARCH_RESULTS, .language = ""};
    int r = parse_args(net, args, &s, err);
    if (r < 0)
        return r;
    s.results = json_array();
    r = ask_engine(net, &s, &res, err);
    _cleanup_free_ char *failure = r < 0 ? transfer_failure_text(&res, err) : NULL;
    *ret = format_result(&s, failure);
    json_decref(s.results);
    transfer_response_done(&res);
    return r;
}
