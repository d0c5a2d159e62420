/* SPDX-License-Identifier: Apache-2.0 */
/* What answers an upgrade: with an even first byte frames behind a good head, else all of it. Whole
 * and in two pieces it means the same; a status is needed for any exit. */
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "kube/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
    size_t bytes;
    unsigned long sum;
};

static void on_output(void *data, unsigned channel, const void *bytes, size_t len)
{
    struct heard *h = data;
    const uint8_t *p = bytes;
    if (channel != KUBE_STDOUT && channel != KUBE_STDERR)
        abort();
    for (size_t i = 0; i < len; i++)
        h->sum += channel * (p[i] + 1);
    h->bytes += len;
}

static void append_head(struct strbuf *b, const char *key)
{
    char text[80], accept[29];
    unsigned char digest[EVP_MAX_MD_SIZE];
    int n = snprintf(text, sizeof(text), "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    EVP_Digest(text, (size_t)n, digest, NULL, EVP_sha1(), NULL);
    EVP_EncodeBlock((unsigned char *)accept, digest, 20);
    strbuf_printf(b,
                  "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n"
                  "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n",
                  accept);
}

static void run(const uint8_t *data, size_t size, unsigned cut, struct heard *h,
                struct kube_exit *ret)
{
    static const struct kube_channel_events events = {.on_output = on_output};
    static const struct kube_channel_request request = {.host = "h", .target = "/"};
    _cleanup_strbuf_ struct strbuf b = STRBUF_INIT(4u << 20);
    size_t len;
    *h = (struct heard){0};
    struct kube_channel *c = kube_channel_new(&request, &events, h);
    const char *out = kube_channel_output(c, &len);
    if (data[0] % 2 == 0)
        append_head(&b, strstr(out, "Key: ") + 5);
    strbuf_append(&b, data + 1, size - 1);
    kube_channel_sent(c, len);
    size_t at = b.len * cut / 255;
    if (kube_channel_feed(c, b.data, at) == 0)
        kube_channel_feed(c, b.data + at, b.len - at);
    kube_channel_output(c, &len);
    if (len > KUBE_CHANNEL_OUTPUT_MAX + (64u << 10))
        abort();
    kube_channel_sent(c, len / 2);
    kube_channel_end(c);
    if (kube_channel_state(c) != KUBE_CHANNEL_ENDED)
        abort();
    *ret = *kube_channel_exit(c);
    kube_channel_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard a, b;
    struct kube_exit whole, pieces;
    if (size < 2)
        return 0;
    run(data, size, 255, &a, &whole);
    run(data, size, data[0], &b, &pieces);
    if (whole.kind != pieces.kind || whole.code != pieces.code || a.bytes != b.bytes ||
        a.sum != b.sum)
        abort();
    return 0;
}
