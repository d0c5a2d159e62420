/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/diff.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strbuf.h"

#define CONTEXT   3
#define CELLS_MAX (1024 * 1024) /* of the table of common lines; above it nothing is matched */

struct line {
    const char *text;
    size_t len;
};

struct side {
    struct line *lines;
    size_t n;
};

static void split_lines(const char *text, size_t len, struct side *ret)
{
    size_t room = 16;
    ret->n = 0;
    ret->lines = xcalloc(room, sizeof(*ret->lines));
    while (len) {
        const char *end = memchr(text, '\n', len);
        size_t n = end ? (size_t)(end - text) : len;
        if (ret->n == room)
            ret->lines = xrealloc(ret->lines, (room *= 2) * sizeof(*ret->lines));
        ret->lines[ret->n++] = (struct line){text, n};
        n += end != NULL;
        text += n;
        len -= n;
    }
}

static bool same_line(const struct line *a, const struct line *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static int put_line(struct strbuf *out, char mark, const struct line *l)
{
    int r = strbuf_append(out, &mark, 1);
    if (r < 0)
        return r;
    r = strbuf_append(out, l->text, l->len);
    if (r < 0)
        return r;
    return strbuf_append(out, "\n", 1);
}

static int put_all(struct strbuf *out, char mark, const struct line *l, size_t n)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < n; i++)
        r = put_line(out, mark, &l[i]);
    return r;
}

/* longest[i][j]: common lines of a[i..] and b[j..]. */
static int put_middle(struct strbuf *out, const struct line *a, size_t n, const struct line *b,
                      size_t m)
{
    if (!n || !m || n + 1 > CELLS_MAX / (m + 1)) {
        int r = put_all(out, '-', a, n);
        if (r < 0)
            return r;
        return put_all(out, '+', b, m);
    }
    uint32_t *longest = xcalloc((n + 1) * (m + 1), sizeof(*longest));
#define AT(i, j) longest[(i) * (m + 1) + (j)]
    for (size_t i = n; i-- > 0;)
        for (size_t j = m; j-- > 0;)
            AT(i, j) = same_line(&a[i], &b[j])       ? AT(i + 1, j + 1) + 1
                       : AT(i + 1, j) > AT(i, j + 1) ? AT(i + 1, j)
                                                     : AT(i, j + 1);
    int r = 0;
    size_t i = 0, j = 0;
    while (r >= 0 && (i < n || j < m)) {
        if (i < n && j < m && same_line(&a[i], &b[j])) {
            r = put_line(out, ' ', &a[i]);
            i++, j++;
        } else if (i < n && (j == m || AT(i + 1, j) >= AT(i, j + 1))) {
            r = put_line(out, '-', &a[i++]);
        } else {
            r = put_line(out, '+', &b[j++]);
        }
    }
#undef AT
    free(longest);
    return r;
}

int diff_lines(const char *before, size_t before_len, const char *after, size_t after_len,
               struct strbuf *out)
{
    struct side a, b;
    split_lines(before, before_len, &a);
    split_lines(after, after_len, &b);
    size_t head = 0, tail = 0;
    while (head < a.n && head < b.n && same_line(&a.lines[head], &b.lines[head]))
        head++;
    while (tail < a.n - head && tail < b.n - head &&
           same_line(&a.lines[a.n - 1 - tail], &b.lines[b.n - 1 - tail]))
        tail++;
    size_t from = head > CONTEXT ? head - CONTEXT : 0, after_tail = tail < CONTEXT ? tail : CONTEXT;
    size_t n = a.n - head - tail, m = b.n - head - tail, shown = head - from;
    int r = strbuf_printf(out, "@@ -%zu,%zu +%zu,%zu @@\n", from + 1, shown + n + after_tail,
                          from + 1, shown + m + after_tail);
    if (r >= 0 && (r = put_all(out, ' ', a.lines + from, shown)) >= 0 &&
        (r = put_middle(out, a.lines + head, n, b.lines + head, m)) >= 0)
        r = put_all(out, ' ', a.lines + a.n - tail, after_tail);
    free(a.lines);
    free(b.lines);
    return r;
}
