/* SPDX-License-Identifier: Apache-2.0 */
/* HTML to text and markdown: what comes out of what goes in, and that nothing odd breaks it. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"
#include "base/utf8.h"
#include "tests/unit/tap.h"
#include "toolnet/body.h"
#include "toolnet/html.h"

#define BASE "http://site.example/dir/page"
#define MIB  ((size_t)1 << 20)

static const struct {
    const char *html, *text, *markdown;
} pages[] = {
    {"", "", ""},
    {"plain", "plain", "plain"},
    {"<p>one</p><p>two</p>", "one\n\ntwo", "one\n\ntwo"},
    {"<div>one</div><div>two</div>", "one\ntwo", "one\n\ntwo"},
    {"<p>  much \n\t white   space </p>", "much white space", "much white space"},
    {"a<br>b", "a\nb", "a  \nb"},
    {"<h1>H</h1>t<h3>K</h3>", "H\n\nt\n\nK", "# H\n\nt\n\n### K"},
    {"<p>a<b> b </b>c</p>", "a b c", "a **b** c"},
    {"<em>a</em><i></i><b> </b> <del>c</del>", "a c", "*a* ~~c~~"},
    {"<b><i>x</i></b>", "x", "***x***"},
    {"x<script>no()</script><style>no{}</style>y<noscript>z</noscript>", "xyz", "xyz"},
    {"<template>no</template><svg><text>no</text></svg>yes", "yes", "yes"},
    {"<p hidden>no</p><p style='color:red; Display : NONE'>no</p>yes", "yes", "yes"},
    {"<title>no</title><body>yes", "yes", "yes"},
    {"<!-- no --><p>yes", "yes", "yes"},
    /* links and images */
    {"<a href='http://a.example/x'>t</a>", "t", "[t](http://a.example/x)"},
    {"<a href='/x'>t</a>", "t", "[t](http://site.example/x)"},
    {"<a href='y?q=1&amp;r=2'>t</a>", "t", "[t](http://site.example/dir/y?q=1&r=2)"},
    {"<a href='//b.example/'>t</a>", "t", "[t](http://b.example/)"},
    {"<a href='/a b(c)[d]'>t</a>", "t", "[t](http://site.example/a%20b%28c%29%5Bd%5D)"},
    {"<a href='mailto:a@b.example'>t</a>", "t", "[t](mailto:a@b.example)"},
    {"<a href='javascript:alert(1)'>t</a>", "t", "t"},
    {"<a href=' JavaScript:alert(1)'>t</a>", "t", "t"},
    {"<a href='data:text/html,x'>t</a>", "t", "t"},
    {"<a href='#frag'>t</a><a>u</a><a href='/v'></a>", "tu", "tu"},
    {"a <a href='/x'> b </a> c", "a b c", "a [b](http://site.example/x) c"},
    {"<img src='i.png' alt='A'>", "A", "![A](http://site.example/dir/i.png)"},
    {"<img src='data:image/png;base64,AAAA' alt='A'>", "A", "A"},
    /* lists and quotes */
    {"<ul><li>a<li>b</ul>", "- a\n- b", "- a\n- b"},
    {"<ol><li>a<li>b</ol>", "1. a\n2. b", "1. a\n2. b"},
    {"<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n  - b\n- c", "- a\n  - b\n- c"},
    {"<ol><li><p>a</p><p>b</p></ol>", "1. a\n\n   b", "1. a\n\n   b"},
    {"<p>x<ul><li>a</ul>y", "x\n\n- a\n\ny", "x\n\n- a\n\ny"},
    {"<li>stray", "- stray", "- stray"},
    {"<blockquote><p>a<p>b</blockquote>c", "  a\n\n  b\n\nc", "> a\n>\n> b\n\nc"},
    {"x<blockquote><ul><li>a</ul></blockquote>", "x\n\n  - a", "x\n\n> - a"},
    /* code */
    {"<code>a*b</code>", "a*b", "`a*b`"},
    {"<code>a`b</code>", "a`b", "``a`b``"},
    {"<code>`</code>", "`", "`` ` ``"},
    {"<pre>\na\n  b\n\nc\n</pre>", "a\n  b\n\nc", "```\na\n  b\n\nc\n```"},
    {"<pre><code class='language-c'>x;</code></pre>", "x;", "```c\nx;\n```"},
    {"<pre>```</pre>", "```", "````\n```\n````"},
    {"<ul><li><pre>a\nb</pre></ul>", "- a\n  b", "- ```\n  a\n  b\n  ```"},
    /* tables */
    {"<table><tr><th>A<th>B<tr><td>1<td>2</table>", "A | B\n1 | 2",
     "| A | B |\n| --- | --- |\n| 1 | 2 |"},
    {"<table><tr><td>a|b<td><p>c</p><p>d</p></table>", "a|b | c d",
     "| a\\|b | c d |\n| --- | --- |"},
    {"<table><tr><td><table><tr><td>in</table></table>", "in", "| in |\n| --- |"},
    {"<table><tr><td><ul><li>a</ul><td>b</table>", "- a\n\nb", "- a\n\nb"},
    /* what would be read as markup */
    {"*a* _b_ snake_case [c] `d` \\", "*a* _b_ snake_case [c] `d` \\",
     "\\*a\\* \\_b\\_ snake_case \\[c\\] \\`d\\` \\\\"},
    {"<p># a<p>1. b<p>- c<p>&gt; d<p>2020 e", "# a\n\n1. b\n\n- c\n\n> d\n\n2020 e",
     "\\# a\n\n1\\. b\n\n\\- c\n\n\\> d\n\n2020 e"},
    {"&lt;b&gt; a &lt; b", "<b> a < b", "\\<b> a < b"},
    /* entities and odd input */
    {"&eacute;&#233;&#xe9;&amp;&unknown;", "ééé&&unknown;", "ééé&&unknown;"},
    {"<p>a<p><<>><b", "a\n\n<<>>", NULL},
    {"</p></div></body></html>x", "x", "x"},
    {"<b><p>a</b>b", NULL, NULL},
    {"<p a=1 a=2 =3 '\">x</p>", NULL, NULL},
    {"<table><td>x<table><td>y", NULL, NULL},
    {"<![CDATA[x]]><?php y ?><!DOCTYPE", NULL, NULL},
    {"\xf0\x9f\x98\x80<b>\xe2\x82\xac</b>", "😀€", "😀**€**"},
};

