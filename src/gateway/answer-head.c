/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/answer-head.h"

#include <string.h>

#include "base/alloc.h"
#include "base/http-head.h"

#define ANSWER_HEAD_MAX (2 * HTTP_HEAD_MAX)

void answer_head_init(struct answer_head *a, const char *method)
{
    *a = (struct answer_head){.of_head = method && strcmp(method, "HEAD") == 0};
    strbuf_init(&a->data, ANSWER_HEAD_MAX);
}

void answer_head_done(struct answer_head *a)
{
    strbuf_done(&a->data);
}

static bool head_says_end(struct http_head *h, bool of_head)
{
    const struct http_header *length, *coding;
    uint64_t bytes;
    if (of_head || h->status == 204 || h->status == 304)
        return true;
    if (http_head_find_length(h, &length, &bytes) != 0 ||
        http_head_find_once(h, "Transfer-Encoding", &coding) != 0)
        return false;
    return coding ? text_is(coding->value, "chunked") : length != NULL;
}

/* Answers of the 100s go before the final one. False while more of a head must come. */
static bool read_next_head(struct answer_head *a)
{
    size_t len = http_head_length(a->data.data, a->data.len);
    if (!len)
        return false;
    _cleanup_free_ struct http_head *h = new0(struct http_head);
    if (http_head_parse_answer(h, a->data.data, len) != 0) {
        a->done = true;
        return true;
    }
    a->done = h->status >= 200 || h->status == 101;
    a->says_end = a->done && h->status != 101 && head_says_end(h, a->of_head);
    strbuf_consume(&a->data, len);
    return true;
}

void answer_head_take(struct answer_head *a, const char *data, size_t len)
{
    a->begun = a->begun || len > 0;
    if (a->done || len == 0)
        return;
    size_t room = ANSWER_HEAD_MAX - a->data.len;
    strbuf_append(&a->data, data, len < room ? len : room);
    while (!a->done && read_next_head(a))
        ;
    a->done = a->done || len >= room;
    if (a->done)
        strbuf_done(&a->data);
}

bool answer_head_says_end(const struct answer_head *a)
{
    return a->says_end;
}
