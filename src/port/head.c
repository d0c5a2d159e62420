/* SPDX-License-Identifier: Apache-2.0 */
#include "port/head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "net/scan.h"

#define LENGTH_MAX (UINT64_C(1) << 60)

struct reader {
    char *at, *end; /* end is behind the empty line */
    const char **why;
};

static ssize_t refuse_head(const char **ret_why, const char *why)
{
    *ret_why = why;
    return -EBADMSG;
}

/* The length of the head with its empty line; 0: more is needed. */
static size_t find_end(const char *data, size_t len)
{
    const char *end = memmem(data, len, "\r\n\r\n", 4);
    return end ? (size_t)(end - data) + 4 : 0;
}

/* A line without its CRLF, terminated; NULL where a byte may not be in it. */
static char *take_line(struct reader *r)
{
    char *line = r->at;
    for (; r->at < r->end; r->at++) {
        unsigned char c = (unsigned char)*r->at;
        if (c == '\r' && r->at + 1 < r->end && r->at[1] == '\n') {
            *r->at = 0;
            r->at += 2;
            return line;
        }
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return NULL;
    }
    return NULL;
}

/* "HTTP/1.x SP status [SP reason]" */
static int parse_status(const char *line, bool *ret_http10, int *ret)
{
    if (strncmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') || line[8] != ' ')
        return -EBADMSG;
    int status = 0;
    for (int i = 9; i < 12; i++) {
        if (line[i] < '0' || line[i] > '9')
            return -EBADMSG;
        status = status * 10 + line[i] - '0';
    }
    if ((line[12] != ' ' && line[12] != 0) || status < 100 || status > 599)
        return -EBADMSG;
    *ret_http10 = line[7] == '0';
    *ret = status;
    return 0;
}

static int parse_field(char *line, struct port_field *ret)
{
    char *colon = line;
    while (scan_is_token((unsigned char)*colon))
        colon++;
    if (colon == line || *colon != ':')
        return -EBADMSG;
    *colon = 0;
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t n = strlen(value);
    while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
        n--;
    value[n] = 0;
    *ret = (struct port_field){line, value};
    return 0;
}

static int parse_length(const char *text, uint64_t *ret)
{
    uint64_t n = 0;
    if (!*text)
        return -EBADMSG;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || n > LENGTH_MAX / 10)
            return -EBADMSG;
        n = n * 10 + (uint64_t)(*text - '0');
    }
    *ret = n;
    return 0;
}

/* What the framing fields say; a field twice is ambiguous, even with the same value. */
struct framing {
    const char *length, *coding;
    bool twice;
};

/* True: the field is about this connection, and is not kept. */
static bool take_framing(struct framing *f, const struct port_field *field)
{
    static const char *const own[] = {
        "Connection", "Keep-Alive", "Proxy-Connection",         "Proxy-Authenticate",
        "Trailer",    "TE",         "Proxy-Authentication-Info"};
    const char **place = !strcasecmp(field->name, "Content-Length")      ? &f->length
                         : !strcasecmp(field->name, "Transfer-Encoding") ? &f->coding
                                                                         : NULL;
    if (place) {
        f->twice |= *place != NULL;
        *place = field->value;
        return true;
    }
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        if (!strcasecmp(field->name, own[i]))
            return true;
    return false;
}

static int decide_framing(struct port_head *h, const struct framing *f, bool http10, bool bodiless,
                          const char **ret_why)
{
    *ret_why = "its answer says twice, or in two ways, how long it is";
    if (f->twice || (f->length && f->coding))
        return -EBADMSG;
    *ret_why = "the transfer coding of its answer is not 'chunked' in HTTP/1.1";
    if (f->coding && (http10 || strcasecmp(f->coding, "chunked") != 0))
        return -EBADMSG;
    *ret_why = "the Content-Length of its answer is not a number that a body can have";
    if (f->length && parse_length(f->length, &h->length) < 0)
        return -EBADMSG;
    h->has_length = f->length;
    if (bodiless || h->status < 200 || h->status == 204 || h->status == 304)
        h->framing = PORT_BODY_NONE;
    else if (f->coding)
        h->framing = PORT_BODY_CHUNKED;
    else
        h->framing = f->length ? PORT_BODY_LENGTH : PORT_BODY_UNTIL_END;
    return 0;
}

static int parse_fields(struct reader *r, struct port_head *h, struct framing *f)
{
    for (;;) {
        struct port_field field;
        char *line = take_line(r);
        *r->why = "the head of its answer is malformed";
        if (!line)
            return -EBADMSG;
        if (!*line)
            return 0;
        if (parse_field(line, &field) < 0)
            return -EBADMSG;
        *r->why = "its answer has more than 100 header fields";
        if (h->n_fields == PORT_FIELDS_MAX)
            return -EBADMSG;
        if (!take_framing(f, &field))
            h->fields[h->n_fields++] = field;
    }
}

ssize_t port_head_parse(char *data, size_t len, bool bodiless, struct port_head *ret,
                        const char **ret_why)
{
    size_t size = find_end(data, len);
    bool http10;
    struct framing f = {0};
    if (!size && len < PORT_HEAD_MAX)
        return 0;
    if (!size || size > PORT_HEAD_MAX)
        return refuse_head(ret_why, "the head of its answer is too long");
    struct reader r = {data, data + size, ret_why};
    ret->n_fields = 0;
    ret->length = 0;
    char *line = take_line(&r);
    if (!line || parse_status(line, &http10, &ret->status) < 0)
        return refuse_head(ret_why, "its answer is not HTTP/1");
    if (parse_fields(&r, ret, &f) < 0 || decide_framing(ret, &f, http10, bodiless, ret_why) < 0)
        return -EBADMSG;
    return r.at == data + size ? (ssize_t)size
                               : refuse_head(ret_why, "the head of its answer is malformed");
}

const char *port_head_find(const struct port_head *h, const char *name)
{
    for (size_t i = 0; i < h->n_fields; i++)
        if (!strcasecmp(h->fields[i].name, name))
            return h->fields[i].value;
    return NULL;
}
