/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/kube-exchange.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/base64.h"
#include "base/strbuf.h"
#include "net/chunk.h"

#define FILE_MAX (4u << 20)

static char *read_file(const char *dir, const char *file, size_t *ret_len)
{
    char path[4096];
    struct strbuf b = STRBUF_INIT(FILE_MAX);
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    FILE *f = fopen(path, "re");
    if (!f) {
        printf("Bail out! %s cannot be read\n", path);
        exit(1);
    }
    strbuf_reserve(&b, FILE_MAX);
    size_t n = fread(b.data, 1, FILE_MAX, f);
    fclose(f);
    strbuf_commit(&b, n);
    *ret_len = n;
    return strbuf_steal(&b);
}

static void append_frame(struct strbuf *b, unsigned fin, unsigned opcode, const char *text)
{
    char *payload = NULL;
    size_t len = 0;
    if (*text == '*') {
        len = strtoul(text + 1, NULL, 10);
        payload = xcalloc(1, len + 1);
        payload[0] = 1; /* standard output, zeros */
    } else if (*text != '-') {
        base64_decode(text, strlen(text), &payload, &len);
    }
    unsigned char head[10] = {(unsigned char)(fin << 7 | opcode)};
    size_t n = 2;
    if (len < 126) {
        head[1] = (unsigned char)len;
    } else if (len < 65536) {
        head[1] = 126;
        head[2] = (unsigned char)(len >> 8);
        head[3] = (unsigned char)len;
        n = 4;
    } else {
        head[1] = 127;
        for (int i = 0; i < 8; i++)
            head[2 + i] = (unsigned char)(len >> (56 - 8 * i));
        n = 10;
    }
    strbuf_append(b, head, n);
    strbuf_append(b, payload, len);
    free(payload);
}

/* Up to the next "@" or the end; returns it. */
static char *load_exec(struct exchange *x, char *at)
{
    struct strbuf head = STRBUF_INIT(65536), frames = STRBUF_INIT(FILE_MAX);
    char *end;
    for (; *at != '\n'; at = end + 1) {
        end = strchr(at, '\n');
        strbuf_printf(&head, "%.*s\r\n", (int)(end - at), at);
    }
    strbuf_puts(&head, "\r\n");
    for (at++; *at && *at != '@'; at = end + 1) {
        unsigned fin, opcode;
        int used = 0;
        end = strchr(at, '\n');
        *end = 0;
        if (sscanf(at, "%u %u %n", &fin, &opcode, &used) == 2)
            append_frame(&frames, fin, opcode, at + used);
    }
    x->head = strbuf_steal(&head);
    x->len = frames.len;
    x->bytes = strbuf_steal(&frames);
    return at;
}

void exchanges_load(struct exchanges *ret, const char *dir, const char *file)
{
    size_t len;
    char *text = read_file(dir, file, &len), *at = text;
    *ret = (struct exchanges){0};
    bool execs = strcmp(file, "execs.txt") == 0;
    while (at < text + len && ret->n < EXCHANGES_MAX) {
        struct exchange *x = &ret->all[ret->n++];
        char name[128], method[16] = "GET", target[2048];
        int r = execs ? sscanf(at, "@ %127s %2047s", name, target)
                      : sscanf(at, "@ %127s %15s %2047s %zu", name, method, target, &x->len);
        if (r != (execs ? 2 : 4)) {
            printf("Bail out! %s: not an exchange\n", file);
            exit(1);
        }
        x->name = xstrdup(name);
        x->method = xstrdup(method);
        x->target = xstrdup(target);
        at = strchr(at, '\n') + 1;
        if (execs) {
            at = load_exec(x, at);
            continue;
        }
        x->bytes = xcalloc(1, x->len + 1);
        memcpy(x->bytes, at, x->len);
        at += x->len + 1;
    }
    free(text);
}

void exchanges_done(struct exchanges *e)
{
    for (size_t i = 0; i < e->n; i++) {
        free(e->all[i].name);
        free(e->all[i].method);
        free(e->all[i].target);
        free(e->all[i].head);
        free(e->all[i].bytes);
    }
}

const struct exchange *exchange_find(const struct exchanges *e, const char *name)
{
    for (size_t i = 0; i < e->n; i++)
        if (strcmp(e->all[i].name, name) == 0)
            return &e->all[i];
    printf("Bail out! no exchange %s\n", name);
    exit(1);
}

char *exchange_upgrade(const struct exchange *x, const char *key, size_t *ret_len)
{
    static const char name[] = "Sec-WebSocket-Accept: ";
    char text[80], accept[29];
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct strbuf b = STRBUF_INIT(FILE_MAX);
    int n = snprintf(text, sizeof(text), "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    EVP_Digest(text, (size_t)n, digest, NULL, EVP_sha1(), NULL);
    EVP_EncodeBlock((unsigned char *)accept, digest, 20);
    strbuf_puts(&b, x->head);
    char *at = strstr(b.data, name);
    memcpy(at + strlen(name), accept, 28); /* of the same length */
    strbuf_append(&b, x->bytes, x->len);
    *ret_len = b.len;
    return strbuf_steal(&b);
}

int exchange_code(const struct exchange *x)
{
    return atoi(x->bytes + strlen("HTTP/1.1 "));
}

size_t exchange_body(const struct exchange *x)
{
    return (size_t)(strstr(x->bytes, "\r\n\r\n") - x->bytes) + 4;
}

char *exchange_decode(const struct exchange *x, size_t *ret_len)
{
    struct strbuf b = STRBUF_INIT(FILE_MAX);
    size_t at = exchange_body(x);
    struct chunk_decoder d = {0};
    const char *coding = strcasestr(x->bytes, "Transfer-Encoding: chunked");
    strbuf_puts(&b, "");
    if (!coding || coding > x->bytes + at)
        strbuf_append(&b, x->bytes + at, x->len - at);
    else
        while (at < x->len && !d.done) {
            const char *piece;
            size_t n;
            ssize_t used = chunk_decode(&d, x->bytes + at, x->len - at, &piece, &n);
            if (used <= 0)
                break;
            strbuf_append(&b, piece, n);
            at += (size_t)used;
        }
    *ret_len = b.len;
    return strbuf_steal(&b);
}