static void check(const char *html, const char *want, enum html_format format)
{
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(MIB);
    int r = html_convert(html, strlen(html), BASE, format, &out);
    const char *got = out.data ? out.data : "";
    bool valid = utf8_valid_prefix(got, out.len) == out.len;
    bool same = !want || strcmp(got, want) == 0;
    if (!ok(r == 0 && valid && same, "%s of %.*s", format == HTML_TEXT ? "text" : "markdown",
            (int)strcspn(html, "\n"), html))
        printf("# got  '%s'\n# want '%s'\n", got, want ? want : "(anything)");
}

static void test_pages(void)
{
    for (size_t i = 0; i < ELEMENTS(pages); i++) {
        check(pages[i].html, pages[i].text, HTML_TEXT);
        check(pages[i].html, pages[i].markdown, HTML_MARKDOWN);
    }
}

/* prefix, then part n times. */
static char *repeat(const char *prefix, const char *part, size_t n)
{
    struct strbuf b = STRBUF_INIT(64 * MIB);
    strbuf_puts(&b, prefix);
    for (size_t i = 0; i < n; i++)
        strbuf_puts(&b, part);
    return strbuf_steal(&b);
}

static void test_bombs(void)
{
    static const char *const parts[] = {
        "<div>",
        "<ul><li>",
        "<blockquote>",
        "<b>",
        "<table><tr><td>",
        "<a href=/x>",
        "<p>",
        "<font>x",
        "<span>x",
        "<ol><li>x",
        "</div>",
        "<td>",
        "&amp;",
        "<",
        "&#",
        "<!--",
        "<pre>",
        "<code>",
        "<li>x",
        "<dl><dd>",
        "\n",
        "<h1>",
        "<select><option>",
        "<svg>",
        "<x y=",
        "<br>",
        "<i></i>",
        "]]>",
    };
    for (size_t i = 0; i < ELEMENTS(parts); i++)
        for (int format = 0; format < _HTML_FORMAT_MAX; format++) {
            _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(MIB);
            _cleanup_free_ char *html = repeat("<body>start ", parts[i], 60000);
            int r = html_convert(html, strlen(html), BASE, (enum html_format)format, &out);
            ok((r == 0 || r == -EFBIG) && out.len <= MIB &&
                   utf8_valid_prefix(out.data ? out.data : "", out.len) == out.len,
               "60000 times %s: %zu bytes", *parts[i] == '\n' ? "newline" : parts[i], out.len);
        }
}

