/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a watch: whole, and in two pieces at a place that the first byte chooses. Both say
 * the same events, and every event can be resumed from. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kube/watch-stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    size_t n;
    unsigned long sum;
};

static int on_event(void *data, const struct kube_event *event)
{
    struct seen *s = data;
    s->n++;
    for (const char *p = event->version; *p; p++)
        s->sum = s->sum * 31 + (unsigned char)*p;
    if (event->type != KUBE_ERROR && !*event->version)
        abort();
    return event->type == KUBE_ERROR ? -1 : 0;
}

static int feed_pieces(struct seen *s, const char *text, size_t len, size_t cut)
{
    struct kube_watch_stream stream;
    *s = (struct seen){0};
    kube_watch_stream_init(&stream, on_event, s);
    int r = kube_watch_stream_feed(&stream, text, cut);
    r = r < 0 ? r : kube_watch_stream_feed(&stream, text + cut, len - cut);
    kube_watch_stream_done(&stream);
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole, pieces;
    if (size == 0)
        return 0;
    const char *text = (const char *)data + 1;
    size_t len = size - 1;
    int a = feed_pieces(&whole, text, len, len);
    int b = feed_pieces(&pieces, text, len, len * data[0] / 255);
    if (a != b || whole.n != pieces.n || whole.sum != pieces.sum)
        abort();
    return 0;
}