static void test_limit(void)
{
    _cleanup_free_ char *html = repeat("<p>", "\xe2\x82\xac ", 1000);
    for (size_t max = 0; max < 20; max++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(max);
        int r = html_convert(html, strlen(html), NULL, HTML_TEXT, &out);
        ok(r == -EFBIG && out.len <= max &&
               utf8_valid_prefix(out.data ? out.data : "", out.len) == out.len,
           "cut at %zu bytes, in whole characters (%zu)", max, out.len);
    }
}

/* The tree is bounded, not only the text: 5 MiB of small elements would take 400 MiB. */
static void test_node_limit(void)
{
    static const char *const parts[] = {"<p>x", "<a b>", "<br>"};
    for (size_t i = 0; i < ELEMENTS(parts); i++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(4 * MIB);
        _cleanup_free_ char *html = repeat("<body>", parts[i], HTML_NODES_MAX + 1);
        ok(html_convert(html, strlen(html), NULL, HTML_TEXT, &out) == -EFBIG,
           "a page of %d times %s is cut", HTML_NODES_MAX + 1, parts[i]);
    }
    _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(4 * MIB);
    _cleanup_free_ char *html = repeat("<body>", "<p>x</p>", HTML_NODES_MAX / 2);
    ok(html_convert(html, strlen(html), NULL, HTML_TEXT, &out) == 0, "half of it is not");
    _cleanup_free_ char *deep = repeat("<body>", "<b>x", 1000);
    ok(html_convert(deep, strlen(deep), NULL, HTML_TEXT, &out) == -EFBIG,
       "too deep is cut, and said");
}

static void test_charsets(void)
{
    static const struct {
        const char *data;
        size_t len;
        const char *charset, *want;
    } cases[] = {
        {"caf\xc3\xa9", 5, "", "café"},
        {"caf\xe9", 4, "", "café"},
        {"caf\xe9", 4, "iso-8859-1", "café"},
        {"\x93q\x94", 3, "iso-8859-1", "“q”"},
        {"\xa4", 1, "iso-8859-15", "€"},
        {"\x82\xa0", 2, "shift_jis", "あ"},
        {"\xff\xfe\x41\x00", 4, "utf-16", "A"},
        {"\x41\x00", 2, "utf-16le", "A"},
        {"a\xff"
         "b",
         3, "utf-8",
         "a\xef\xbf\xbd"
         "b"},
        {"caf\xe9", 4, "no-such-charset", "café"},
        {"\xe3\x81", 2, "euc-jp", NULL},
        {"", 0, "utf-8", ""},
    };
    for (size_t i = 0; i < ELEMENTS(cases); i++) {
        _cleanup_strbuf_ struct strbuf out = STRBUF_INIT(100);
        int r = body_to_utf8(cases[i].data, cases[i].len, cases[i].charset, &out);
        const char *got = out.data ? out.data : "";
        ok(r == 0 && utf8_valid_prefix(got, out.len) == out.len &&
               (!cases[i].want || strcmp(got, cases[i].want) == 0),
           "case %zu from '%s': %s", i, cases[i].charset, got);
    }
    static const char *const types[][2] = {{"text/html; charset=UTF-8", "utf-8"},
                                           {"text/html;Charset = \"Latin1\"; x=y", "latin1"},
                                           {"text/html", ""},
                                           {"charset", ""},
                                           {"text/html; charset=", ""},
                                           {NULL, ""}};
    for (size_t i = 0; i < ELEMENTS(types); i++) {
        char charset[BODY_CHARSET_SIZE];
        body_charset(types[i][0], charset);
        ok(strcmp(charset, types[i][1]) == 0, "charset of %s", types[i][0] ? types[i][0] : "none");
    }
}

int main(void)
{
    test_pages();
    test_bombs();
    test_limit();
    test_node_limit();
    test_charsets();
    return tap_done();
}
